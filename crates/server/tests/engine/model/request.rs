//! The fields of a request that a policy can use, read directly from its JSON.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;

use super::exact::decimal;

/// `defaults.paths`: which spellings of a path are equal.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spellings {
    ignore_case: bool,
    decode_slash: bool,
    strip_params: bool,
}

impl Spellings {
    pub(crate) fn of(policy: &Value) -> Spellings {
        let on = |name: &str| policy["defaults"]["paths"][name] == true;
        Spellings {
            ignore_case: on("ignore_case"),
            decode_slash: on("decode_slash"),
            strip_params: on("strip_params"),
        }
    }
}

/// A request, and the route that was found for it.
pub(crate) struct Request<'a> {
    json: &'a Value,
    pub(crate) spellings: Spellings,
    /// The pattern of `routes` that matched.
    pub(crate) route: Option<String>,
    /// The upstream of the policy with the request's host.
    pub(crate) upstream: Option<String>,
    /// `defaults.tenant`
    pub(crate) default_tenant: Option<String>,
    /// The score of its user in hundredths, if trust is computed.
    pub(crate) computed_trust: Option<i128>,
}

impl<'a> Request<'a> {
    /// A line of a trace. Its route is not known yet.
    pub(crate) fn new(json: &'a Value) -> Request<'a> {
        Request {
            json,
            spellings: Spellings::default(),
            route: None,
            upstream: None,
            default_tenant: None,
            computed_trust: None,
        }
    }

    /// The same with these path rules.
    pub(crate) fn spelled(self, spellings: Spellings) -> Request<'a> {
        Request { spellings, ..self }
    }

    /// Its time, in nanoseconds.
    pub(crate) fn at(&self) -> i128 {
        decimal(&self.json["at_ms"].to_string(), 6)
    }

    /// The factor by which it multiplies costs.
    pub(crate) fn cost(&self) -> i128 {
        self.json.get("cost").map_or(1, |cost| i128::from(cost.as_u64().expect("a cost")))
    }

    /// Trust in hundredths, truncated: its own, else the score of its user.
    pub(crate) fn trust(&self) -> i128 {
        self.own_trust().or(self.computed_trust).unwrap_or(0)
    }

    /// The trust that it states itself.
    pub(crate) fn own_trust(&self) -> Option<i128> {
        self.json.get("trust").map(|trust| decimal(&trust.to_string(), 2))
    }

    /// The claims of its token.
    pub(crate) fn claims(&self) -> &Value {
        &self.json["jwt"]
    }

    /// The address; an IPv4-mapped one as IPv4.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.text("ip").map(|ip| unmapped(ip.parse().expect("an address")))
    }

    /// The normalized path.
    pub(crate) fn path(&self) -> Option<String> {
        self.text("path").map(|path| normal_path(&path, self.spellings))
    }

    /// The values of a descriptor, for keys and conditions.
    pub(crate) fn value(&self, descriptor: &str) -> Option<String> {
        match descriptor {
            "ip" | "ip:address" => self.address().map(|ip| address_key(ip).to_string()),
            "path" => self.path(),
            "route" => self.route.clone().or_else(|| self.path()),
            "host" => self.text("host").map(|host| host.to_lowercase()),
            "method" => self.text("method").map(|method| method.to_uppercase()),
            "tenant" => self.text("tenant").or_else(|| self.default_tenant.clone()),
            "upstream" => self.text("upstream").or_else(|| self.upstream.clone()),
            // Policies know only three words.
            "credential" if self.credential() == "unknown_key" => Some("invalid".to_owned()),
            "credential" => Some(self.credential()),
            _ => match descriptor.split_once(':') {
                Some(("header", name)) => self.header(name),
                Some(("query", name)) => self.query(name),
                Some(("jwt", claim)) => self.member_of("jwt", claim),
                Some(("descriptor", name)) => self.member_of("descriptors", name),
                _ => self.text(descriptor),
            },
        }
    }

    /// A request with claims has a valid credential, unless its `credential` says otherwise.
    pub(super) fn credential(&self) -> String {
        match self.text("credential") {
            Some(said) if said != "none" => said,
            _ if self
                .json
                .get("jwt")
                .is_some_and(|jwt| jwt.as_object().is_some_and(|all| !all.is_empty())) =>
            {
                "valid".to_owned()
            }
            _ => "none".to_owned(),
        }
    }

    fn text(&self, member: &str) -> Option<String> {
        self.json.get(member).map(text_of)
    }

    fn member_of(&self, object: &str, name: &str) -> Option<String> {
        self.json.get(object)?.get(name).map(text_of)
    }

    fn header(&self, name: &str) -> Option<String> {
        let headers = self.json.get("headers")?.as_object().expect("headers are an object");
        let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| text_of(value))
    }

    fn query(&self, name: &str) -> Option<String> {
        let query = self.text("query")?;
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.map(|(key, value)| (decoded(key), decoded(value))).find(|(key, _)| key == name).map(|(_, v)| v)
    }
}

