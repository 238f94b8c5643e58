//! Why a call fails, and how gRPC says it.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::HeaderValue;
use tidegate::engine::AdHocError;

use crate::bounds::{BODY_BYTES_MAX, DESCRIPTOR_ENTRIES_MAX, DESCRIPTORS_MAX};
use crate::serve::BacklogFull;

/// The codes of gRPC that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("there is no method {0}")]
    UnknownMethod(String),
    #[error("messages must not be compressed")]
    Compressed,
    #[error("a message may have {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the message is not complete")]
    Incomplete,
    #[error("the message cannot be read: {0}")]
    Malformed(#[from] prost::DecodeError),
    #[error("the message did not come in time")]
    TooSlow,
    #[error("the deadline passed while the request was waiting")]
    Deadline,
    #[error(transparent)]
    Answers(#[from] BacklogFull),
    #[error("the connection is gone")]
    Gone,
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("there is no service {0}")]
    UnknownService(String),
    #[error("domain must not be empty")]
    NoDomain,
    #[error("descriptors must not be empty")]
    NoDescriptors,
    #[error("a request may have {DESCRIPTORS_MAX} descriptors; this one has {0}")]
    TooManyDescriptors(usize),
    #[error("a descriptor may have {DESCRIPTOR_ENTRIES_MAX} entries; descriptors[{place}] has {entries}")]
    TooManyEntries { place: usize, entries: usize },
    #[error("descriptors[{0}].limit.unit must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")]
    UnknownUnit(usize),
    #[error(
        "is_negative_hits and limit are for trusted_proxies of the settings only, and {0} is none of them"
    )]
    NotTrusted(IpAddr),
    #[error("a limit that the request brings along cannot be used: {0}")]
    Override(#[from] AdHocError),
}

impl CallError {
    /// Its code.
    pub(crate) fn code(&self) -> Code {
        match self {
            CallError::UnknownMethod(_) | CallError::Compressed => Code::Unimplemented,
            CallError::NotTrusted(_) => Code::PermissionDenied,
            CallError::TooLarge | CallError::Override(AdHocError::TooMany(_)) => Code::ResourceExhausted,
            CallError::TooSlow | CallError::Deadline => Code::DeadlineExceeded,
            CallError::Gone | CallError::ShuttingDown | CallError::Answers(_) => Code::Unavailable,
            CallError::UnknownService(_) => Code::NotFound,
            CallError::Incomplete
            | CallError::Malformed(_)
            | CallError::NoDomain
            | CallError::NoDescriptors
            | CallError::TooManyDescriptors(_)
            | CallError::TooManyEntries { .. }
            | CallError::UnknownUnit(_)
            | CallError::Override(_) => Code::InvalidArgument,
        }
    }

    /// Adds what a client is told to trailers, or to headers that stand for them.
    pub(crate) fn tell(&self, trailers: &mut HeaderMap) {
        trailers.insert("grpc-status", HeaderValue::from(self.code() as u16));
        trailers.insert("grpc-message", percent_encoded(&self.to_string()));
        if matches!(self, CallError::Compressed) {
            trailers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
        }
    }
}

/// A message as a header carries it.
fn percent_encoded(message: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(char::from(byte)),
        }
    }
    HeaderValue::try_from(encoded).expect("only visible ASCII is left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_wire() {
        let error = CallError::UnknownService("50 % ü\n".to_owned());
        let mut trailers = HeaderMap::new();
        error.tell(&mut trailers);
        assert_eq!(trailers["grpc-status"], "5");
        assert_eq!(trailers["grpc-message"], "there is no service 50 %25 %C3%BC%0A");
    }

    #[test]
    fn a_limit_that_is_passed_is_named() {
        let error = CallError::TooManyEntries { place: 3, entries: 17 };
        assert_eq!(error.to_string(), "a descriptor may have 16 entries; descriptors[3] has 17");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn what_is_wrong_with_the_request_is_told_from_what_the_server_is_short_of() {
        let code = |error: AdHocError| CallError::from(error).code();
        assert_eq!(code(AdHocError::EmptyKey), Code::InvalidArgument);
        assert_eq!(code(AdHocError::TooMany(65_536)), Code::ResourceExhausted);
    }
}
