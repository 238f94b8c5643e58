//! `envoy.service.auth.v3.Authorization`: Envoy asks whether a request of its client may pass, and sends a refusal to
//! the client. [`attributes`] turns Envoy's description of the request into one for the engine.

mod attributes;

use std::net::IpAddr;

use bytes::Bytes;
use prost::Message;
use tidegate::engine::Decision;
use tidegate::engine::render::{headers, problem_body};
use tidegate_policy::IdentityFault;

use super::proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use super::proto::envoy::config::core::v3::{
    Address, HeaderValue, HeaderValueOption, SocketAddress, address,
};
use super::proto::envoy::service::auth::v3::check_response::HttpResponse;
use super::proto::envoy::service::auth::v3::{
    CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse, attribute_context,
};
use super::proto::envoy::r#type::v3::{HttpStatus, StatusCode};
use super::proto::google::rpc::Status;
use super::render;
use super::transport::error::{CallError, Code};
use super::transport::{frame, guard};
use crate::node::Node;
use crate::observe::Origin;
use crate::serve::Peer;

/// Decides a request, which may wait in a wait queue.
pub(super) async fn check(
    node: &Node,
    origin: Origin<'_>,
    peer: Peer,
    message: Bytes,
) -> Result<Bytes, CallError> {
    let check = CheckRequest::decode(message)?;
    let mut attributes = check.attributes.unwrap_or_default();
    // Envoy is a proxy like any other: it is believed if its own address is trusted.
    let believed = guard::may_name_clients(node, peer);
    if !believed {
        node.identity().warn_untrusted_forwarder(peer.address);
        attributes.source = Some(source(peer.address));
    }
    let headers = attributes::headers(&attributes);
    let (who, address_known) = attributes::who(node, &attributes, &headers);
    let mut request = attributes::request(&attributes);
    request.ip = address_known.then_some(who.ip);
    let key = match node.identity().presented_key(headers.iter().copied(), &request) {
        Ok(key) => key,
        Err(fault) => return Ok(unusable(node, &fault)),
    };
    let entered = node.enter(&request);
    let verified = node.verify(&entered, &who, key.as_deref());
    // The request borrows claims from `verified`, so it must not live longer.
    let mut request = request;
    if !entered.is_decided()
        && let Err(fault) =
            node.identity().describe(&verified, headers.iter().copied(), believed, &mut request)
    {
        return Ok(unusable(node, &fault));
    }
    let decision = node.admit_entered(origin, entered, &request).await;
    let mut answer = if decision.is_allowed() { admitted(&decision) } else { refused(&decision) };
    answer.dynamic_metadata = render::metadata(&decision, std::iter::once(&decision));
    Ok(frame::encode(&answer))
}

/// An address in Envoy's form.
fn source(address: IpAddr) -> attribute_context::Peer {
    let socket = SocketAddress { address: address.to_string(), ..SocketAddress::default() };
    let address = Some(address::Address::SocketAddress(socket));
    attribute_context::Peer { address: Some(Address { address }) }
}

fn admitted(decision: &Decision) -> CheckResponse {
    let mark = render::degraded_header(decision);
    // Only the server may mark a request as degraded, so a header that the client sent is removed.
    let headers_to_remove = if mark.is_none() { vec![headers::DEGRADED.to_owned()] } else { Vec::new() };
    let answer = OkHttpResponse {
        headers: mark.into_iter().map(overwriting).collect(),
        headers_to_remove,
        response_headers_to_add: overwriting_all(render::response_headers(decision)),
    };
    CheckResponse {
        status: Some(Status::default()),
        http_response: Some(HttpResponse::OkResponse(answer)),
        dynamic_metadata: None,
    }
}

fn refused(decision: &Decision) -> CheckResponse {
    let (status, code) = match decision.client_status() {
        401 => (StatusCode::Unauthorized, Code::Unauthenticated),
        503 => (StatusCode::ServiceUnavailable, Code::Unavailable),
        _ => (StatusCode::TooManyRequests, Code::ResourceExhausted),
    };
    let mut headers = render::response_headers(decision);
    headers.extend(decision.challenge().map(|challenge| render::header("www-authenticate", challenge)));
    let answer = DeniedHttpResponse {
        status: Some(HttpStatus { code: status.into() }),
        headers: overwriting_all(headers),
        body: decision.problem_body(decision.client_status()),
    };
    CheckResponse {
        status: Some(Status { code: code as i32, message: decision.reason().as_str().to_owned() }),
        http_response: Some(HttpResponse::DeniedResponse(answer)),
        dynamic_metadata: None,
    }
}

