//! What is said on a connection, and what the answers mean. Nothing here knows a socket or a clock.

pub(crate) mod forward_auth;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod rls;
mod template;

/// One side of a conversation: the one that asks.
pub(crate) trait Dialogue {
    /// What is said before the first question.
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    /// Asks about the key with this number.
    fn ask(&mut self, key: u32, out: &mut Vec<u8>);

    /// Takes what is complete of `heard`: adds the answers, says what must be said, and tells how many
    /// bytes it took.
    fn hear(
        &mut self,
        heard: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError>;
}

/// An answer that was looked at and found to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckedAnswer {
    /// Which question of the connection it answers, counted from zero.
    pub(crate) question: u32,
    pub(crate) verdict: AnswerVerdict,
}

/// What was decided. A command that decides nothing is allowed when it was answered as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerVerdict {
    Allowed,
    Denied,
}

/// What is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("an answer that was not expected: {0}")]
    Unexpected(String),
    #[error("the connection was ended by the server: {0}")]
    Ended(String),
}

impl WireError {
    fn unexpected(seen: &[u8]) -> WireError {
        WireError::Unexpected(shown(seen))
    }
}

/// The beginning of what was received, for people.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string()
}
