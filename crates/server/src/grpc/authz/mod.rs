//! `envoy.service.auth.v3.Authorization`: Envoy asks for a request of its client, and passes the answer on.

mod attributes;

use std::net::IpAddr;

use bytes::Bytes;
use prost::Message;
use tidegate::policy::Decision;

use super::error::{CallError, Code};
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
use super::{frame, guard, told};
use crate::node::Node;
use crate::observe::Origin;
use crate::serve::Peer;

/// Decides; where a queue makes it wait, it waits.
pub(super) async fn check(
    node: &Node,
    origin: Origin<'_>,
    peer: Peer,
    message: Bytes,
) -> Result<Bytes, CallError> {
    let asked = CheckRequest::decode(message)?;
    let mut attributes = asked.attributes.unwrap_or_default();
    if !guard::may_name_clients(node, peer) {
        node.identity.stranger_forwards(peer.address);
        attributes.source = Some(source(peer.address));
    }
    let (who, address_known) = attributes::who(node, &attributes);
    if who.token_rejected {
        node.metrics.token_rejected();
    }
    let mut request = attributes::request(&attributes);
    who.describe(&mut request);
    if !address_known {
        request.ip = None;
    }
    let decision = node.admit(origin, &request).await;
    let mut answer = if decision.is_allowed() { admitted(&decision) } else { refused(&decision) };
    answer.dynamic_metadata = told::metadata(&decision, std::iter::once(&decision));
    Ok(frame::encode(&answer))
}

/// An address as Envoy tells it.
fn source(address: IpAddr) -> attribute_context::Peer {
    let socket = SocketAddress { address: address.to_string(), ..SocketAddress::default() };
    let address = Some(address::Address::SocketAddress(socket));
    attribute_context::Peer { address: Some(Address { address }) }
}

fn admitted(decision: &Decision) -> CheckResponse {
    let mark = told::degraded(decision);
    // What a client says of itself is not what the upstream is told.
    let headers_to_remove = if mark.is_none() { vec![told::DEGRADED.to_owned()] } else { Vec::new() };
    let answer = OkHttpResponse {
        headers: mark.into_iter().map(overwriting).collect(),
        headers_to_remove,
        response_headers_to_add: overwriting_all(told::response_headers(decision)),
    };
    CheckResponse {
        status: Some(Status::default()),
        http_response: Some(HttpResponse::OkResponse(answer)),
        dynamic_metadata: None,
    }
}

fn refused(decision: &Decision) -> CheckResponse {
    let (status, code) = match decision.status() {
        503 => (StatusCode::ServiceUnavailable, Code::Unavailable),
        _ => (StatusCode::TooManyRequests, Code::ResourceExhausted),
    };
    let answer = DeniedHttpResponse {
        status: Some(HttpStatus { code: status.into() }),
        headers: overwriting_all(told::response_headers(decision)),
        body: decision.problem_body(decision.status()),
    };
    CheckResponse {
        status: Some(Status { code: code as i32, message: decision.reason().as_str().to_owned() }),
        http_response: Some(HttpResponse::DeniedResponse(answer)),
        dynamic_metadata: None,
    }
}

fn overwriting_all(headers: Vec<HeaderValue>) -> Vec<HeaderValueOption> {
    headers.into_iter().map(overwriting).collect()
}

fn overwriting(header: HeaderValue) -> HeaderValueOption {
    let append_action = HeaderAppendAction::OverwriteIfExistsOrAdd.into();
    HeaderValueOption { header: Some(header), append_action }
}
