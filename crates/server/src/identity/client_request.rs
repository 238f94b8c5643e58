//! What a proxy tells of the request of its client, read the same way whoever asks how.

/// Headers about a connection, not about the client's request. Those that `Connection` names are kept: a
/// client must not be able to hide a header from its limit.
const OF_THE_CONNECTION: [&str; 9] = [
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
/// What headers begin with that tell how a request came here; so do the pseudo-headers of HTTP/2.
const OF_THE_WAY: [&str; 3] = ["x-forwarded-", "x-original-", ":"];

/// Is it a header of the client's request, rather than one about how it came here?
pub(crate) fn is_of_the_client(name: &str) -> bool {
    let begins = |with: &&str| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let of_the_way = name.eq_ignore_ascii_case("forwarded") || OF_THE_WAY.iter().any(begins);
    !of_the_way && !OF_THE_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// A host without its port, or a dot at the end; `None` if nothing is left.
pub(crate) fn host(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.find(']').map(|place| place + 2),
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
            assert!(!is_of_the_client(name), "{name}");
        }
        for name in ["x-api-key", "authorization", "host", "x-forward", "é", ""] {
            assert!(is_of_the_client(name), "{name}");
        }
    }
}
