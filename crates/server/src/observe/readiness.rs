//! The answer of `/readyz`: whether load balancers should send requests here, and which problems the node has.

use tidegate::{Clock, Nanos};

use crate::node::Node;
use crate::node::lifecycle::{Phase, ReloadedPart};
use crate::node::store::SharedRedisStore;

/// A reason why a node is unready or degraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReason {
    /// Its name: `starting`, `draining`, `policy`, `store`, `kill_switch`, ….
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
}

impl Readiness {
    /// The readiness of this node, now.
    pub fn of(node: &Node) -> Readiness {
        let mut found = Readiness { unready: Vec::new(), degraded: Vec::new() };
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
        if let Some(shared) = node.shared() {
            found.store(node, shared);
        }
        if node.limiter().kill_switch() {
            found.degraded.push(reason("kill_switch", "the kill switch is on: every request is admitted"));
        }
        found
    }

    /// Adds a shared store that does not answer. The node is unready if some limits are `closed` without the store.
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
        let is_closed = node.limiter().has_closed_limits() && !node.limiter().kill_switch();
        if is_closed {
            let detail = format!("limits with `on_store_error: closed` refuse every request: {detail}");
            self.unready.push(ReadinessReason { what: "store", detail });
        }
        self.degraded.push(ReadinessReason { what: "store", detail });
    }

    /// Should requests be sent here?
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
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
