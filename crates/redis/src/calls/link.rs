//! The calls that a store makes to its server, and the answers, as Rust types.
//!
//! A call is one script call: atomic, and timed by the server's own clock. `wire` turns it into bytes; the simulator's
//! model of the server answers the same calls without any.

use std::future::Future;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Nanos};

use super::bursts::{BurstAnswer, BurstCall};
use super::penalties::{PenaltyListAnswer, PenaltyListCall};
use crate::registry::BucketKey;

/// Carries calls to the server, each within a deadline, and none twice.
pub trait Link: Send + Sync {
    /// Sends one call about buckets. If [`Link::has_slots`], all its keys are in one slot.
    fn call(&self, call: &ScriptCall) -> impl Future<Output = Result<CallAnswer, LinkError>> + Send;

    /// Records a heartbeat on the server, and returns how many nodes are alive.
    fn heartbeat(&self, heartbeat: &Heartbeat) -> impl Future<Output = Result<u32, LinkError>> + Send;

    /// Counts requests in burst detectors. If [`Link::has_slots`], all its keys are in one slot.
    fn count_bursts(
        &self,
        call: &BurstCall,
    ) -> impl Future<Output = Result<Vec<BurstAnswer>, LinkError>> + Send;

    /// Changes or reads the list of penalties.
    fn list_penalties(
        &self,
        call: &PenaltyListCall,
    ) -> impl Future<Output = Result<PenaltyListAnswer, LinkError>> + Send;

    /// Runs `poll`, which polls futures of [`Link::call`], once or twice: calls that it begins may be gathered, and are then
    /// sent as one in the second run. Each time it must poll all that are pending, whether or not they were woken.
    ///
    /// A call that is sent with another one has no deadline of its own: it ends when that one does. So each future must be
    /// polled until it is ready, or dropped.
    fn send_together(&self, poll: &mut dyn FnMut()) {
        poll();
    }

    /// Are keys spread over slots, so that the keys of one call must share a slot?
    fn has_slots(&self) -> bool {
        false
    }

    /// The shard that holds a key, where shards can fail separately: numbered from one, in a fixed order. Zero is the
    /// server as a whole.
    fn shard(&self, key: &BucketKey) -> usize {
        let _ = key;
        0
    }
}

/// A node tells the server that it is alive, or that it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The key of the list of nodes.
    pub key: BucketKey,
    /// The node.
    pub node: u128,
    /// `false` if the node leaves.
    pub alive: bool,
    /// How long a node counts after its last heartbeat.
    pub within: Nanos,
}

/// The operation of a call on its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerb {
    /// Take all costs or none, then lease the wanted tokens. Binding entries are charged first, then the others, each
    /// group in its order; a bucket that appears twice is charged twice.
    Take,
    /// Answer as a take would, and change nothing.
    Peek,
    /// Return the costs, never above a capacity.
    Refund,
    /// Hand back charges made at [`BucketEntry::charged_at`], less what was refilled since; the last entry first.
    HandBack,
}

/// The most keys of one call, far more than any request has limits: Lua's `unpack` takes no more.
pub(crate) const CALL_KEYS_MAX: usize = 4_000;

/// A script call.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// The operation.
    pub verb: CallVerb,
    /// The buckets; one may appear more than once.
    pub entries: Vec<BucketEntry>,
    /// The time of the call, if a test gives it; otherwise the server's clock is used.
    pub at: Option<Nanos>,
}

/// One bucket of a call.
#[derive(Clone, Debug)]
pub struct BucketEntry {
    /// The key of its state.
    pub key: BucketKey,
    /// The numbers to charge by, scaled by the trust.
    pub limit: Limit,
    /// The numbers and the trust as text. It is stored with the state, so that every node knows in which numbers the
    /// state is written; see `registry/numbers_text.rs`.
    pub text: std::sync::Arc<str>,
    /// The tokens to take or to return.
    pub cost: Cost,
    /// If it does not fit, is the whole call refused?
    pub binding: bool,
    /// How much later the charge counts; whole microseconds.
    pub delay: Nanos,
    /// How many tokens to lease beyond the cost: at most half of what is left after it. Token buckets only.
    pub want: u32,
    /// How much longer than until it is full the state is kept. A full bucket at a low trust holds less than a new one
    /// would at a higher trust, so it may be forgotten only when it would be full at any trust.
    pub spare: Nanos,
    /// For [`CallVerb::HandBack`]: when the charge was made, by the server's clock. With a migrated state: when it was
    /// migrated.
    pub charged_at: Nanos,
    /// A value that an earlier answer found under another text, and its state migrated to this one. The server uses the
    /// state if it still finds the same value. Boxed, because it is rare.
    pub migrated: Option<Box<(Vec<u8>, State)>>,
}

/// The server's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// The server's time.
    pub at: Nanos,
    /// The effect of the call.
    pub outcome: CallOutcome,
    /// For each entry: the state before the call; for a log that tokens are returned to, after it.
    pub found: Vec<FoundState>,
    /// For each entry: how many tokens were leased beyond the cost.
    pub leased: SmallVec<[u32; 8]>,
    /// How many stored values were no valid states. They count as untouched, or as used up if they lay absurdly far in
    /// the future.
    pub poisoned: u32,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Everything that was requested.
    Done,
    /// Nothing: a binding entry does not fit.
    Refused,
    /// Nothing: some state is stored under another text. Migrate what was found, and call again.
    Migrate,
}

/// The stored state of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundState {
    /// Under the entry's own text.
    Here(State),
    /// Under another text: the stored bytes.
    Other(Vec<u8>),
}

/// A state in the form that core computes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a [`tidegate_core::Meter`]; zero for an untouched key.
    Word(u64),
    /// Of a sliding log.
    Log(LogState),
}

/// The summary of a log that is enough to decide. The log may be long, so its entries stay on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// How many tokens count at the instant of the charge (the server's time plus the entry's delay).
    pub counted: u32,
    /// When the newest entry stops counting; the instant of the charge if there is none.
    pub empty_at: Nanos,
    /// When the cost fits, if it does not fit yet; zero otherwise.
    pub fits_at: Nanos,
    /// All entries, oldest first, if the log has to be migrated.
    pub entries: Vec<(Nanos, u32)>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The deadline has passed. The server may have executed the call.
    #[error("no answer within {0}")]
    Timeout(Nanos),
    /// There is no connection.
    #[error("not connected: {0}")]
    Down(String),
    /// The connection was lost after the call was sent. The server may have executed the call.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The call was sent as a part of another one, which was cancelled. The server may have executed it.
    #[error("the call that it was sent with was cancelled")]
    Cancelled,
    /// The call was sent as a part of another one, which failed so. It is one failure of the server, and that other call
    /// reports it.
    #[error("{0}")]
    SentWith(Box<LinkError>),
    /// The server refuses the call: out of memory, read only, loading, no permission.
    #[error("refused: {0}")]
    Refused(String),
    /// The answer cannot be read.
    #[error("unreadable answer: {0}")]
    Garbled(String),
}

impl LinkError {
    /// The label of this kind of error in [`ErrorCounts`](crate::ErrorCounts).
    pub const fn kind(&self) -> &'static str {
        match self {
            LinkError::Timeout(_) => "timeout",
            LinkError::Down(_) => "down",
            LinkError::Lost(_) => "lost",
            LinkError::Cancelled => "cancelled",
            LinkError::SentWith(error) => error.kind(),
            LinkError::Refused(_) => "refused",
            LinkError::Garbled(_) => "garbled",
        }
    }
}
