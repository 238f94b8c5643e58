//! What an explanation says.

use tidegate_core::{LimitDecision, Nanos};
use tidegate_policy::{Strategy, Tier};

use super::ExplainedTenant;
use crate::engine::decision::Decision;
use crate::engine::reason::Reason;
use crate::engine::trust::TrustReport;

/// Everything that led to a decision.
#[derive(Debug)]
pub struct Explanation {
    /// The decision that a check would return.
    pub decision: Decision,
    /// What the limits alone would decide, without any gate: it has the numbers of every bucket that the request touches
    /// also where a gate decides, and `decision` has none.
    pub by_limits: Decision,
    /// The path in normal form.
    pub path: Option<String>,
    /// The route that matched, and its cost.
    pub route: Option<(String, Option<u32>)>,
    /// The upstream: named by the request, or found by its host.
    pub upstream: Option<String>,
    /// The factor by which the request multiplies costs.
    pub cost: u32,
    /// Its priority, from 0 to 100, if a limit that applies lets requests wait.
    pub priority: Option<u8>,
    /// The kill switch, or the entry of `block` or `allow` that decided.
    pub gate: Option<ExplainedGate>,
    /// Every burst detector.
    pub detectors: Vec<ExplainedDetector>,
    /// Every limit of the policy, in order.
    pub limits: Vec<ExplainedLimit>,
    /// The limits along the chain of tenants, from the root down; empty if the request has no
    /// tenant or an unknown one.
    pub tenants: Vec<ExplainedTenant>,
    /// The ancestor whose limit denies the request, rather than the tenant's own.
    pub contended: Option<String>,
    /// The tenant that the policy does not know.
    pub unknown_tenant: Option<String>,
    /// The score from which the trust of the request was computed; `None` if it was not.
    pub trust: Option<TrustReport>,
}

/// The kill switch, or an entry of `block` or `allow` that matched.
#[derive(Clone, Debug)]
pub struct ExplainedGate {
    /// `kill_switch`, `block` or `allow`.
    pub list: &'static str,
    /// Its line in the document; `None` for what is not part of the policy: the kill switch, or a live entry.
    pub line: Option<u32>,
    /// Its conditions, as written.
    pub conditions: Vec<String>,
    /// Its reason.
    pub reason: Option<String>,
}

impl ExplainedGate {
    /// The kill switch; the engine does not know why it was switched on.
    pub(super) fn kill_switch() -> ExplainedGate {
        ExplainedGate { list: Reason::KillSwitch.as_str(), line: None, conditions: Vec::new(), reason: None }
    }

    /// Is it the kill switch? Then it is no entry of a list.
    pub fn is_kill_switch(&self) -> bool {
        self.list == Reason::KillSwitch.as_str()
    }
}

/// A burst detector, and whether it applies to the request.
#[derive(Clone, Debug)]
pub struct ExplainedDetector {
    /// Its name.
    pub name: String,
    /// More than this in a window is a burst.
    pub threshold: u32,
    /// The window.
    pub window: Nanos,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
    /// The key that it counts: descriptors and values.
    pub key: Vec<(String, String)>,
    /// The descriptor that the request lacks, if the detector does not apply.
    pub missing: Option<String>,
    /// How much longer the block lasts, if there is one.
    pub blocked_for: Option<Nanos>,
}

/// A limit, and how it applies to the request.
#[derive(Clone, Debug)]
pub struct ExplainedLimit {
    /// Its name.
    pub name: String,
    /// What its key identifies.
    pub tier: Tier,
    /// Its line in the document.
    pub line: u32,
    /// Why it does not apply; `None` if it does.
    pub why_not: Option<String>,
    /// Its conditions, as written.
    pub conditions: Vec<String>,
    /// The conditions of its `unless`, as written.
    pub unless: Vec<String>,
    /// Does it deny the request because the request lacks its key?
    pub denies_missing: bool,
    /// Its group.
    pub group: Option<String>,
    /// The bucket, if it applies.
    pub bucket: Option<ExplainedBucket>,
}

/// The arithmetic of one bucket.
#[derive(Clone, Debug)]
pub struct ExplainedBucket {
    /// The key of this bucket: descriptors and values.
    pub key: Vec<(String, String)>,
    /// Is it the bucket that all requests without the key share?
    pub is_shared: bool,
    /// The algorithm and its numbers, in words.
    pub limit: String,
    /// The override from which they are.
    pub overridden: Option<ExplainedOverride>,
    /// The trust by which they are scaled, in hundredths.
    pub trust: Option<u8>,
    /// The cost of the request for this limit.
    pub cost: u32,
    /// Where the cost comes from.
    pub cost_from: String,
    /// The state of the bucket before the request.
    pub before: LimitDecision,
    /// The decision of the bucket on the request.
    pub answer: LimitDecision,
    /// Is the limit in shadow mode, so that it never denies?
    pub shadow: bool,
    /// What happens to a request that the limit denies.
    pub strategy: Strategy,
}

/// An override that matches the request.
#[derive(Clone, Debug)]
pub struct ExplainedOverride {
    /// Its name.
    pub id: String,
    /// Why it is there.
    pub reason: Option<String>,
    /// When it ends, by the wall clock.
    pub until: Option<Nanos>,
    /// The numbers of the limit without it, in words.
    pub instead_of: String,
    /// Could the limit not have its numbers? Then the limit itself applies.
    pub is_refused: bool,
}
