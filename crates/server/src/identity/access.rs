//! Who may use what is not for everybody: by a token, or by being on this machine.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use subtle::ConstantTimeEq;

/// Does the request bring the token of the settings? Without one in the settings none does.
pub(crate) fn has_token(headers: &HeaderMap, wanted: Option<&str>) -> bool {
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let given = headers.get(AUTHORIZATION).and_then(|value| secret(value.as_bytes()));
    // How long it takes to compare must not tell how much of it is right.
    wanted.zip(given).is_some_and(|(wanted, given)| wanted.as_bytes().ct_eq(given).into())
}

/// What follows `Bearer`: any text, since the settings may have any.
fn secret(authorization: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, secret) = authorization.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| secret.trim_ascii())
}

/// Does it ask for this machine? On loopback, a page in a browser could ask under a name of its own that
/// it lets point here. So the name must be one that only this machine has, or an address.
pub(crate) fn names_this_machine(headers: &HeaderMap, uri: &Uri) -> bool {
    names_this_server(headers, uri, &[])
}

/// The same, where the operator has listed names too.
pub(crate) fn names_this_server(headers: &HeaderMap, uri: &Uri, listed: &[String]) -> bool {
    let named = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let mut named = named.chain(uri.authority().map(Authority::as_str));
    named.all(|host| is_of_this_machine(host) || is_listed(host, listed))
}

fn is_listed(host: &str, listed: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_end_matches('.');
    listed.iter().any(|listed| name.eq_ignore_ascii_case(listed))
}

/// Could it be from a page in a browser? Browsers say where it is from with whatever can change something.
pub(crate) fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

fn is_of_this_machine(host: &str) -> bool {
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
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "::1", "[::1", "a b"]
        {
            assert!(!is_of_this_machine(host), "{host}");
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
