//! What all listeners share, and the one way from a question to a decision.

pub mod lifecycle;
pub mod store;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate::engine::{
    AdHocAnswer, AdHocError, AdHocRequest, Decision, Entered, FallbackError, Joint, JointDecision, Limiter,
    Reason, Request, RuleSet,
};
use tidegate::{
    Clock, Cost, LimitError, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock, Nanos,
    NowOrLater,
};

use crate::bounds::budget::ByteBudget;
use crate::bounds::{BACKLOG_BYTES_MAX, BODIES_BYTES_MAX};
use crate::identity::{ClientInfo, Identity, Verified};
use crate::node::lifecycle::Lifecycle;
use crate::node::store::{NodeStore, SharedRedisStore, StoreThread, StoreThreadError};
use crate::observe::{Metrics, Origin, OwnedOrigin, Protocol, Traces};
use crate::settings::Settings;

/// Everything that a listener needs to answer.
#[derive(Debug)]
pub struct Node {
    /// The engine, ad-hoc buckets included.
    limiter: Limiter<NodeStore>,
    /// Who asks.
    identity: Identity,
    /// What the server was told.
    settings: Settings,
    /// Where the server is in its life.
    lifecycle: Lifecycle,
    /// What is counted beside what the engine counts.
    metrics: Metrics,
    /// Where spans go.
    traces: Traces,
    /// What there is for bodies that have not come whole.
    bodies: Arc<ByteBudget>,
    /// What there is for answers that clients have not taken.
    answers: Arc<ByteBudget>,
    /// The thread of a shared store.
    keeper: Option<StoreThread>,
}

