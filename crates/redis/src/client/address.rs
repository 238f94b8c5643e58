//! Parses server addresses, and shows them without passwords.

use std::fmt;

/// The default ports of a server and of a Sentinel.
const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// The most servers that an address may name.
const ADDRESSES_MAX: usize = 64;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisAddress {
    pub(super) topology: Topology,
    pub(super) login: Option<Login>,
    pub(super) db: i64,
    pub(super) tls: bool,
}

/// How the server is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Single(HostPort),
    Sentinel { sentinels: Vec<HostPort>, master: String },
    Cluster { seeds: Vec<HostPort> },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostPort {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The user and password to log in with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What is wrong with an address, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {problem}; {hint}")]
pub struct AddressError {
    /// The address without user and password.
    address: String,
    problem: String,
    hint: &'static str,
}

const FORMS: &str = "write redis://host:port, rediss://host:port, redis+sentinel://host:port,host:port/name \
                     or redis+cluster://host:port,host:port, with user:password@ before the host if needed";

/// A problem and a hint, without the address.
struct Wrong {
    problem: String,
    hint: &'static str,
}

fn wrong<T>(problem: impl Into<String>, hint: &'static str) -> Result<T, Wrong> {
    Err(Wrong { problem: problem.into(), hint })
}

impl RedisAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// When it is not a valid address.
    pub(super) fn parse(text: &str) -> Result<RedisAddress, AddressError> {
        parse_url(text).map_err(|Wrong { problem, hint }| AddressError {
            address: without_login(text),
            problem,
            hint,
        })
    }
}

/// An address without user, password and query, for messages.
pub(super) fn without_login(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let hidden = if rest.contains('@') { "…@" } else { "" };
    if scheme.is_empty() { format!("{hidden}{address}") } else { format!("{scheme}://{hidden}{address}") }
}

fn parse_url(text: &str) -> Result<RedisAddress, Wrong> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong("it has no scheme", FORMS);
    };
    let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match base {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return wrong(format!("there is no scheme {base:?}"), FORMS),
    };
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(parse_login(login)?), rest),
        None => (None, rest),
    };
    if rest.contains(['?', '#']) {
        return wrong("it has a query", "leave out everything from the question mark on");
    }
    let (addresses, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (topology, db) = match kind {
        "" => {
            let mut addresses = parse_addresses(addresses, PORT)?;
            let address = addresses.remove(0);
            if !addresses.is_empty() {
                return wrong(
                    "it names several servers",
                    "write redis+sentinel:// or redis+cluster://, or name only one",
                );
            }
            (Topology::Single(address), parse_db(path)?)
        }
        "sentinel" => {
            let (master, db) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return wrong(
                    "it does not name the master",
                    "write the master's name in Sentinel after a slash",
                );
            }
            let master = percent_decoded(master)?;
            (
                Topology::Sentinel { sentinels: parse_addresses(addresses, SENTINEL_PORT)?, master },
                parse_db(db)?,
            )
        }
        "cluster" => {
            if parse_db(path)? != 0 {
                return wrong("a Cluster has only database 0", "leave the database out");
            }
            (Topology::Cluster { seeds: parse_addresses(addresses, PORT)? }, 0)
        }
        _ => return wrong(format!("there is no scheme {scheme:?}"), FORMS),
    };
    Ok(RedisAddress { topology, login, db, tls })
}

fn parse_login(text: &str) -> Result<Login, Wrong> {
    match text.split_once(':') {
        Some((user, password)) if !password.is_empty() => {
            let user = percent_decoded(user)?;
            Ok(Login { user: (!user.is_empty()).then_some(user), password: percent_decoded(password)? })
        }
        _ => wrong(
            "it has a user without a password",
            "write user:password@, or :password@ for the default user",
        ),
    }
}

fn parse_addresses(text: &str, port: u16) -> Result<Vec<HostPort>, Wrong> {
    let addresses =
        text.split(',').map(|address| parse_address(address, port)).collect::<Result<Vec<_>, _>>()?;
    if addresses.len() > ADDRESSES_MAX {
        return wrong(
            format!("it names {} servers", addresses.len()),
            "name at most 64: the others are found through them",
        );
    }
    Ok(addresses)
}

fn parse_address(text: &str, port: u16) -> Result<HostPort, Wrong> {
    let (host, after) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, after)) => (host, after),
            None => return wrong("a bracket is not closed", "write an IPv6 address as [::1]:6379"),
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() {
        return wrong("a host is missing", FORMS);
    }
    let port = match after.strip_prefix(':') {
        None if after.is_empty() => port,
        Some(digits) => match digits.parse() {
            Ok(port) if port != 0 => port,
            _ => {
                return wrong(
                    format!("{digits:?} is not a port"),
                    "write a number from 1 to 65535 after the host",
                );
            }
        },
        None => {
            return wrong(format!("{after:?} is not a port"), "write a colon and a number after the host");
        }
    };
    Ok(HostPort { host: host.to_owned(), port })
}

