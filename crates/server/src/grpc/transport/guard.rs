//! Which peers are trusted. Everybody who can connect may ask for decisions. On a listener that other machines reach,
//! only `trusted_proxies` of the settings may send limits, refund tokens, or name the client that is charged.

use super::error::CallError;
use crate::node::Node;
use crate::serve::Peer;

/// May the peer refund tokens and send limits of its own?
pub(crate) fn may_send_limits(node: &Node, peer: Peer) -> Result<(), CallError> {
    match peer.on_loopback || node.identity().trusts(peer.address) {
        true => Ok(()),
        false => Err(CallError::NotTrusted(peer.address)),
    }
}

/// May the peer name the address of its client?
pub(crate) fn may_name_clients(node: &Node, peer: Peer) -> bool {
    peer.on_loopback || peer.address.is_loopback() || node.identity().trusts(peer.address)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bytes::Bytes;
    use prost::Message;
    use tidegate_policy::Policy;

    use super::*;
    use crate::grpc::proto::envoy::config::core::v3::{Address, SocketAddress, address};
    use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
    use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
        Entry, RateLimitOverride,
    };
    use crate::grpc::proto::envoy::service::auth::v3::{
        AttributeContext, CheckRequest, CheckResponse, attribute_context,
    };
    use crate::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
    use crate::grpc::proto::envoy::r#type::v3::RateLimitUnit;
    use crate::grpc::transport::error::Code;
    use crate::grpc::{authz, rls};
    use crate::identity::Identity;
    use crate::observe::{Origin, Protocol};
    use crate::settings::Settings;
    use futures_util::FutureExt;

    const POLICY: &str =
        "version: 1\nlimits: [{ name: a, key: [ip], sustained: { rate: 1, window: day } }]\n";
    const STRANGER: &str = "192.0.2.1";
    const TRUSTED: &str = "10.1.2.3";

    fn node() -> Node {
        let trusted_proxies = vec!["10.0.0.0/8".parse().expect("a network")];
        let settings = Settings { max_keys: 1_000, trusted_proxies, ..Settings::default() };
        let identity = Identity::new(&settings).expect("it needs no files");
        Node::new(settings, Policy::parse(POLICY).expect("a policy").into(), identity).expect("it is small")
    }

    fn peer(address: &str, on_loopback: bool) -> Peer {
        Peer { address: address.parse().expect("an address"), on_loopback, alpn_http2: None }
    }

    fn origin(protocol: Protocol) -> Origin<'static> {
        Origin { protocol, traceparent: None }
    }

    fn ask(
        node: &Node,
        peer: Peer,
        change: impl FnOnce(&mut RateLimitDescriptor),
    ) -> Result<Bytes, CallError> {
        let entries = vec![Entry { key: "user_id".into(), value: "42".into() }];
        let mut descriptor = RateLimitDescriptor { entries, ..Default::default() };
        change(&mut descriptor);
        let message =
            RateLimitRequest { domain: "edge".into(), descriptors: vec![descriptor], hits_addend: 1 };
        rls::should_rate_limit(node, origin(Protocol::Rls), peer, message.encode_to_vec().into())
            .now_or_never()
            .expect("memory is not waited for")
    }

    #[test]
    fn strangers_ask_and_bring_nothing_along() {
        let node = node();
        let give_back = |descriptor: &mut RateLimitDescriptor| descriptor.is_negative_hits = true;
        let own = |descriptor: &mut RateLimitDescriptor| {
            let unit = RateLimitUnit::Hour.into();
            descriptor.limit = Some(RateLimitOverride { requests_per_unit: 5, unit });
        };
        let stranger = peer(STRANGER, false);
        assert!(ask(&node, stranger, |_| {}).is_ok());
        for refused in [ask(&node, stranger, give_back), ask(&node, stranger, own)] {
            let error = refused.expect_err("it is not trusted");
            assert_eq!(error.code(), Code::PermissionDenied);
            assert!(error.to_string().contains("trusted_proxies"), "{error}");
        }
        for trusted in [peer(TRUSTED, false), peer("127.0.0.1", true)] {
            assert!(ask(&node, trusted, give_back).is_ok() && ask(&node, trusted, own).is_ok());
        }
    }

    async fn is_admitted(node: &Node, peer: Peer, client: &str) -> bool {
        let socket = SocketAddress { address: client.into(), ..Default::default() };
        let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
        let source = Some(attribute_context::Peer { address });
        let attributes = Some(AttributeContext { source, ..Default::default() });
        let message = CheckRequest { attributes }.encode_to_vec().into();
        let answer =
            authz::check(node, origin(Protocol::ExtAuthz), peer, message).await.expect("it is sound");
        let answer = CheckResponse::decode(&answer[5..]).expect("it can be read");
        answer.status.expect("it is always there").code == 0
    }

    #[tokio::test]
    async fn strangers_ask_for_themselves_whomever_they_name() {
        let node = node();
        let stranger = peer(STRANGER, false);
        assert!(is_admitted(&node, stranger, "203.0.113.1").await);
        assert!(!is_admitted(&node, stranger, "203.0.113.2").await, "another name is no other client");
        let from: [IpAddr; 2] = [[203, 0, 113, 1].into(), [203, 0, 113, 2].into()];
        for (trusted, client) in [peer(TRUSTED, false), peer("127.0.0.1", false)].into_iter().zip(from) {
            assert!(is_admitted(&node, trusted, &client.to_string()).await, "it was charged to nobody else");
            assert!(!is_admitted(&node, trusted, &client.to_string()).await);
        }
    }
}
