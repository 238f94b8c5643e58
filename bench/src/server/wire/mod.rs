//! The client sides of the protocols: they write requests and parse responses, without sockets or clocks.

pub(crate) mod forward_auth;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod rls;
mod template;

pub(crate) use template::user_of;

/// The client side of a connection.
pub(crate) trait ClientProtocol {
    /// Writes what the protocol needs before the first request.
    fn write_preface(&mut self, _out: &mut Vec<u8>) {}

    /// Writes a request for the key with this number.
    fn write_request(&mut self, key: u32, out: &mut Vec<u8>);

    /// Parses the complete responses in `received`, adds them to the answers, and writes what the protocol
    /// needs in return. Returns the number of bytes consumed.
    fn receive(
        &mut self,
        received: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError>;
}

/// A response that was parsed and is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckedAnswer {
    /// The index of its request on the connection, from zero.
    pub(crate) request: u32,
    pub(crate) verdict: AnswerVerdict,
}

/// The decision in a response. For a command without a decision, the expected reply counts as allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerVerdict {
    Allowed,
    Denied,
}

/// Why a response is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("an unexpected response: {0}")]
    Unexpected(String),
    #[error("the server closed the connection: {0}")]
    Ended(String),
}

impl WireError {
    fn unexpected(seen: &[u8]) -> WireError {
        WireError::Unexpected(shown(seen))
    }
}

/// The beginning of the received bytes, for error messages.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string()
}