/// 400 for a client whose identity cannot be used.
fn unusable(node: &Node, fault: &IdentityFault) -> Bytes {
    node.identity_fault(fault);
    let detail = fault.to_string();
    let body = serde_json::json!({
        "type": "about:blank", "title": "Bad Request", "status": 400, "detail": detail, "field": fault.source,
    });
    let headers = vec![
        render::header("content-type", problem_body::CONTENT_TYPE),
        render::header("cache-control", "no-store"),
    ];
    let answer = DeniedHttpResponse {
        status: Some(HttpStatus { code: StatusCode::BadRequest.into() }),
        headers: overwriting_all(headers),
        body: body.to_string(),
    };
    frame::encode(&CheckResponse {
        status: Some(Status { code: Code::InvalidArgument as i32, message: detail }),
        http_response: Some(HttpResponse::DeniedResponse(answer)),
        dynamic_metadata: None,
    })
}

fn overwriting_all(headers: Vec<HeaderValue>) -> Vec<HeaderValueOption> {
    headers.into_iter().map(overwriting).collect()
}

fn overwriting(header: HeaderValue) -> HeaderValueOption {
    let append_action = HeaderAppendAction::OverwriteIfExistsOrAdd.into();
    HeaderValueOption { header: Some(header), append_action }
}

#[cfg(test)]
mod tests {
    use tidegate::engine::{InvalidCredentials, Policy};

    use super::super::proto::envoy::service::auth::v3::AttributeContext;
    use super::super::proto::envoy::service::auth::v3::attribute_context::{HttpRequest, Request};
    use super::*;
    use crate::identity::Identity;
    use crate::identity::testing::Signer;
    use crate::observe::Protocol;
    use crate::settings::{Jwt, JwtKey, Settings};
    use futures_util::FutureExt;

    const PEER: Peer =
        Peer { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), on_loopback: true, alpn_http2: None };

    fn node() -> Node {
        let key = JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() };
        let jwt = Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny };
        let settings = Settings { jwt: Some(jwt), max_keys: 100, ..Settings::default() };
        let policy =
            "version: 1\nlimits: [{ name: per-user, key: [user], sustained: { rate: 1, window: hour } }]";
        let policy = Policy::parse(policy).unwrap();
        let identity = Identity::new(&settings).unwrap();
        Node::new(settings, policy.into(), identity).unwrap()
    }

    fn ask(node: &Node, authorization: &str) -> CheckResponse {
        let headers = [("authorization".to_owned(), authorization.to_owned())].into();
        let http = HttpRequest { method: "GET".into(), path: "/".into(), headers, ..HttpRequest::default() };
        let request = Some(Request { http: Some(http) });
        let attributes = Some(AttributeContext { request, ..AttributeContext::default() });
        let message = CheckRequest { attributes }.encode_to_vec();
        let origin = Origin { protocol: Protocol::ExtAuthz, traceparent: None };
        let answer = check(node, origin, PEER, message.into())
            .now_or_never()
            .expect("memory is not waited for")
            .unwrap();
        CheckResponse::decode(&answer[5..]).unwrap()
    }

    #[test]
    fn a_credential_that_does_not_hold_is_401() {
        let node = node();
        let claims = serde_json::json!({"sub": "42", "exp": 3_000_000_000_u64});
        let token = Signer::new("HS256").token(&serde_json::json!({"alg": "HS256"}), &claims);
        let good = format!("Bearer {token}");
        // Envoy joins several lines by commas.
        for odd in
            [format!("{good},{good}"), format!("{good}="), good.replace(' ', "\t"), "Bearer x".to_owned()]
        {
            let answer = ask(&node, &odd);
            assert_eq!(answer.status.unwrap().code, Code::Unauthenticated as i32, "{odd}");
            let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("{odd}") };
            assert_eq!(denied.status.unwrap().code, 401);
            assert!(denied.body.contains("\"status\":401"), "{}", denied.body);
            let mut headers = denied.headers.into_iter().filter_map(|option| option.header);
            let challenge = headers.find(|header| header.key == "www-authenticate").unwrap();
            assert_eq!(challenge.value, "Bearer error=\"invalid_token\"");
        }
        let codes: Vec<i32> = (0..2).map(|_| ask(&node, &good).status.unwrap().code).collect();
        assert_eq!(codes, [0, Code::ResourceExhausted as i32], "the user's limit counts the good ones alone");
    }
}
