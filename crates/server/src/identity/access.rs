//! Access to the protected endpoints: by the token of the settings, or by being on this machine.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use subtle::ConstantTimeEq;

/// Does the request send the token of the settings? Always false if the settings have none.
pub(crate) fn has_token(headers: &HeaderMap, wanted: Option<&str>) -> bool {
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let sent = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    // Compare in constant time, so that the duration does not reveal how much of the token is right.
    wanted.zip(sent).is_some_and(|(wanted, sent)| wanted.as_bytes().ct_eq(sent).into())
}

/// The text after `Bearer`. Any text is accepted, since the settings may hold any.
pub(crate) fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, secret) = authorization.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| secret.trim_ascii())
}

/// Is the request addressed to this machine by `localhost` or an IP address?
///
/// This prevents DNS rebinding: a web page could let a domain of its own resolve to loopback and reach this listener
/// through the browser, but its requests then carry that domain in `Host`.
pub(crate) fn names_this_machine(headers: &HeaderMap, uri: &Uri) -> bool {
    names_this_server(headers, uri, &[])
}

/// The same, but the host names that the operator has listed are accepted too.
pub(crate) fn names_this_server(headers: &HeaderMap, uri: &Uri, listed: &[String]) -> bool {
    let named = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let mut named = named.chain(uri.authority().map(Authority::as_str));
    named.all(|host| is_local_host(host) || is_listed(host, listed))
}

fn is_listed(host: &str, listed: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_end_matches('.');
    listed.iter().any(|listed| name.eq_ignore_ascii_case(listed))
}

/// Could the request come from a web page? Browsers send `Origin` with every request that may change something.
pub(crate) fn has_origin(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

fn is_local_host(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_own_are_not_ours() {
        for host in [
            "localhost",
            "LOCALHOST:9090",
            "127.0.0.1",
            "127.0.0.1:9090",
            "[::1]",
            "[::1]:9090",
            "10.0.0.7:1",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "::1", "[::1", "a b"]
        {
            assert!(!is_local_host(host), "{host}");
        }
    }

    #[test]
    fn only_the_token_of_the_settings_opens() {
        let with = |value: &'static str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert!(has_token(&with("Bearer s3cret"), Some("s3cret")));
        assert!(has_token(&with("bearer s3cret"), Some("s3cret")));
        for value in ["Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "Bearer ", "s3cret", "Bearer"] {
            assert!(!has_token(&with(value), Some("s3cret")), "{value}");
        }
        assert!(!has_token(&with("Bearer "), Some("")) && !has_token(&with("Bearer x"), None));
        assert!(!has_token(&HeaderMap::new(), Some("s3cret")));
    }
}
