//! What happened on the server, call by call. A naive model replays it after the run.

use tidegate_core::{Limit, Nanos};
use tidegate_redis::{BucketEntry, CallOutcome, CallVerb};

use crate::world::TaskId;

/// Something that happened on the server.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// It answered a call.
    Call(ServedCall),
    /// It lost what it knew about a bucket, or about all.
    Lost(Option<usize>),
    /// A replica became the master, and the old one still runs.
    Split,
    /// The old master ended.
    Merged,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPurpose {
    /// It decides a request.
    Request,
    /// It does what an action of the scenario says.
    Action {
        /// The number of the action.
        number: usize,
        /// The tokens to grant; `None` makes the bucket unused.
        tokens: Option<u32>,
    },
    /// It writes a bucket in the numbers that are in force.
    Renumbering,
    /// It is the maintenance of a store.
    Upkeep,
}

/// A call that the server answered.
#[derive(Clone, Debug)]
pub struct ServedCall {
    /// When, by the server's clock.
    pub at: Nanos,
    /// The task that sent it.
    pub task: Option<TaskId>,
    /// The node.
    pub node: usize,
    /// When the task began, in true time.
    pub began: Nanos,
    /// When the call was sent, in true time.
    pub sent: Nanos,
    /// What the task is for.
    pub purpose: TaskPurpose,
    /// Did a master answer it that was replaced?
    pub on_old: bool,
    /// The operation.
    pub verb: CallVerb,
    /// The effect.
    pub outcome: CallOutcome,
    /// The buckets.
    pub entries: Vec<ServedEntry>,
}

/// One bucket of a call.
#[derive(Clone, Copy, Debug)]
pub struct ServedEntry {
    /// The bucket.
    pub bucket: usize,
    /// The tokens to take or to return.
    pub cost: u32,
    /// The tokens that were leased.
    pub leased: u32,
    /// The numbers that the bucket is charged by.
    pub limit: Limit,
    /// For a hand-back: when the charge was made, by the server's clock.
    pub charged_at: Nanos,
    /// If the bucket was found in other numbers and is brought in these: as of when, by the server's clock.
    pub migrated_at: Option<Nanos>,
}

impl ServedEntry {
    pub(crate) fn of(bucket: usize, entry: &BucketEntry, leased: u32) -> ServedEntry {
        ServedEntry {
            bucket,
            cost: entry.cost.get(),
            leased,
            limit: entry.limit,
            charged_at: entry.charged_at,
            migrated_at: entry.migrated.as_ref().map(|_| entry.charged_at),
        }
    }
}
