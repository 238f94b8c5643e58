//! The answer of `/readyz`: whether load balancers should send requests here, and which problems the node has.
//!
//! A problem that all nodes have at once, such as a store that does not answer, must not make a node unready: the load
//! balancer would then have no node left, although each of them still decides. `readiness: strict` in the settings is
//! for those who want that.

use tidegate::{Clock, Nanos};

use crate::control::startup::unix_millis;
use crate::node::Node;
use crate::node::lifecycle::{Phase, ReloadedPart};
use crate::node::store::SharedRedisStore;
use crate::settings::ReadinessRule;

/// A reason why a node is unready or degraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReason {
    /// Its name: `starting`, `draining`, `policy`, `store`, `closed_limits`, `kill_switch`, ….
    pub what: &'static str,
    /// A sentence about it.
    pub detail: String,
}

/// Whether a node is ready, and the reasons if it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Why no requests should be sent here; empty if the node is ready.
    pub unready: Vec<ReadinessReason>,
    /// Problems of a node that still answers requests.
    pub degraded: Vec<ReadinessReason>,
    /// What is no problem of the node, but worth knowing: `no_limit` while most requests meet no limit.
    pub notes: Vec<ReadinessReason>,
    /// Do problems make it unready?
    rule: ReadinessRule,
}

/// The kill switch is set on purpose, and in an emergency: it never makes a node unready.
const KILL_SWITCH: &str = "kill_switch";
/// How many limits a reason names.
const LIMITS_NAMED_MAX: usize = 5;

impl Readiness {
    /// The readiness of this node, now.
    pub fn of(node: &Node) -> Readiness {
        let rule = node.settings().readiness;
        let mut found = Readiness { unready: Vec::new(), degraded: Vec::new(), notes: Vec::new(), rule };
        let reason = |what, detail: &str| ReadinessReason { what, detail: detail.to_owned() };
        match node.lifecycle().phase() {
            Phase::Starting => found.unready.push(reason("starting", "not all listeners are open yet")),
            Phase::Draining => found.unready.push(reason("draining", "the server is shutting down")),
            Phase::Serving => {}
        }
        for part in ReloadedPart::ALL {
            if let Some(problem) = node.lifecycle().problem(part) {
                let detail =
                    format!("the changed file is invalid, the previous one stays in force: {problem}");
                found.degraded.push(ReadinessReason { what: part.as_str(), detail });
            }
        }
        if let Some(problem) = node.control().and_then(|control| control.database_problem()) {
            let detail = format!("decisions go on with the policy in force: {problem}");
            found.degraded.push(ReadinessReason { what: "database", detail });
        }
        if let Some(shared) = node.shared() {
            found.store(node, shared);
        }
        if node.limiter().kill_switch() {
            let until =
                node.control().and_then(|control| control.kill_switch_end(unix_millis(node.clock().wall())));
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            let detail = format!("the kill switch is on{until}: every request is admitted");
            found.degraded.push(ReadinessReason { what: KILL_SWITCH, detail });
        }
        let note = node.coverage().note().map(|detail| ReadinessReason { what: "no_limit", detail });
        found.notes.extend(note);
        found
    }

    /// Adds a shared store that does not answer, and the limits that cannot decide without it.
    fn store(&mut self, node: &Node, shared: &SharedRedisStore) {
        let health = shared.health();
        if health.up {
            return;
        }
        let since = node.clock().now().saturating_sub(health.since);
        let error = health.last_error.as_deref().unwrap_or("no answer yet");
        let detail = format!(
            "{} has not answered for {} s ({error}); each limit uses its `on_store_error`",
            shared.address,
            since.get() / Nanos::SECOND.get()
        );
        self.degraded.push(ReadinessReason { what: "store", detail });
        let closed = if node.limiter().kill_switch() { Vec::new() } else { node.limiter().closed_limits() };
        if !closed.is_empty() {
            let detail =
                format!("until the store answers, these limits refuse every request: {}", some_of(&closed));
            self.degraded.push(ReadinessReason { what: "closed_limits", detail });
        }
    }

    /// Should requests be sent here?
    pub fn is_ready(&self) -> bool {
        let is_problem = |reason: &ReadinessReason| reason.what != KILL_SWITCH;
        let is_good_enough = match self.rule {
            ReadinessRule::Lenient => true,
            ReadinessRule::Strict => !self.degraded.iter().any(is_problem),
        };
        self.unready.is_empty() && is_good_enough
    }

    /// `ready`, `degraded` or `unready`.
    pub fn status(&self) -> &'static str {
        match (self.is_ready(), self.degraded.is_empty()) {
            (false, _) => "unready",
            (true, false) => "degraded",
            (true, true) => "ready",
        }
    }
}

/// The first of some names, and how many more there are.
pub(super) fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(LIMITS_NAMED_MAX)].join(", ");
    match names.len() - names.len().min(LIMITS_NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
