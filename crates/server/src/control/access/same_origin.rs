//! Whether a request of a browser comes from a page of this server, or from one of a foreign site.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;

/// Where a request of a browser comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestSite {
    /// A page of this server.
    Own,
    /// Nothing says so: a person who has typed the address, or a program that is no browser.
    Unknown,
    /// A page of another site, or of another port of this machine.
    Foreign,
}

impl RequestSite {
    /// What `Sec-Fetch-Site` says, which pages cannot set; from browsers that do not send it, what `Origin` says.
    pub(crate) fn of(headers: &HeaderMap) -> RequestSite {
        match headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes) {
            Some(b"same-origin") => return RequestSite::Own,
            Some(b"none") => return RequestSite::Unknown,
            Some(_) => return RequestSite::Foreign,
            None => {}
        }
        let Some(origin) = headers.get(ORIGIN) else { return RequestSite::Unknown };
        let authority = |text: &str| text.parse::<Authority>().ok();
        let origin = origin.to_str().ok().and_then(|origin| authority(origin.split_once("://")?.1));
        let host = headers.get(HOST).and_then(|host| authority(host.to_str().ok()?));
        match origin.zip(host) {
            Some((origin, host)) if origin == host => RequestSite::Own,
            _ => RequestSite::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_server_are_its_own() {
        for (site, origin, expected) in [
            ("same-origin", "", RequestSite::Own),
            ("none", "", RequestSite::Unknown),
            ("cross-site", "http://localhost:9090", RequestSite::Foreign),
            ("same-site", "", RequestSite::Foreign),
            ("SAME-ORIGIN", "", RequestSite::Foreign),
            ("", "", RequestSite::Unknown),
            ("", "http://localhost:9090", RequestSite::Own),
            ("", "https://LOCALHOST:9090", RequestSite::Own),
            ("", "http://localhost:3000", RequestSite::Foreign),
            ("", "http://localhost", RequestSite::Foreign),
            ("", "http://evil.example", RequestSite::Foreign),
            ("", "http://localhost:9090.evil.example", RequestSite::Foreign),
            ("", "http://localhost:9090/path", RequestSite::Foreign),
            ("", "null", RequestSite::Foreign),
        ] {
            let mut headers = HeaderMap::from_iter([(HOST, "localhost:9090".parse().unwrap())]);
            if !site.is_empty() {
                headers.insert("sec-fetch-site", site.parse().unwrap());
            }
            if !origin.is_empty() {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(RequestSite::of(&headers), expected, "{site} {origin}");
        }
    }
}
