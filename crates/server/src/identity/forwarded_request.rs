//! Rules for a client's request that a proxy passes on (forward auth, ext_authz): which headers are the client's own,
//! and how to read a host.

/// Hop-by-hop headers, which belong to a connection and not to the client's request. Headers that `Connection` names
/// are not dropped: a client must not be able to hide a header from a limit.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Prefixes of headers that proxies add to describe the original request, and of the pseudo-headers of HTTP/2.
const PROXY_PREFIXES: [&str; 3] = ["x-forwarded-", "x-original-", ":"];

/// Is it a header of the client's request, and not one that proxies or connections add?
pub(crate) fn is_client_header(name: &str) -> bool {
    let begins = |with: &&str| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let from_proxy = name.eq_ignore_ascii_case("forwarded") || PROXY_PREFIXES.iter().any(begins);
    !from_proxy && !HOP_BY_HOP.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// A host without its port and trailing dot; `None` if nothing is left.
pub(crate) fn host(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.find(']').map(|index| index + 2),
        None => text.find(':'),
    };
    let host = &text[..end.unwrap_or(text.len())];
    Some(host.strip_suffix('.').unwrap_or(host)).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port() {
        for (text, wanted) in [
            ("a.example", Some("a.example")),
            (" a.example.:80", Some("a.example")),
            ("[::1]:80", Some("[::1]")),
            ("[::1", Some("[::1")),
            ("", None),
            (":80", None),
        ] {
            assert_eq!(host(text), wanted, "{text}");
        }
    }

    #[test]
    fn headers_about_the_way_are_not_the_clients() {
        for name in [
            "x-forwarded-for",
            "X-Forwarded-Anything",
            "x-original-uri",
            "Forwarded",
            "te",
            "Upgrade",
            "proxy-connection",
            "proxy-authenticate",
            ":authority",
        ] {
            assert!(!is_client_header(name), "{name}");
        }
        for name in ["x-api-key", "authorization", "host", "x-forward", "é", ""] {
            assert!(is_client_header(name), "{name}");
        }
    }
}
