//! Sends responses on a stream: headers, messages, trailers. Sending fails only if the client is gone, so errors here
//! are ignored.

use std::sync::Arc;

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use super::error::CallError;
use crate::serve::{CountedBytes, ResponseBacklog};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Answers with one message, or with an error.
pub(crate) fn answer(
    respond: SendResponse<CountedBytes>,
    answer: Result<Bytes, CallError>,
    backlog: &Arc<ResponseBacklog>,
) {
    match answer {
        Ok(message) => {
            if let Some(mut stream) = open(respond) {
                let _sent = stream.send_data(backlog.count_until_sent(message), false);
                close(stream, None);
            }
        }
        Err(error) => fail(respond, &error),
    }
}

/// Starts a response of several messages; `None` if the client is gone.
pub(crate) fn open(mut respond: SendResponse<CountedBytes>) -> Option<SendStream<CountedBytes>> {
    respond.send_response(head(), false).ok()
}

/// Ends a response with its trailers.
pub(crate) fn close(mut stream: SendStream<CountedBytes>, error: Option<&CallError>) {
    let mut trailers = HeaderMap::with_capacity(2);
    match error {
        None => {
            trailers.insert(STATUS, HeaderValue::from_static("0"));
        }
        Some(error) => error.write_to(&mut trailers),
    }
    let _sent = stream.send_trailers(trailers);
}

/// Answers with an error only (a trailers-only response).
pub(crate) fn fail(mut respond: SendResponse<CountedBytes>, error: &CallError) {
    let mut head = head();
    error.write_to(head.headers_mut());
    let _sent = respond.send_response(head, true);
}

/// Answers a request that is not gRPC with an HTTP status.
pub(crate) fn refuse(mut respond: SendResponse<CountedBytes>, status: StatusCode) {
    let mut head = Response::new(());
    *head.status_mut() = status;
    let _sent = respond.send_response(head, true);
}

fn head() -> Response<()> {
    let mut head = Response::new(());
    head.headers_mut().insert(CONTENT_TYPE, GRPC);
    head
}
