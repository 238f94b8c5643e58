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
    (request.ip, request.headers_trusted) = (address_known.then_some(who.ip), believed);
    let known = node.identity().describe_upstream(headers.iter().copied(), believed, &mut request);
    let key = match known.and_then(|()| node.identity().presented_key(headers.iter().copied(), &request)) {
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
    let headers = vec![
        render::header("content-type", problem_body::CONTENT_TYPE),
        render::header("cache-control", "no-store"),
    ];
    let answer = DeniedHttpResponse {
        status: Some(HttpStatus { code: StatusCode::BadRequest.into() }),
        headers: overwriting_all(headers),
        body: problem_body::identity_body(fault),
    };
    frame::encode(&CheckResponse {
        status: Some(Status { code: Code::InvalidArgument as i32, message: fault.to_string() }),
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
mod tests;
