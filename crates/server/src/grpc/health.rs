//! `grpc.health.v1.Health`: whether the server accepts requests.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::http2::call_stream::ResponseStream;
use super::proto::grpc::health::v1::health_check_response::ServingStatus;
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};
use super::transport::error::{CallError, Quoted};
use super::transport::{frame, reply};
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::serve::ResponseBacklog;

/// The services that have a health status; the empty name is the whole server.
const SERVICES: [&str; 3] =
    ["", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"];

/// The current status.
pub(super) fn check(node: &Node, message: Bytes) -> Result<Bytes, CallError> {
    let request = HealthCheckRequest::decode(message)?;
    if !SERVICES.contains(&request.service.as_str()) {
        return Err(CallError::UnknownService(Quoted::new(&request.service)));
    }
    Ok(answer(status(node.lifecycle().phase())))
}

/// Sends the current status, and each change of it. When the server drains, the stream ends with `UNAVAILABLE`, so that
/// the client connects elsewhere.
pub(super) async fn watch(
    node: &Node,
    message: Bytes,
    mut stream: ResponseStream,
    backlog: &Arc<ResponseBacklog>,
) {
    let request = match HealthCheckRequest::decode(message) {
        Ok(request) => request,
        Err(error) => return reply::fail(stream, &error.into()),
    };
    let known = SERVICES.contains(&request.service.as_str());
    reply::open(&mut stream);
    let mut phases = node.lifecycle().phases();
    loop {
        let phase = *phases.borrow_and_update();
        let status = if known { status(phase) } else { ServingStatus::ServiceUnknown };
        if stream.send_data(backlog.count_until_sent(answer(status))).is_err() {
            return;
        }
        if phase == Phase::Draining {
            return reply::close(stream, Some(&CallError::ShuttingDown));
        }
        let _changed = phases.changed().await;
    }
}

fn status(phase: Phase) -> ServingStatus {
    match phase {
        Phase::Serving => ServingStatus::Serving,
        Phase::Starting | Phase::Draining => ServingStatus::NotServing,
    }
}

fn answer(status: ServingStatus) -> Bytes {
    frame::encode(&HealthCheckResponse { status: status.into() })
}
