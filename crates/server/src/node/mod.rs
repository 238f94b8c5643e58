//! The node: what all listeners share, and the only path from a request to a decision.
//!
//! `Node` wraps the engine and adds identity, metrics, traces and `events`. `store` connects it to memory or Redis,
//! `lifecycle` has the phase of the server.

mod console_link;
mod create;
mod error;
mod events;
pub mod lifecycle;
pub mod store;

pub use error::NodeError;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use tidegate::engine::{
    AdHocAnswer, AdHocError, AdHocRequest, Decision, Entered, Joint, JointDecision, Limiter, Reason, Request,
};
use tidegate::{Clock, Cost, MemoryStats, MonotonicClock, Nanos, NowOrLater};

use tidegate_policy::IdentityFault;

use crate::bounds::budget::ByteBudget;
use crate::control::ControlPlane;
use crate::identity::{ClientInfo, Identity, Verified};
use crate::node::lifecycle::Lifecycle;
use crate::node::store::{NodeStore, SharedRedisStore, StoreThread};
use crate::observe::{Events, LimitCoverage, Metrics, Origin, OwnedOrigin, Protocol, Traces, within_trace};
use crate::settings::Settings;

/// Everything that a listener needs to answer requests.
#[derive(Debug)]
pub struct Node {
    /// The engine, ad hoc buckets included.
    limiter: Limiter<NodeStore>,
    identity: Identity,
    settings: Settings,
    lifecycle: Lifecycle,
    /// Counters of the server itself; the engine has its own.
    metrics: Metrics,
    traces: Traces,
    events: Events,
    coverage: LimitCoverage,
    /// Memory budget for request bodies that have not arrived completely.
    body_budget: Arc<ByteBudget>,
    /// Memory budget for responses that clients have not read.
    backlog_budget: Arc<ByteBudget>,
    /// The thread of the shared store, if there is one.
    store_thread: Option<StoreThread>,
    /// The control plane, if it was started.
    control: OnceLock<ControlPlane>,
}

impl Node {
    /// The engine, for reading its counters and changing its policy. For decisions, use the methods of the node.
    pub fn limiter(&self) -> &Limiter<NodeStore> {
        &self.limiter
    }

    /// Determines the identity of clients.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The phase of the server and its reload problems.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Counters of the server itself; the engine has its own.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether the policy limits the requests that come.
    pub fn coverage(&self) -> &LimitCoverage {
        &self.coverage
    }

    /// The exporter of spans.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Replaces the exporter of spans.
    pub fn set_traces(&mut self, traces: Traces) {
        self.traces = traces;
    }

    /// Memory budget for request bodies that have not arrived completely.
    pub(crate) fn body_budget(&self) -> &Arc<ByteBudget> {
        &self.body_budget
    }

    /// Replaces the memory budget for bodies.
    #[cfg(test)]
    pub(crate) fn set_body_budget(&mut self, budget: Arc<ByteBudget>) {
        self.body_budget = budget;
    }

    /// Memory budget for responses that clients have not read.
    pub(crate) fn backlog_budget(&self) -> &Arc<ByteBudget> {
        &self.backlog_budget
    }

    /// The thread of the shared store, if there is one.
    pub(crate) fn store_thread(&self) -> Option<&StoreThread> {
        self.store_thread.as_ref()
    }

    /// Is this loopback or a trusted proxy? Such an address carries many clients, so it gets higher bounds.
    pub(crate) fn is_loopback_or_proxy(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.identity.trusts(address)
    }

    /// The shared store, if there is one; for metrics and readiness.
    pub fn shared(&self) -> Option<&Arc<SharedRedisStore>> {
        match self.limiter.store() {
            NodeStore::Local(_) => None,
            NodeStore::Shared(shared) => Some(shared),
        }
    }

    /// The state of this node's memory, which holds all limits, or this node's shares while the shared store fails.
    pub fn memory(&self) -> MemoryStats {
        match self.limiter.store() {
            NodeStore::Local(memory) => memory.stats(),
            NodeStore::Shared(_) => self.limiter.fallback_stats().expect("a shared store has a fallback"),
        }
    }

    /// The state of this node's memory for ad hoc buckets.
    pub fn ad_hoc_memory(&self) -> MemoryStats {
        self.limiter.ad_hoc_stats().expect("every node has ad hoc buckets")
    }

    /// The clock of all decisions.
    pub(crate) fn clock(&self) -> &MonotonicClock {
        self.limiter.clock()
    }

    /// Decides and charges, without waiting in a queue.
    #[inline]
    pub fn check(&self, origin: Origin<'_>, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        let _trace = self.trace_scope(origin);
        self.measured(origin, self.limiter.check_async_at(request, began), began, whole_decision)
    }

    /// Decides and charges; waits if a queue requires it.
    #[inline]
    pub fn admit(&self, origin: Origin<'_>, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        let _trace = self.trace_scope(origin);
        self.measured(origin, self.limiter.admit(request), began, whole_decision)
    }

    /// The first step of a request whose credential the server verifies: see [`Limiter::enter`].
    pub fn enter(&self, request: &Request<'_>) -> Entered {
        self.limiter.enter(request)
    }

    /// Verifies the credentials of a request, unless it is already decided: that saves a signature check.
    pub fn verify(&self, entered: &Entered, who: &ClientInfo<'_>, key: Option<&[u8]>) -> Verified {
        if entered.is_decided() {
            return Verified::default();
        }
        let Some(verified) = self.identity.verify(who, key, self.clock().wall()) else {
            return Verified::default();
        };
        self.metrics.credential(verified.credential(), verified.rejection(), verified.key_status());
        verified
    }

