//! Burst detectors, and what a store does that shares their counts and penalties between nodes.

use std::net::IpAddr;

use smallvec::SmallVec;
use tidegate_core::Nanos;

use crate::Later;

/// A burst detector: what it counts, and its penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstDetector {
    /// A hash of its name, so that counts and penalties survive an edit.
    pub id: u64,
    /// The length of a window; zero is read as one nanosecond.
    pub window: Nanos,
    /// The most requests in a window.
    pub threshold: u32,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
}

/// The action that a request triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstAction {
    /// A first offence: the key is warned.
    Warned,
    /// An offence while warned: the key is blocked.
    Blocked,
}

/// The result of a detector for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstVerdict {
    /// The end of the block, if the key is blocked.
    pub blocked_until: Option<Nanos>,
    /// The action that this request triggered.
    pub action: Option<BurstAction>,
}

/// One request, as a detector that nodes share counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstCount {
    /// The detector.
    pub detector: BurstDetector,
    /// A hash of the detector's id and the client's key; see [`SharedBursts::key`].
    pub key: u128,
}

/// The counts of a request.
pub type BurstCounts = SmallVec<[BurstCount; 2]>;

/// What a node knows about a key without asking the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBurst {
    /// The penalty, and an action that no decision has reported yet.
    pub verdict: BurstVerdict,
    /// Is the block known for so long that it may have been lifted? Then the server should be asked.
    pub is_stale: bool,
    /// Is the action one of those that [`SharedBursts::take_late`] returns? Then whoever takes it there reports it.
    pub is_late: bool,
}

/// Whom a count is about, to report a penalty that it leads to when its request is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstSubject {
    /// The name of the detector.
    pub detector: Box<str>,
    /// The version of the policy that the detector is from.
    pub policy_version: u64,
    /// The client's key for people, without secrets.
    pub shown: Box<str>,
    /// The user, if the key has one.
    pub user: Option<Box<str>>,
    /// The client application, if the key has one.
    pub client: Option<Box<str>>,
    /// The tenant, if the key has one.
    pub tenant: Option<Box<str>>,
    /// The address, if the key has one and is about no other address.
    pub ip: Option<IpAddr>,
    /// The hash of the key in this node's own detectors.
    pub own_hash: u64,
    /// Is the detector that of a policy that is only tried out? Then nobody is told.
    pub is_tried_out: bool,
}

/// An action that the server has reported for counts whose requests were decided before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateBurst {
    /// The action.
    pub action: BurstAction,
    /// When this node heard of it.
    pub at: Nanos,
    /// What was counted, and whom it is about. `None` if there were too many to remember that.
    pub about: Option<(BurstCount, Box<BurstSubject>)>,
}

/// The most penalties in the list that nodes share. Further ones are in force, but are not listed.
pub const SHARED_PENALTIES_MAX: usize = 4_096;

/// A penalty in the list that nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPenalty {
    /// The hash of the detector's id and the client's key; see [`SharedBursts::key`].
    pub key: u128,
    /// The name of the detector.
    pub detector: Box<str>,
    /// The client's key for people, without secrets.
    pub shown: Box<str>,
    /// A warning or a block.
    pub kind: BurstAction,
    /// How long it still lasts.
    pub left: Nanos,
}

/// A part of the list that nodes share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPenaltyPage {
    /// Penalties in force, by ascending key.
    pub penalties: Vec<SharedPenalty>,
    /// The key after which the next part begins; `None` if this is the last part.
    pub next: Option<u128>,
}

/// Burst detectors whose counts and penalties nodes share. Windows and penalties go by the server's clock; a node
/// remembers a penalty until its end.
pub trait SharedBursts: Send + Sync {
    /// The hash of a detector's id and a client's key, the same on every node. No client can choose two keys with
    /// the same hash.
    fn key(&self, detector: &BurstDetector, key: &[u8]) -> u128;

    /// What this node knows about a key. With `takes_action`, an action that the server has reported belongs to this
    /// request, and is not returned again.
    fn known(&self, count: &BurstCount, takes_action: bool, now: Nanos) -> KnownBurst;

    /// Counts requests whose decision does not wait: they are sent soon, and keep their window. `describe` says whom
    /// one of them is about, by its index. `false` if they cannot be sent; then the caller's own detector must count
    /// them.
    fn add(&self, counts: &[BurstCount], describe: &dyn Fn(usize) -> BurstSubject, now: Nanos) -> bool;

    /// Is there an action that [`SharedBursts::take_late`] would return?
    fn has_late(&self) -> bool;

    /// Removes some of the actions, at most `most`, that the server has reported for counts whose requests were decided
    /// before. Each is returned once, on the node that has sent the counts.
    fn take_late(&self, most: usize, now: Nanos) -> Vec<LateBurst>;

    /// Counts requests on the server; after that, [`SharedBursts::known`] has its answer. `false` if it does not
    /// answer; then the caller's own detector must count them.
    fn ask(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool>;

    /// Reads the penalties of keys from the server, and counts nothing; after that, [`SharedBursts::known`] has them.
    /// `false` if it does not answer.
    fn look(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool>;

    /// Does every request ask the server, even one that no limit applies to?
    fn asks_always(&self) -> bool;

    /// Adds a penalty that has just begun to the list that nodes share, within a second.
    fn list(&self, penalty: SharedPenalty);

    /// A part of the list that nodes share: at most `most` penalties in force, after the key `after`. `None` if the
    /// server does not answer.
    fn listed(&self, after: Option<u128>, most: usize) -> Later<'_, Option<SharedPenaltyPage>>;

    /// Ends the penalty of a key on the server and on this node. Other nodes notice within a second. `false` if the
    /// server does not answer.
    fn lift(&self, key: u128) -> Later<'_, bool>;
}