fn parse_db(text: &str) -> Result<i64, Wrong> {
    match text.parse::<u16>() {
        Ok(db) => Ok(db.into()),
        Err(_) if text.is_empty() => Ok(0),
        Err(_) => wrong(
            format!("{text:?} is not a database number"),
            "write its number after the slash, or nothing",
        ),
    }
}

/// Decodes percent escapes.
fn percent_decoded(text: &str) -> Result<String, Wrong> {
    const HINT: &str = "write a percent sign as %25";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |index: usize| after.get(index).and_then(|&digit| char::from(digit).to_digit(16));
        match (digit(0), digit(1)) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits are a byte"));
                rest = &after[2..];
            }
            _ => return wrong("a percent sign is not followed by two hexadecimal digits", HINT),
        }
    }
    String::from_utf8(bytes).or_else(|_| wrong("its percent escapes are not UTF-8", HINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_port(host: &str, port: u16) -> HostPort {
        HostPort { host: host.into(), port }
    }

    fn parsed(text: &str) -> RedisAddress {
        RedisAddress::parse(text).expect("a good address")
    }

    #[test]
    fn a_single_server() {
        for (text, host, port, db, tls) in [
            ("redis://cache", "cache", 6_379, 0, false),
            ("redis://127.0.0.1:7000/3", "127.0.0.1", 7_000, 3, false),
            ("valkey://cache/", "cache", 6_379, 0, false),
            ("rediss://cache:6380", "cache", 6_380, 0, true),
            ("valkeys://[2001:db8::1]:6380/1", "2001:db8::1", 6_380, 1, true),
        ] {
            let single = Topology::Single(host_port(host, port));
            assert_eq!(parsed(text), RedisAddress { topology: single, login: None, db, tls }, "{text}");
        }
    }

    #[test]
    fn sentinels_and_the_name_of_their_master() {
        let address = parsed("rediss+sentinel://:s%40fe@a:1,b/my%20master/2");
        assert_eq!(
            address.topology,
            Topology::Sentinel {
                sentinels: vec![host_port("a", 1), host_port("b", 26_379)],
                master: "my master".into()
            }
        );
        assert_eq!((address.db, address.tls), (2, true));
        assert_eq!(address.login, Some(Login { user: None, password: "s@fe".into() }));
    }

    #[test]
    fn a_cluster_by_some_of_its_nodes() {
        let address = parsed("valkey+cluster://tide:a:b@one:7001,[::1]:7002,three");
        let seeds = vec![host_port("one", 7_001), host_port("::1", 7_002), host_port("three", 6_379)];
        assert_eq!(address.topology, Topology::Cluster { seeds });
        assert_eq!(address.login, Some(Login { user: Some("tide".into()), password: "a:b".into() }));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (text, problem) in [
            ("localhost:6379", "it has no scheme"),
            ("http://localhost", "there is no scheme \"http\""),
            ("redis+ring://localhost", "there is no scheme \"redis+ring\""),
            ("redis://", "a host is missing"),
            ("redis://a,b", "it names several servers"),
            ("redis://a:port", "\"port\" is not a port"),
            ("redis://a:0", "\"0\" is not a port"),
            ("redis://[::1", "a bracket is not closed"),
            ("redis://a/first", "\"first\" is not a database number"),
            ("redis://a?db=1", "it has a query"),
            ("redis://user@a", "it has a user without a password"),
            ("redis://:100%@a", "a percent sign is not followed by two hexadecimal digits"),
            ("redis+sentinel://a:1", "it does not name the master"),
            ("redis+cluster://a:1/4", "a Cluster has only database 0"),
        ] {
            let error = RedisAddress::parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!(": {problem}; ")), "{text}: {error}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for text in [
            "redis://tide:hunter2@a:port",
            "redis://:hunter2@:1",
            "http://x:hunter2@y/z",
            "tide:hunter2@a",
            "redis://a@hunter2:hunter2@b?hunter2",
            "redis://a?password=hunter2",
        ] {
            let error = RedisAddress::parse(text).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let address = parsed("redis://tide:hunter2@a");
        assert!(!format!("{address:?}").contains("hunter2"));
        assert_eq!(without_login("redis://tide:hunter2@a:1/2"), "redis://…@a:1/2");
    }
}
