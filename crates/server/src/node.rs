//! What all listeners share, and the one way from a question to a decision.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate::policy::{
    Decision, Entered, FallbackError, Joint, JointDecision, Limiter, Reason, Request, RuleSet, Throttle,
    ThrottleError, ThrottleLimit,
};
use tidegate::{
    Clock, Cost, LimitError, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock, Nanos,
};

use crate::bounds::{ANSWERS_BYTES_MAX, BODIES_BYTES_MAX};
use crate::budget::Budget;
use crate::identity::{Identity, Verified, Who};
use crate::lifecycle::Lifecycle;
use crate::observe::{Metrics, Origin, Traces};
use crate::settings::Settings;
use crate::shared::{Keeper, KeeperError, NodeStore, Shared};

/// Everything that a listener needs to answer.
#[derive(Debug)]
pub struct Node {
    /// The engine.
    pub limiter: Limiter<NodeStore>,
    /// Buckets without a policy: all of them, or those of this node while a shared store fails.
    pub throttle: Throttle,
    /// Who asks.
    pub identity: Identity,
    /// What the server was told.
    pub settings: Settings,
    /// Where the server is in its life.
    pub lifecycle: Lifecycle,
    /// What is counted beside what the engine counts.
    pub metrics: Metrics,
    /// Where spans go.
    pub traces: Traces,
    /// What there is for bodies that have not come whole.
    pub(crate) bodies: Arc<Budget>,
    /// What there is for answers that clients have not taken.
    pub(crate) answers: Arc<Budget>,
    /// The thread of a shared store.
    pub(crate) keeper: Option<Keeper>,
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
    Shared(#[from] KeeperError),
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
        let throttle = Throttle::try_new(options, clock.clone())?;
        let (limiter, keeper) = match &settings.shared {
            None => {
                let memory = Memory::try_with_clock(options, clock.clone())?;
                (Limiter::with_store(rules, NodeStore::Local(memory), clock)?, None)
            }
            Some(shared) => {
                let (store, keeper) = Keeper::start(shared, clock.clone())?;
                let limiter = Limiter::with_store(rules, NodeStore::Shared(store), clock)?;
                (limiter.with_fallback(options)?, Some(keeper))
            }
        };
        limiter.set_invalid_credentials(settings.jwt.as_ref().map(|jwt| jwt.invalid).unwrap_or_default());
        let (lifecycle, metrics, traces) = (Lifecycle::default(), Metrics::default(), Traces::default());
        Ok(Node {
            limiter,
            throttle,
            identity,
            settings,
            lifecycle,
            metrics,
            traces,
            bodies: Budget::of(BODIES_BYTES_MAX),
            answers: Budget::of(ANSWERS_BYTES_MAX),
            keeper,
        })
    }

    /// May more come from this address than from one client? From loopback and from trusted proxies it may.
    pub(crate) fn stands_for_many(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.identity.trusts(address)
    }

    /// The store that nodes share, if they do. Without it no decision waits, but for a place in a queue.
    pub fn shared(&self) -> Option<&Arc<Shared>> {
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

    /// Decides and charges, without waiting in queues.
    pub async fn check(&self, origin: Origin<'_>, request: &Request<'_>) -> Decision {
        let began = self.limiter.clock().now();
        let decision = self.limiter.check_async_at(request, began).await;
        let ended = self.limiter.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, &decision, began, ended);
        decision
    }

    /// Decides and charges; where a queue makes it wait, it waits.
    pub async fn admit(&self, origin: Origin<'_>, request: &Request<'_>) -> Decision {
        let began = self.limiter.clock().now();
        let decision = self.limiter.admit(request).await;
        self.tell(origin, &decision, began);
        decision
    }

