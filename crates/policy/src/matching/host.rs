//! Patterns of hosts.

use super::TextMap;

/// The longest name of a host. Longer ones do not exist in DNS, and match nothing.
const HOST_BYTES_MAX: usize = 253;

/// A pattern of hosts: `api.example.com`, or `*.example.com` for every host below `example.com` at any depth.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    /// In lower case, without the star.
    host: Box<str>,
    /// Does it begin with `*.`?
    below: bool,
}

/// Why a text is not a pattern of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It has a port.
    #[error("it has a port, and ports are ignored")]
    Port,
    /// It has a star that is not the first label.
    #[error("`*.` can only be its beginning")]
    Star,
    /// It is not the name of a host.
    #[error("a host consists of names with dots between them")]
    NotAHost,
    /// It is too long.
    #[error("a host has at most {HOST_BYTES_MAX} bytes")]
    TooLong,
}

impl HostPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When the text is not a pattern.
    pub fn parse(text: &str) -> Result<HostPattern, HostError> {
        if text.len() > HOST_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        let (below, host) = text.strip_prefix("*.").map_or((false, text), |host| (true, host));
        if host.contains('*') {
            return Err(HostError::Star);
        }
        let bare = HostPattern::without_port(host);
        if !is_name(bare) && (below || !is_address(bare)) {
            return Err(HostError::NotAHost);
        }
        let dot = host.len() == bare.len() + 1 && host.ends_with('.');
        if host != bare && !dot {
            return Err(HostError::Port);
        }
        Ok(HostPattern { host: bare.to_ascii_lowercase().into(), below })
    }

    /// A host without its port, and without the dot at its end that only says that the name is complete.
    pub fn without_port(host: &str) -> &str {
        if let Some(end) = host.find(']').filter(|_| host.starts_with('[')) {
            return &host[..=end];
        }
        let name = match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        };
        name.strip_suffix('.').unwrap_or(name)
    }
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    text.split('.').all(is_label)
}

/// Is it an IPv6 address in brackets?
fn is_address(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Finds the first of many entries with a pattern that matches a host.
#[derive(Debug, Default)]
pub(crate) struct HostIndex {
    exact: TextMap<u32>,
    /// By what comes after `*.`.
    below: TextMap<u32>,
}

impl HostIndex {
    /// Files an entry under a pattern. Entries come in order: the first one keeps a pattern.
    pub(crate) fn insert(&mut self, pattern: &HostPattern, number: u32) {
        let map = if pattern.below { &mut self.below } else { &mut self.exact };
        map.entry(pattern.host.clone()).or_insert(number);
    }

    /// The first entry whose pattern matches a host in lower case.
    pub(crate) fn find(&self, host: &str) -> Option<u32> {
        let host = HostPattern::without_port(host);
        if host.len() > HOST_BYTES_MAX {
            return None;
        }
        let mut first = self.exact.get(host).copied();
        if !self.below.is_empty() {
            // A dot at the very beginning has no name before it, which the star could stand for.
            for (dot, _) in host.match_indices('.').filter(|(dot, _)| *dot > 0) {
                let found = self.below.get(&host[dot + 1..]).copied();
                first = first.into_iter().chain(found).min();
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_what_is_none() {
        for text in ["api.example.com", "*.example.com", "API.Example.com.", "localhost", "[::1]", "10.0.0.1"]
        {
            assert!(HostPattern::parse(text).is_ok(), "{text}");
        }
        for (text, error) in [
            ("", HostError::NotAHost),
            ("*", HostError::Star),
            ("api.*.com", HostError::Star),
            ("*.*.com", HostError::Star),
            ("*example.com", HostError::Star),
            ("api.example.com:443", HostError::Port),
            ("[::1]:443", HostError::Port),
            ("::1", HostError::NotAHost),
            ("*.[::1]", HostError::NotAHost),
            ("https://api.example.com", HostError::NotAHost),
            (".example.com", HostError::NotAHost),
            ("a..b", HostError::NotAHost),
            ("a b", HostError::NotAHost),
            (&"a".repeat(254), HostError::TooLong),
        ] {
            assert_eq!(HostPattern::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_first_entry_that_matches_is_found() {
        let mut index = HostIndex::default();
        let patterns =
            ["*.b.example.com", "*.example.com", "example.com", "a.b.example.com", "[::1]", "example.com"];
        for (number, text) in (0..).zip(patterns) {
            index.insert(&HostPattern::parse(text).unwrap(), number);
        }
        for (host, number) in [
            ("a.b.example.com", Some(0)),
            ("b.example.com", Some(1)),
            ("x.y.z.example.com:8443", Some(1)),
            ("example.com", Some(2)),
            ("example.com.:80", Some(2)),
            ("[::1]:80", Some(4)),
            ("[::1]", Some(4)),
            (".example.com", None),
            ("badexample.com", None),
            ("com", None),
            ("", None),
            ("::1", None),
        ] {
            assert_eq!(index.find(host), number, "{host}");
        }
        let long = format!("{}.example.com", "a".repeat(253));
        assert_eq!(index.find(&long), None);
    }
}