    /// Counts and logs that a source of an identity has a value that cannot be used. The value is not logged: it may be
    /// a secret.
    pub fn identity_fault(&self, fault: &IdentityFault) {
        self.metrics.identity_fault();
        tracing::info!(source = fault.source, why = fault.why, "a source of an identity cannot be used");
    }

    /// Decides and charges a request that has entered and whose identity is now known; waits if a queue requires it.
    pub fn admit_entered(
        &self,
        origin: Origin<'_>,
        entered: Entered,
        request: &Request<'_>,
    ) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        let _trace = self.trace_scope(origin);
        let decided = self.linked(self.limiter.admit_entered(entered, request), request);
        self.measured(origin, decided, began, whole_decision)
    }

    /// What [`Node::check`] would decide, without charging.
    pub fn peek(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.limiter.peek_async(request)
    }

    /// Refunds tokens to the limits of a request.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> NowOrLater<'_, Decision> {
        self.limiter.refund_async(request, cost)
    }

    /// Decides several requests, all or nothing.
    ///
    /// # Errors
    /// When the numbers of an ad hoc bucket are not a valid limit.
    pub async fn check_joint(
        &self,
        origin: Origin<'_>,
        requests: &[Joint<'_, '_>],
    ) -> Result<JointDecision, AdHocError> {
        let began = self.clock().now();
        let joint = within_trace(self.told_trace(origin), self.limiter.check_joint_async(requests)).await?;
        let ended = self.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        for decision in &joint.decisions {
            self.metrics.requests_decided(origin.protocol, 1);
            self.traces.decided(origin, decision, began, ended);
        }
        Ok(self.linked_joint(joint, requests))
    }

    /// Decides by an ad hoc bucket.
    ///
    /// # Errors
    /// When its numbers are not a valid limit.
    #[inline]
    pub fn check_ad_hoc(
        &self,
        origin: Origin<'_>,
        request: &AdHocRequest<'_>,
    ) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let began = self.clock().now();
        let _trace = self.trace_scope(origin);
        let answer = self.limiter.check_ad_hoc(request, began);
        let decided = answer.map(|answer| Ok(self.limiter.ad_hoc_decision(&answer?)));
        self.measured(origin, decided, began, |decided| decided.as_ref().ok())
    }

    /// The same without a trace span, and with the short answer of the bucket. A caller that decides many at once
    /// measures the immediate answers together by [`Node::measure_many`]; answers that wait for the store are measured
    /// here.
    ///
    /// # Errors
    /// When its numbers are not a valid limit.
    #[inline]
    pub fn check_ad_hoc_in_short(
        &self,
        protocol: Protocol,
        request: &AdHocRequest<'_>,
        began: Nanos,
    ) -> NowOrLater<'_, Result<AdHocAnswer, AdHocError>> {
        match self.limiter.check_ad_hoc(request, began) {
            NowOrLater::Now(answer) => NowOrLater::Now(answer),
            NowOrLater::Later(later) => NowOrLater::later(async move {
                let answer = later.await?;
                self.measure_many(protocol, 1, began);
                Ok(answer)
            }),
        }
    }

    /// Measures decisions that were made together: each is counted with an equal part of the time since they began.
    pub fn measure_many(&self, protocol: Protocol, decisions: usize, began: Nanos) {
        if decisions > 0 {
            self.metrics.decisions_took(decisions, self.clock().now().saturating_sub(began));
            self.metrics.requests_decided(protocol, decisions);
        }
    }

    /// What [`Node::check_ad_hoc`] would decide, without charging.
    ///
    /// # Errors
    /// When its numbers are not a valid limit.
    pub fn peek_ad_hoc(&self, request: &AdHocRequest<'_>) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let answer = self.limiter.peek_ad_hoc(request, self.clock().now());
        answer.map(|answer| Ok(self.limiter.ad_hoc_decision(&answer?)))
    }

    /// Refunds tokens to an ad hoc bucket.
    ///
    /// # Errors
    /// When its numbers are not a valid limit.
    pub fn refund_ad_hoc(&self, request: &AdHocRequest<'_>) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let answer = self.limiter.refund_ad_hoc(request, self.clock().now());
        answer.map(|answer| Ok(self.limiter.ad_hoc_decision(&answer?)))
    }

    /// Passes on a result and measures it when it is ready; `decision` finds the decision in it, if it has one.
    #[inline]
    fn measured<'s, T: 's>(
        &'s self,
        origin: Origin<'_>,
        decided: NowOrLater<'s, T>,
        began: Nanos,
        decision: fn(&T) -> Option<&Decision>,
    ) -> NowOrLater<'s, T> {
        match decided {
            NowOrLater::Now(decided) => {
                decision(&decided).inspect(|decision| self.measure(origin, decision, began));
                NowOrLater::Now(decided)
            }
            NowOrLater::Later(later) => {
                let origin = OwnedOrigin::of(origin);
                NowOrLater::later(async move {
                    let decided = within_trace(self.told_trace(origin.as_origin()), later).await;
                    decision(&decided).inspect(|decision| self.measure(origin.as_origin(), decision, began));
                    decided
                })
            }
        }
    }

    /// Measures a decision that may have waited.
    #[inline]
    fn measure(&self, origin: Origin<'_>, decision: &Decision, began: Nanos) {
        let ended = self.clock().now();
        // Waits in queues, also those that timed out, have their own metric.
        if decision.queued().is_none() && decision.reason() != Reason::QueueTimeout {
            self.metrics.decision_took(ended.saturating_sub(began));
        }
        self.metrics.requests_decided(origin.protocol, 1);
        self.traces.decided(origin, decision, began, ended);
    }
}

fn whole_decision(decision: &Decision) -> Option<&Decision> {
    Some(decision)
}

#[cfg(test)]
mod tests;
