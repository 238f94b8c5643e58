//! Turns an HTTP request into a [`Request`] for the limiter.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderMap, Uri, header};
use tidegate::engine::{IdentityEvidence, IdentityFault, IdentitySources, KeyHolder, Request};
use tidegate_proxies::{ForwardedSource, TrustedProxies, client_address};

use crate::PeerAddr;
use crate::address_check::AddressCheck;

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;
type Complete = dyn for<'p> Fn(&'p Parts, Request<'p>) -> Request<'p> + Send + Sync;

/// How requests are described to the limiter.
#[derive(Clone, Default)]
pub(crate) struct Describe {
    pub(crate) trusted: TrustedProxies,
    pub(crate) source: ForwardedSource,
    pub(crate) find_peer: Option<Arc<FindPeer>>,
    pub(crate) complete: Option<Arc<Complete>>,
    pub(crate) address_check: Arc<AddressCheck>,
    pub(crate) identity: IdentitySources,
}

impl Describe {
    /// Describes a request, borrowing nearly everything.
    ///
    /// # Errors
    /// When a source of the request's identity has a value that cannot be used.
    pub(crate) fn request<'p>(&self, parts: &'p Parts) -> Result<Request<'p>, IdentityFault> {
        let uri = whole_uri(parts);
        let peer = self.peer(parts);
        let mut request = Request::new().method(parts.method.as_str()).path(uri.path());
        request.ip = peer.map(|peer| self.client_address(peer, parts));
        request.headers_trusted = peer.is_some_and(|peer| self.trusted.contains(peer));
        request.host = host(&parts.uri, &parts.headers).map(Into::into);
        request.query = uri.query().map(Into::into);
        // All headers: with a bound here, a client could hide one by sending many others. Servers bound their number.
        // A value that is not UTF-8 is passed on with replacement characters, so that it does not count as absent.
        request.headers.extend(
            parts
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().into(), String::from_utf8_lossy(value.as_bytes()))),
        );
        if let Some(complete) = &self.complete {
            request = complete(parts, request);
        }
        if !self.identity.is_empty() {
            self.identify(parts, &mut request)?;
        }
        Ok(request)
    }

    /// Sets the listed members that the application has not set. Headers count only if a trusted proxy has sent them.
    fn identify<'p>(&self, parts: &'p Parts, request: &mut Request<'p>) -> Result<(), IdentityFault> {
        let headers = parts.headers.iter().filter(|_| request.headers_trusted);
        let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let evidence = IdentityEvidence {
            headers: &headers,
            host: request.host.as_deref(),
            query: request.query.as_deref(),
            claims: &request.jwt,
            unreadable_claims: &[],
            key: parts.extensions.get::<KeyHolder>(),
        };
        self.identity.resolve_missing(&evidence, request)?.describe(request);
        Ok(())
    }

    /// The peer of the connection.
    fn peer(&self, parts: &Parts) -> Option<IpAddr> {
        match &self.find_peer {
            Some(find_peer) => find_peer(&parts.extensions),
            None => known_peer(&parts.extensions),
        }
    }

    fn client_address(&self, peer: IpAddr, parts: &Parts) -> IpAddr {
        let Some(name) = self.source.header() else { return peer.to_canonical() };
        let lines = parts.headers.get_all(name);
        let lines = lines.iter().map(|value| value.as_bytes());
        client_address(peer, &self.trusted, self.source, lines)
    }
}

impl fmt::Debug for Describe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Describe")
            .field("trusted", &self.trusted)
            .field("source", &self.source)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn known_peer(extensions: &Extensions) -> Option<IpAddr> {
    let peer = extensions.get::<PeerAddr>().map(|peer| peer.0.ip());
    #[cfg(feature = "axum")]
    let peer = peer.or_else(|| {
        let connection = extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>();
        connection.map(|peer| peer.0.ip())
    });
    peer
}

/// The URI with the whole path: nested routers of axum remove the prefix, but policies match the whole path.
fn whole_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return &original.0;
    }
    &parts.uri
}

/// The requested host, from the URI or, if it has none, from the `Host` header (RFC 9112), without a port or a final
/// dot.
fn host<'p>(uri: &'p Uri, headers: &'p HeaderMap) -> Option<&'p str> {
    let authority = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => headers.get(header::HOST)?.to_str().ok()?,
    };
    let authority = authority.rsplit_once('@').map_or(authority, |(_user, host)| host);
    let end = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.find(']').map(|end| end + 2),
        None => authority.find(':'),
    };
    let host = &authority[..end.unwrap_or(authority.len())];
    Some(host.strip_suffix('.').unwrap_or(host))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn parts(request: http::request::Builder) -> Parts {
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn everything_that_http_tells_is_told() {
        let parts = parts(
            http::Request::builder()
                .method("POST")
                .uri("/api/videos?q=cats")
                .header("host", "API.example.com:8080")
                .header("x-api-key", "k")
                .extension(PeerAddr(([203, 0, 113, 7], 4711).into())),
        );
        let request = Describe::default().request(&parts).unwrap();
        let expected = Request::new()
            .method("POST")
            .host("API.example.com")
            .path("/api/videos")
            .query("q=cats")
            .ip([203, 0, 113, 7])
            .header("host", "API.example.com:8080")
            .header("x-api-key", "k");
        assert_eq!(request, expected);
    }

    #[test]
    fn the_host_is_told_without_what_does_not_name_it() {
        for (header, expected) in [
            ("example.com", "example.com"),
            ("example.com:443", "example.com"),
            ("example.com.:443", "example.com"),
            ("me@example.com", "example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1", "[2001:db8::1"),
            ("", ""),
        ] {
            let parts = parts(http::Request::builder().header("host", header));
            assert_eq!(host(&parts.uri, &parts.headers), Some(expected), "{header}");
        }
        let parts = parts(http::Request::builder().uri("http://a.example:80/").header("host", "b.example"));
        assert_eq!(host(&parts.uri, &parts.headers), Some("a.example"), "the URI takes precedence");
    }

    #[test]
    fn headers_cannot_be_pushed_out_of_sight() {
        let mut builder = http::Request::builder();
        for number in 0..500 {
            builder = builder.header(format!("x-filler-{number}"), "x");
        }
        let parts = parts(builder.header("x-api-key", HeaderValue::from_bytes(b"k\xff").unwrap()));
        let request = Describe::default().request(&parts).unwrap();
        let key = request.headers.iter().find(|(name, _)| name == "x-api-key").unwrap();
        assert_eq!(key.1, "k\u{fffd}", "the rest is replaced");
    }

    #[test]
    fn without_a_peer_there_is_no_address() {
        let parts = parts(http::Request::builder().header("x-forwarded-for", "203.0.113.7"));
        assert_eq!(Describe::default().request(&parts).unwrap().ip, None);
    }

    #[cfg(feature = "axum")]
    #[test]
    fn nested_routers_do_not_hide_the_path() {
        let original = axum::extract::OriginalUri(Uri::from_static("/api/videos?q=1"));
        let parts = parts(http::Request::builder().uri("/videos").extension(original));
        assert_eq!(Describe::default().request(&parts).unwrap().path.as_deref(), Some("/api/videos"));
    }
}
