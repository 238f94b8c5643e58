//! What is asked of the server that keeps the limits, and what it answers.
//!
//! A call is one script call: atomic, and by the server's own clock. How it is put into words is `wire/`'s
//! affair; a model of the server answers the same calls.

use std::future::Future;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Nanos};

use crate::BucketKey;

/// Carries calls to the server, each within a deadline, and none twice.
pub trait Link: Send + Sync {
    /// One call about buckets. All keys of it are in one slot if [`Link::has_slots`].
    fn call(&self, call: &ScriptCall) -> impl Future<Output = Result<CallAnswer, LinkError>> + Send;

    /// Tells the server that `node` is alive (or, if not `alive`, leaves), and how many nodes are: those heard of
    /// within `within` of the server's now.
    fn beat(
        &self,
        node: u128,
        alive: bool,
        within: Nanos,
    ) -> impl Future<Output = Result<u32, LinkError>> + Send;

    /// Are keys spread over slots, so that one call can be about one slot only?
    fn has_slots(&self) -> bool {
        false
    }

    /// Which part of the server has a key, if parts can fail by themselves: from one on, in a fixed order. Zero is
    /// the server as a whole.
    fn part(&self, key: &BucketKey) -> usize {
        let _ = key;
        0
    }
}

/// What to do with the buckets of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerb {
    /// Take all costs, or none; then lease what is wanted beyond them. Binding entries come first, in their
    /// order, then the others; a bucket that is named again is charged again.
    Take,
    /// Say what a take would, and change nothing.
    Peek,
    /// Give the costs back, never above a capacity.
    Refund,
    /// Take back charges made at [`BucketEntry::charged_at`], by the aged rule, the last entry first.
    HandBack,
}

/// A script call.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// What to do.
    pub verb: CallVerb,
    /// With which buckets; a bucket may be named more than once.
    pub entries: SmallVec<[BucketEntry; 8]>,
    /// The server's now, where a test says so; otherwise the server's clock does.
    pub at: Option<Nanos>,
}

/// One bucket of a call.
#[derive(Clone, Debug)]
pub struct BucketEntry {
    /// Where its state is.
    pub key: BucketKey,
    /// The numbers it is charged by, scaled by the trust.
    pub limit: Limit,
    /// What is written beside the state, so that whoever reads it knows what it is written in: the numbers and
    /// the trust; see `registry/text.rs`.
    pub text: std::sync::Arc<str>,
    /// What to take or to give back.
    pub cost: Cost,
    /// Does it refuse the whole call if it does not fit?
    pub binding: bool,
    /// How much later it is counted; whole microseconds.
    pub delay: Nanos,
    /// How many tokens more to lease, at most half of what is left after the cost; buckets only.
    pub want: u32,
    /// How much longer than until it is full the state is kept. A full bucket of somebody who may be trusted more the
    /// next time holds less than a new one would then: it is forgotten once it would be full at any trust.
    pub spare: Nanos,
    /// For [`CallVerb::HandBack`]: when the charge was made, by the server's clock. For others that bring something:
    /// when it was brought up.
    pub charged_at: Nanos,
    /// What an answer has found written under another text, brought up to this one. It is used if the same is
    /// still there.
    pub brought: Option<(Vec<u8>, State)>,
}

/// What a server says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// The server's now.
    pub at: Nanos,
    /// What was done. If some state is written under another text, nothing was.
    pub said: CallOutcome,
    /// One for each entry, in their order: the state before the call; of a log that is given back to, after it.
    pub found: SmallVec<[FoundState; 8]>,
    /// One for each entry: how many tokens were leased beyond the cost.
    pub leased: SmallVec<[u32; 8]>,
    /// How many of the states were no states at all; they were taken for untouched, or for empty if they lay
    /// absurdly far ahead.
    pub poisoned: u32,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// All that was asked.
    Done,
    /// Nothing: a binding entry does not fit.
    Refused,
    /// Nothing: bring up what was found, and ask again.
    BringUp,
}

/// The state of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundState {
    /// Under the entry's own text.
    Here(State),
    /// Under another one: as it is written.
    Other(Vec<u8>),
}

/// A state, as the arithmetic of core has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a [`tidegate_core::Meter`]; zero for an untouched key.
    Word(u64),
    /// Of a sliding log.
    Log(LogState),
}

/// What is to be known of a log to answer for it: a log may be long, and stays where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// What counts at the instant asked for (now and the entry's delay).
    pub counted: u32,
    /// When the newest of it stops counting; the instant asked for if there is none.
    pub empty_at: Nanos,
    /// Where the cost does not fit: when it does. Zero otherwise.
    pub fits_at: Nanos,
    /// The whole log, oldest first, where it has to be brought up.
    pub entries: Vec<(Nanos, u32)>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The deadline has passed. What was asked may have been done.
    #[error("no answer within {0}")]
    Timeout(Nanos),
    /// There is no connection.
    #[error("not connected: {0}")]
    Down(String),
    /// The connection was lost after the call was sent. What was asked may have been done.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The server refuses: out of memory, read only, loading, no permission.
    #[error("refused: {0}")]
    Refused(String),
    /// The answer makes no sense.
    #[error("an answer that makes no sense: {0}")]
    Garbled(String),
}

impl LinkError {
    /// A word for counting.
    pub const fn kind(&self) -> &'static str {
        match self {
            LinkError::Timeout(_) => "timeout",
            LinkError::Down(_) => "down",
            LinkError::Lost(_) => "lost",
            LinkError::Refused(_) => "refused",
            LinkError::Garbled(_) => "garbled",
        }
    }
}
