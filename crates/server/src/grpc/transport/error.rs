//! Why a call fails, and its gRPC status.

use std::net::IpAddr;

use tidegate::engine::AdHocError;

use crate::bounds::{
    BODIES_BYTES_MAX, BODY_BYTES_MAX, DESCRIPTOR_ENTRIES_MAX, DESCRIPTORS_MAX, GRPC_QUOTED_BYTES_MAX,
};
use crate::serve::BacklogFull;

/// The gRPC status codes in use.
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
    #[error("unknown method {0}")]
    UnknownMethod(Quoted),
    #[error("messages must not be compressed")]
    Compressed,
    #[error("the message is larger than {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the message is incomplete")]
    Incomplete,
    #[error("the message cannot be decoded: {0}")]
    Malformed(#[from] prost::DecodeError),
    #[error("the message did not arrive in time")]
    TooSlow,
    #[error("the deadline passed while the request was waiting")]
    Deadline,
    #[error(transparent)]
    Backlog(#[from] BacklogFull),
    #[error(
        "unfinished messages use up the memory set aside for them ({} MiB in all, a part of it for one address); \
         send the request again in a moment",
        BODIES_BYTES_MAX >> 20
    )]
    BodiesFull,
    #[error("the connection is gone")]
    Gone,
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("unknown service {0}")]
    UnknownService(Quoted),
    #[error("domain must not be empty")]
    NoDomain,
    #[error("descriptors must not be empty")]
    NoDescriptors,
    #[error("a request may have at most {DESCRIPTORS_MAX} descriptors; this one has {0}")]
    TooManyDescriptors(usize),
    #[error(
        "a descriptor may have at most {DESCRIPTOR_ENTRIES_MAX} entries; descriptors[{index}] has {entries}"
    )]
    TooManyEntries { index: usize, entries: usize },
    #[error("descriptors[{0}].limit.unit must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")]
    UnknownUnit(usize),
    #[error(
        "only `trusted_proxies` of the settings may use is_negative_hits and limit, and {0} is not one of them"
    )]
    NotTrusted(IpAddr),
    #[error("the limit in the request cannot be used: {0}")]
    Override(#[from] AdHocError),
}

impl CallError {
    /// The status code of the error.
    pub(crate) fn code(&self) -> Code {
        match self {
            CallError::UnknownMethod(_) | CallError::Compressed => Code::Unimplemented,
            CallError::NotTrusted(_) => Code::PermissionDenied,
            CallError::TooLarge | CallError::BodiesFull | CallError::Override(AdHocError::TooMany(_)) => {
                Code::ResourceExhausted
            }
            CallError::TooSlow | CallError::Deadline => Code::DeadlineExceeded,
            CallError::Gone | CallError::ShuttingDown | CallError::Backlog(_) => Code::Unavailable,
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

    /// Calls `field` with each field of the trailers, or of the headers of a trailers-only response.
    pub(crate) fn each_field(&self, mut field: impl FnMut(&str, &str)) {
        field("grpc-status", itoa::Buffer::new().format(self.code() as u16));
        field("grpc-message", &percent_encoded(&self.to_string()));
        if matches!(self, CallError::Compressed) {
            field("grpc-accept-encoding", "identity");
        }
    }
}

/// A text of the client in an error. A long one is cut, because errors are sent whether the client reads them or not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quoted(String);

impl Quoted {
    pub(crate) fn new(text: &str) -> Quoted {
        match text.len() <= GRPC_QUOTED_BYTES_MAX {
            true => Quoted(text.to_owned()),
            false => Quoted(format!("{}…", &text[..text.floor_char_boundary(GRPC_QUOTED_BYTES_MAX)])),
        }
    }
}

impl std::fmt::Display for Quoted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Percent-encodes a message for `grpc-message`. A long one is cut.
fn percent_encoded(message: &str) -> String {
    const BYTES_MAX: usize = 512;
    let mut encoded = String::with_capacity(message.len().min(BYTES_MAX));
    for byte in message.bytes().take(BYTES_MAX) {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_wire() {
        let error = CallError::UnknownService(Quoted::new("50 % ü\n"));
        let mut trailers = Vec::new();
        error.each_field(|name, value| trailers.push(format!("{name}: {value}")));
        assert_eq!(trailers, ["grpc-status: 5", "grpc-message: unknown service 50 %25 %C3%BC%0A"]);
    }

    #[test]
    fn a_long_quotation_is_cut() {
        let error = CallError::UnknownService(Quoted::new(&"\n".repeat(60_000)));
        let mut size = 0;
        error.each_field(|name, value| size += name.len() + value.len());
        assert!(size < 512, "{size}");
    }

    #[test]
    fn a_limit_that_is_passed_is_named() {
        let error = CallError::TooManyEntries { index: 3, entries: 17 };
        assert_eq!(error.to_string(), "a descriptor may have at most 16 entries; descriptors[3] has 17");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn what_is_wrong_with_the_request_is_told_from_what_the_server_is_short_of() {
        let code = |error: AdHocError| CallError::from(error).code();
        assert_eq!(code(AdHocError::EmptyKey), Code::InvalidArgument);
        assert_eq!(code(AdHocError::TooMany(65_536)), Code::ResourceExhausted);
    }
}