/// Why a node cannot begin its life.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The policy is too large.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// The memory is too small.
    #[error("store.max_keys: {0}")]
    Memory(#[from] MemoryError),
    /// The shared store cannot be used.
    #[error(transparent)]
    Shared(#[from] StoreThreadError),
    /// There would be nothing to decide by while it does not answer.
    #[error("for want of what to do without the store: {0}")]
    Fallback(#[from] FallbackError),
}

impl Node {
    /// A node that begins its life.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold, or limits that it cannot have; when there is not the
    /// memory for so many keys; when the address of a shared store makes no sense. That it does not answer is no
    /// error.
    pub fn new(settings: Settings, rules: RuleSet, identity: Identity) -> Result<Node, NodeError> {
        let options = MemoryOptions { max_keys: settings.max_keys, ..MemoryOptions::default() };
        let clock = MonotonicClock::new();
        let (limiter, keeper) = match &settings.shared {
            None => {
                let memory = Memory::with_clock(options, clock.clone())?;
                (Limiter::with_store(rules, NodeStore::Local(memory), clock)?, None)
            }
            Some(shared) => {
                let (store, keeper) = StoreThread::start(shared, clock.clone())?;
                let limiter = Limiter::with_store(rules, NodeStore::Shared(store), clock)?;
                (limiter.with_fallback(options)?, Some(keeper))
            }
        };
        let limiter = limiter.with_ad_hoc(options)?;
        limiter.set_invalid_credentials(settings.jwt.as_ref().map(|jwt| jwt.invalid).unwrap_or_default());
        let (lifecycle, metrics, traces) = (Lifecycle::default(), Metrics::default(), Traces::default());
        Ok(Node {
            limiter,
            identity,
            settings,
            lifecycle,
            metrics,
            traces,
            bodies: ByteBudget::of(BODIES_BYTES_MAX),
            answers: ByteBudget::of(BACKLOG_BYTES_MAX),
            keeper,
        })
    }

    /// The engine, for those that tell of it or change its policy. Decisions are asked of the node.
    pub fn limiter(&self) -> &Limiter<NodeStore> {
        &self.limiter
    }

    /// Who asks.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the server was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where the server is in its life.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// What is counted beside what the engine counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where spans go.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Sends spans somewhere.
    pub fn set_traces(&mut self, traces: Traces) {
        self.traces = traces;
    }

    /// What there is for bodies that have not come whole.
    pub(crate) fn bodies(&self) -> &Arc<ByteBudget> {
        &self.bodies
    }

    /// Other room for bodies.
    #[cfg(test)]
    pub(crate) fn set_bodies(&mut self, bodies: Arc<ByteBudget>) {
        self.bodies = bodies;
    }

    /// What there is for answers that clients have not taken.
    pub(crate) fn answers(&self) -> &Arc<ByteBudget> {
        &self.answers
    }

    /// The thread of a shared store.
    pub(crate) fn keeper(&self) -> Option<&StoreThread> {
        self.keeper.as_ref()
    }

    /// May more come from this address than from one client? From loopback and from trusted proxies it may.
    pub(crate) fn is_loopback_or_proxy(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.identity.trusts(address)
    }

    /// The store that nodes share, if they do; for what is told of it.
    pub fn shared(&self) -> Option<&Arc<SharedRedisStore>> {
        match self.limiter.store() {
            NodeStore::Local(_) => None,
            NodeStore::Shared(shared) => Some(shared),
        }
    }

    /// What the memory of this node holds: all limits, or their shares while a shared store fails.
    pub fn memory(&self) -> MemoryStats {
        match self.limiter.store() {
            NodeStore::Local(memory) => memory.stats(),
            NodeStore::Shared(_) => self.limiter.fallback_stats().expect("it was made with one"),
        }
    }

    /// What the memory of this node holds of ad-hoc buckets.
    pub fn ad_hoc_memory(&self) -> MemoryStats {
        self.limiter.ad_hoc_stats().expect("it was made with room for them")
    }

    /// The clock that decisions go by.
    pub(crate) fn clock(&self) -> &MonotonicClock {
        self.limiter.clock()
    }

    /// Decides and charges, without waiting in queues.
    #[inline]
    pub fn check(&self, origin: Origin<'_>, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        self.measured(origin, self.limiter.check_async_at(request, began), began, itself)
    }

    /// Decides and charges; where a queue makes it wait, it waits.
    #[inline]
    pub fn admit(&self, origin: Origin<'_>, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        self.measured(origin, self.limiter.admit(request), began, itself)
    }

    /// The first step of a request whose credential the server verifies: see [`Limiter::enter`].
    pub fn enter(&self, request: &Request<'_>) -> Entered {
        self.limiter.enter(request)
    }

    /// What the credential of a request says, where that is still wanted: whoever is decided without it costs no
    /// signature check.
    pub fn verify(&self, entered: &Entered, who: &ClientInfo<'_>) -> Verified {
        if entered.is_decided() {
            return Verified::default();
        }
        let Some(verified) = self.identity.verify(who, self.clock().wall()) else {
            return Verified::default();
        };
        self.metrics.credential(verified.credential(), verified.rejection());
        verified
    }

    /// Decides and charges a request that has entered, and now says who asks; where a queue makes it wait, it waits.
    pub fn admit_entered(
        &self,
        origin: Origin<'_>,
        entered: Entered,
        request: &Request<'_>,
    ) -> NowOrLater<'_, Decision> {
        let began = self.clock().now();
        self.measured(origin, self.limiter.admit_entered(entered, request), began, itself)
    }

    /// What [`Node::check`] would say.
    pub fn peek(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.limiter.peek_async(request)
    }

    /// Gives tokens back.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> NowOrLater<'_, Decision> {
        self.limiter.refund_async(request, cost)
    }

    /// Decides several requests that stand or fall together.
    ///
    /// # Errors
    /// When the numbers that one brings make no limit.
    pub async fn check_joint(
        &self,
        origin: Origin<'_>,
        requests: &[Joint<'_, '_>],
    ) -> Result<JointDecision, AdHocError> {
        let began = self.clock().now();
        let told = self.limiter.check_joint_async(requests).await?;
        let ended = self.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        for decision in &told.decisions {
            self.metrics.asked(origin.protocol, 1);
            self.traces.decided(origin, decision, began, ended);
        }
        Ok(told)
    }

    /// Decides by an ad-hoc bucket.
    ///
    /// # Errors
    /// When there is no such limit.
    #[inline]
    pub fn check_ad_hoc(
        &self,
        origin: Origin<'_>,
        asked: &AdHocRequest<'_>,
    ) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let began = self.clock().now();
        let answer = self.limiter.check_ad_hoc(asked, began);
        let decided = answer.map(|answer| Ok(self.limiter.tell_ad_hoc(&answer?)));
        self.measured(origin, decided, began, |decided| decided.as_ref().ok())
    }

    /// The same in short and untraced: what the bucket says. What is there at once is left to be measured by who asks
    /// for many together, [`Node::measure_many`]; what has to be waited for is measured here.
    ///
    /// # Errors
    /// When there is no such limit.
    #[inline]
    pub fn check_ad_hoc_in_short(
        &self,
        protocol: Protocol,
        asked: &AdHocRequest<'_>,
        began: Nanos,
    ) -> NowOrLater<'_, Result<AdHocAnswer, AdHocError>> {
        match self.limiter.check_ad_hoc(asked, began) {
            NowOrLater::Now(answer) => NowOrLater::Now(answer),
            NowOrLater::Later(later) => NowOrLater::later(async move {
                let answer = later.await?;
                self.measure_many(protocol, 1, began);
                Ok(answer)
            }),
        }
    }

    /// Measures decisions that were made together: each took an equal share of the time since they began.
    pub fn measure_many(&self, protocol: Protocol, decisions: usize, began: Nanos) {
        if decisions > 0 {
            self.metrics.decisions_took(decisions, self.clock().now().saturating_sub(began));
            self.metrics.asked(protocol, decisions);
        }
    }

    /// What [`Node::check_ad_hoc`] would say.
    ///
    /// # Errors
    /// When there is no such limit.
    pub fn peek_ad_hoc(&self, asked: &AdHocRequest<'_>) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let answer = self.limiter.peek_ad_hoc(asked, self.clock().now());
        answer.map(|answer| Ok(self.limiter.tell_ad_hoc(&answer?)))
    }

    /// Gives tokens back to an ad-hoc bucket.
    ///
    /// # Errors
    /// When there is no such limit.
    pub fn refund_ad_hoc(&self, asked: &AdHocRequest<'_>) -> NowOrLater<'_, Result<Decision, AdHocError>> {
        let answer = self.limiter.refund_ad_hoc(asked, self.clock().now());
        answer.map(|answer| Ok(self.limiter.tell_ad_hoc(&answer?)))
    }

    /// Hands on what was decided, measured when it is there; `decision` finds the decision in it, if there is one.
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
                    let decided = later.await;
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
        // Waits have a measure of their own; a wait that was in vain is a wait.
        if decision.queued().is_none() && decision.reason() != Reason::QueueTimeout {
            self.metrics.decision_took(ended.saturating_sub(began));
        }
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, decision, began, ended);
    }
}

fn itself(decision: &Decision) -> Option<&Decision> {
    Some(decision)
}

#[cfg(test)]
mod tests;
