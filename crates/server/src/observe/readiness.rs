//! Whether to send requests here, and what is not as it should be.

use tidegate::{Clock, Nanos};

use crate::node::Node;
use crate::node::lifecycle::{Phase, ReloadedPart};
use crate::node::store::SharedRedisStore;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReason {
    /// What, in a word: `starting`, `draining`, `policy`, `store`, `kill_switch`, ….
    pub what: &'static str,
    /// In a sentence.
    pub detail: String,
}

/// Whether a node is ready, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Why no requests should come. None: they may.
    pub unready: Vec<ReadinessReason>,
    /// What is not as it should be, though requests are answered.
    pub degraded: Vec<ReadinessReason>,
}

impl Readiness {
    /// Of this node, now.
    pub fn of(node: &Node) -> Readiness {
        let mut found = Readiness { unready: Vec::new(), degraded: Vec::new() };
        let trouble = |what, detail: &str| ReadinessReason { what, detail: detail.to_owned() };
        match node.lifecycle().phase() {
            Phase::Starting => found.unready.push(trouble("starting", "not all listeners are open yet")),
            Phase::Draining => found.unready.push(trouble("draining", "the server is shutting down")),
            Phase::Serving => {}
        }
        for concern in ReloadedPart::ALL {
            if let Some(problem) = node.lifecycle().problem(concern) {
                let detail = format!("an edit is not valid, what was there before stays in force: {problem}");
                found.degraded.push(ReadinessReason { what: concern.as_str(), detail });
            }
        }
        if let Some(shared) = node.shared() {
            found.store(node, shared);
        }
        if node.limiter().kill_switch() {
            found.degraded.push(trouble("kill_switch", "everything is admitted, by order"));
        }
        found
    }

    /// A store that does not answer; it is worse where limits refuse for want of it.
    fn store(&mut self, node: &Node, shared: &SharedRedisStore) {
        let health = shared.health();
        if health.up {
            return;
        }
        let since = node.clock().now().saturating_sub(health.since);
        let error = health.last_error.as_deref().unwrap_or("no answer yet");
        let detail = format!(
            "{} does not answer for {} s ({error}); each limit goes by its `on_store_error`",
            shared.place,
            since.get() / Nanos::SECOND.get()
        );
        let is_closed = node.limiter().has_closed_limits() && !node.limiter().kill_switch();
        if is_closed {
            let detail = format!("limits that are `closed` without the store cannot decide: {detail}");
            self.unready.push(ReadinessReason { what: "store", detail });
        }
        self.degraded.push(ReadinessReason { what: "store", detail });
    }

    /// May requests come?
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }

    /// In a word.
    pub fn status(&self) -> &'static str {
        match (self.is_ready(), self.degraded.is_empty()) {
            (false, _) => "unready",
            (true, false) => "degraded",
            (true, true) => "ready",
        }
    }
}
