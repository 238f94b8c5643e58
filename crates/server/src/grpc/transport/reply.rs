//! Answers as a stream carries them: headers, messages, trailers. A client that is gone is told nothing,
//! so what fails here is ignored.

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

/// Answers with one message, or with why there is none.
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

/// Begins an answer of several messages; `None` if the client is gone.
pub(crate) fn open(mut respond: SendResponse<CountedBytes>) -> Option<SendStream<CountedBytes>> {
    respond.send_response(head(), false).ok()
}

/// Ends an answer.
pub(crate) fn close(mut stream: SendStream<CountedBytes>, error: Option<&CallError>) {
    let mut trailers = HeaderMap::with_capacity(2);
    match error {
        None => {
            trailers.insert(STATUS, HeaderValue::from_static("0"));
        }
        Some(error) => error.tell(&mut trailers),
    }
    let _sent = stream.send_trailers(trailers);
}

/// Answers with nothing but why.
pub(crate) fn fail(mut respond: SendResponse<CountedBytes>, error: &CallError) {
    let mut head = head();
    error.tell(head.headers_mut());
    let _sent = respond.send_response(head, true);
}

/// Answers somebody who does not speak gRPC.
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
