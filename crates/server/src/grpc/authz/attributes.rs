//! Turns Envoy's description of a request into a request for the engine.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use tidegate::engine::Request;

use crate::grpc::proto::envoy::config::core::v3::HeaderValue;
use crate::grpc::proto::envoy::config::core::v3::address::Address;
use crate::grpc::proto::envoy::service::auth::v3::AttributeContext;
use crate::grpc::proto::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer};
use crate::identity::ClientInfo;
use crate::identity::forwarded_request::{host, is_client_header};
use crate::node::Node;

/// Method, host, path and headers of the request, and the route's `context_extensions` as descriptors.
pub(super) fn request(attributes: &AttributeContext) -> Request<'_> {
    let mut request = Request::new();
    if let Some(http) = http(attributes) {
        request.method = stated(&http.method);
        request.host = host(&http.host).map(Cow::from);
        request.path = stated(&http.path);
        request.query = stated(&http.query);
        let headers = headers_of(http).filter(|(name, _)| is_client_header(name));
        request.headers.extend(headers.map(|(name, value)| (name.into(), String::from_utf8_lossy(value))));
    }
    let extensions = attributes.context_extensions.iter();
    request.descriptors.extend(extensions.map(|(name, value)| (name.into(), value.into())));
    request
}

/// The client: the peer of Envoy, or the client that trusted proxies in front of it name. Also returns whether Envoy
/// has sent the address of its peer.
pub(super) fn who<'h>(
    node: &Node,
    attributes: &AttributeContext,
    headers: &[(&'h str, &'h [u8])],
) -> (ClientInfo<'h>, bool) {
    let peer = attributes.source.as_ref().and_then(address);
    let unknown = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    (node.identity().client_info(headers.iter().copied(), peer.unwrap_or(unknown)), peer.is_some())
}

/// The names and values of all headers, in either of the two forms that Envoy uses.
pub(super) fn headers(attributes: &AttributeContext) -> Vec<(&str, &[u8])> {
    http(attributes).into_iter().flat_map(headers_of).collect()
}

fn http(attributes: &AttributeContext) -> Option<&HttpRequest> {
    attributes.request.as_ref()?.http.as_ref()
}

fn stated(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(Cow::from(text))
}

fn headers_of(http: &HttpRequest) -> impl Iterator<Item = (&str, &[u8])> {
    let joined = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let single = http.header_map.iter().flat_map(|map| &map.headers);
    joined.chain(single.map(|header| (header.key.as_str(), value(header))))
}

fn value(header: &HeaderValue) -> &[u8] {
    if header.raw_value.is_empty() { header.value.as_bytes() } else { &header.raw_value }
}

fn address(peer: &Peer) -> Option<IpAddr> {
    let Address::SocketAddress(socket) = peer.address.as_ref()?.address.as_ref()?;
    socket.address.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::envoy::config::core::v3::HeaderMap;
    use crate::grpc::proto::envoy::service::auth::v3::attribute_context::Request as AttributeRequest;

    #[test]
    fn headers_come_in_either_form() {
        let single = |key: &str, value: &str, raw: &'static [u8]| HeaderValue {
            key: key.into(),
            value: value.into(),
            raw_value: raw.into(),
        };
        let map = HeaderMap { headers: vec![single("a", "1", b""), single("b", "", b"\xff2")] };
        let http = HttpRequest {
            headers: [("c".to_owned(), "3".to_owned())].into(),
            header_map: Some(map),
            ..HttpRequest::default()
        };
        let mut found: Vec<_> = headers_of(&http).collect();
        found.sort();
        assert_eq!(found, [("a", &b"1"[..]), ("b", b"\xff2"), ("c", b"3")]);
    }

    #[test]
    fn the_headers_are_those_of_the_client() {
        let names = ["x-api-key", "x-forwarded-for", "x-original-uri", "forwarded", "te", ":path"];
        let http = HttpRequest {
            headers: names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect(),
            ..HttpRequest::default()
        };
        let request = AttributeRequest { http: Some(http) };
        let attributes = AttributeContext { request: Some(request), ..AttributeContext::default() };
        let headers = super::request(&attributes).headers;
        assert_eq!(headers.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["x-api-key"]);
    }
}