    /// Measures a decision that may have waited.
    fn tell(&self, origin: Origin<'_>, decision: &Decision, began: Nanos) {
        let ended = self.limiter.clock().now();
        // Waits have a measure of their own; a wait that was in vain is a wait.
        if decision.queued().is_none() && decision.reason() != Reason::QueueTimeout {
            self.metrics.decision_took(ended.saturating_sub(began));
        }
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, decision, began, ended);
    }

    /// What the credential of a request says, where that is still wanted: whoever is decided without it costs no
    /// signature check.
    pub fn verify(&self, entered: &Entered, who: &Who<'_>) -> Verified {
        if entered.is_decided() {
            return Verified::default();
        }
        let Some(verified) = self.identity.verify(who, self.limiter.clock().wall()) else {
            return Verified::default();
        };
        self.metrics.credential(verified.credential(), verified.rejection());
        verified
    }

    /// Decides and charges a request that has entered, and now says who asks; where a queue makes it wait, it waits.
    pub async fn admit_entered(
        &self,
        origin: Origin<'_>,
        entered: Entered,
        request: &Request<'_>,
    ) -> Decision {
        let began = self.limiter.clock().now();
        let decision = self.limiter.admit_entered(entered, request).await;
        self.tell(origin, &decision, began);
        decision
    }

    /// What [`Node::check`] would say.
    pub async fn peek(&self, request: &Request<'_>) -> Decision {
        self.limiter.peek_async(request).await
    }

    /// Gives tokens back.
    pub async fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        self.limiter.refund_async(request, cost).await
    }

    /// What [`Node::throttle`] would say.
    ///
    /// # Errors
    /// When there are no such limits.
    pub async fn peek_throttled(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let now = self.limiter.clock().now();
        let decision = self.limiter.peek_throttled_async(&self.throttle, key, limit, cost, now).await?;
        Ok(self.throttle.told(decision, now))
    }

    /// Gives tokens back to a bucket without a policy.
    ///
    /// # Errors
    /// When there are no such limits.
    pub async fn refund_throttled(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let now = self.limiter.clock().now();
        let decision = self.limiter.refund_throttled_async(&self.throttle, key, limit, cost, now).await?;
        Ok(self.throttle.told(decision, now))
    }

    /// Decides several requests that stand or fall together.
    ///
    /// # Errors
    /// When the numbers that one brings make no limit.
    pub async fn check_joint(
        &self,
        origin: Origin<'_>,
        requests: &[Joint<'_, '_>],
    ) -> Result<JointDecision, ThrottleError> {
        let began = self.limiter.clock().now();
        let told = self.limiter.check_joint_async(&self.throttle, requests).await?;
        let ended = self.limiter.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        for decision in &told.decisions {
            self.metrics.asked(origin.protocol, 1);
            self.traces.decided(origin, decision, began, ended);
        }
        Ok(told)
    }

    /// Decides by a bucket without a policy.
    ///
    /// # Errors
    /// When there are no such limits.
    pub async fn throttle(
        &self,
        origin: Origin<'_>,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let began = self.limiter.clock().now();
        let by_order = self.limiter.kill_switch();
        let taken = cost_by_order(cost, by_order);
        let decision = self.limiter.throttle_async(&self.throttle, key, limit, taken, began).await?;
        let decision = match by_order {
            true => self.throttle.told_by_order(decision, began),
            false => self.throttle.told(decision, began),
        };
        let ended = self.limiter.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, &decision, began, ended);
        Ok(decision)
    }

    /// The same in short, where limits are this node's own, for who measures many together: what the bucket
    /// says, with nothing measured or traced. Where everything is admitted by order, nothing is taken.
    ///
    /// # Errors
    /// When there are no such limits.
    #[inline]
    pub fn throttle_at(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate::Decision, ThrottleError> {
        self.throttle.take(key, limit, cost_by_order(cost, self.limiter.kill_switch()), now)
    }

    /// Decides by numbers that admit nothing, and that make no bucket.
    pub async fn throttle_closed(&self, origin: Origin<'_>, request: &Request<'_>) -> Decision {
        if self.limiter.kill_switch() {
            return self.check(origin, request).await;
        }
        let now = self.limiter.clock().now();
        let decision = self.throttle.refuse(now);
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, &decision, now, now);
        decision
    }
}

/// What is taken where everything may be admitted by order: what costs nothing always is.
#[inline]
fn cost_by_order(cost: Cost, by_order: bool) -> Cost {
    if by_order { Cost::ZERO } else { cost }
}

#[cfg(test)]
mod tests;
