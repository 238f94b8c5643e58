//! Sends responses on a stream: headers, messages, trailers. Sending fails only if the client is gone, and then nobody
//! needs the response.

use bytes::Bytes;

use super::error::CallError;
use crate::grpc::http2::call_stream::ResponseStream;
use crate::grpc::http2::hpack::encoder::{GRPC_HEAD, STATUS_OK, put_field};

/// Answers with one message, or with an error.
pub(crate) fn answer(respond: ResponseStream, answer: Result<Bytes, CallError>) {
    match answer {
        Ok(message) => respond.send_whole(GRPC_HEAD, message, STATUS_OK),
        Err(error) => fail(respond, &error),
    }
}

/// Starts a response of several messages.
pub(crate) fn open(respond: &mut ResponseStream) {
    respond.send_head(GRPC_HEAD);
}

/// Ends a response with its trailers.
pub(crate) fn close(stream: ResponseStream, error: Option<&CallError>) {
    match error {
        None => stream.send_trailers(STATUS_OK),
        Some(error) => stream.send_trailers(&with_error(Vec::new(), error)),
    }
}

/// Answers with an error only (a trailers-only response).
pub(crate) fn fail(respond: ResponseStream, error: &CallError) {
    respond.send_only(&with_error(GRPC_HEAD.to_vec(), error));
}

/// Answers a request that is not gRPC with an HTTP status.
pub(crate) fn refuse(respond: ResponseStream, status: &str) {
    let mut block = Vec::new();
    put_field(&mut block, ":status", status);
    respond.send_only(&block);
}

fn with_error(mut block: Vec<u8>, error: &CallError) -> Vec<u8> {
    error.each_field(|name, value| put_field(&mut block, name, value));
    block
}