/// A text, or a whole number as its digits.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        other => panic!("{other} is no text"),
    }
}

/// An IPv4-mapped address as IPv4.
fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// Addresses as keys: IPv6 cut to /64.
fn address_key(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
    }
}

/// Normalizes a path: drops the query, decodes unreserved characters, collapses empty and dot segments; and if the
/// rules say so, decodes slashes, drops path parameters and lower-cases letters.
pub(crate) fn normal_path(path: &str, spellings: Spellings) -> String {
    let mut path = path.split('?').next().expect("a split has a first part").to_owned();
    if spellings.decode_slash {
        for slash in ["%2F", "%2f", "%5C", "%5c", "\\"] {
            path = path.replace(slash, "/");
        }
    }
    let mut kept: Vec<String> = Vec::new();
    for segment in path.split('/') {
        let params = segment.find(';').filter(|_| spellings.strip_params);
        let segment = unreserved_decoded(&segment[..params.unwrap_or(segment.len())]);
        let segment = if spellings.ignore_case { lower_case(&segment) } else { segment };
        match segment.as_str() {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Lower-cases letters outside percent escapes; the generated paths have ASCII letters only.
fn lower_case(segment: &str) -> String {
    let mut parts = segment.split('%');
    let first = parts.next().expect("a split has a first part").to_lowercase();
    let escaped = parts.map(|part| format!("%{}{}", &part[..2], part[2..].to_lowercase()));
    std::iter::once(first).chain(escaped).collect()
}

fn unreserved_decoded(segment: &str) -> String {
    let mut out = String::new();
    let mut rest = segment;
    while let Some(first) = rest.chars().next() {
        if let Some(byte) = escape(rest) {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&rest[..3].to_uppercase());
            }
            rest = &rest[3..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Decodes a name or value of a query: `+` is a space, `%41` a byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(byte) = escape(rest) {
            bytes.push(byte);
            rest = &rest[3..];
        } else {
            let shown = if first == '+' { ' ' } else { first };
            bytes.extend(shown.to_string().bytes());
            rest = &rest[first.len_utf8()..];
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte of a percent escape such as `%41` at the start of a text.
fn escape(text: &str) -> Option<u8> {
    let code = text.strip_prefix('%')?.get(..2)?;
    u8::from_str_radix(code, 16).ok().filter(|_| code.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[test]
fn requests_are_read_as_the_documents_say() {
    let json = serde_json::json!({
        "at_ms": 1.5, "ip": "2001:db8:1:2:3::4", "path": "//a/./b/../%63?x=1", "query": "w=1%30&w=3&s=a+b",
        "headers": {"X-Key": "k", "n": 7}, "host": "API.Example.com", "client": 42,
    });
    let request = Request::new(&json);
    assert_eq!(request.at(), 1_500_000);
    assert_eq!(request.value("ip").unwrap(), "2001:db8:1:2::");
    assert_eq!(request.value("route").unwrap(), "/a/c");
    assert_eq!(request.value("query:w").unwrap(), "10");
    assert_eq!(request.value("query:s").unwrap(), "a b");
    assert_eq!(request.value("header:x-key").unwrap(), "k");
    assert_eq!(request.value("host").unwrap(), "api.example.com");
    assert_eq!(
        (request.value("client").unwrap(), request.value("header:n").unwrap()),
        ("42".into(), "7".into())
    );
    assert_eq!(request.value("user"), None);
    let mapped = serde_json::json!({"at_ms": 0, "ip": "::ffff:203.0.113.7"});
    assert_eq!(Request::new(&mapped).value("ip").unwrap(), "203.0.113.7");
}
