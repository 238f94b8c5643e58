//! What all listeners share, and the one way from a question to a decision.

use tidegate::policy::{
    Decision, Joint, Limiter, Reason, Request, RuleSet, Throttle, ThrottleError, ThrottleLimit,
};
use tidegate::{Clock, Cost, LimitError, Memory, MemoryError, MemoryOptions, MonotonicClock, Nanos};

use crate::http::BodyBudget;
use crate::identity::Identity;
use crate::lifecycle::Lifecycle;
use crate::observe::{Metrics, Origin, Traces};
use crate::settings::Settings;

/// Everything that a listener needs to answer.
#[derive(Debug)]
pub struct Node {
    /// The engine.
    pub limiter: Limiter,
    /// Buckets without a policy.
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
    pub(crate) bodies: BodyBudget,
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
}

impl Node {
    /// A node that begins its life.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold, or there is not the memory for so many keys.
    pub fn new(settings: Settings, rules: RuleSet, identity: Identity) -> Result<Node, NodeError> {
        let options = MemoryOptions { max_keys: settings.max_keys, ..MemoryOptions::default() };
        let clock = MonotonicClock::new();
        let store = Memory::try_with_clock(options, clock.clone())?;
        let throttle = Throttle::try_new(options, clock.clone())?;
        let limiter = Limiter::with_store(rules, store, clock)?;
        let (lifecycle, metrics, traces) = (Lifecycle::default(), Metrics::default(), Traces::default());
        Ok(Node {
            limiter,
            throttle,
            identity,
            settings,
            lifecycle,
            metrics,
            traces,
            bodies: BodyBudget::default(),
        })
    }

    /// Decides and charges, without waiting.
    pub fn check(&self, origin: Origin<'_>, request: &Request<'_>) -> Decision {
        let began = self.limiter.clock().now();
        let decision = self.limiter.check_at(request, began);
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
        let ended = self.limiter.clock().now();
        // Waits have a measure of their own; a wait that was in vain is a wait.
        if decision.queued().is_none() && decision.reason() != Reason::QueueTimeout {
            self.metrics.decision_took(ended.saturating_sub(began));
        }
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, &decision, began, ended);
        decision
    }

    /// What [`Node::check`] would say.
    pub fn peek(&self, request: &Request<'_>) -> Decision {
        self.limiter.peek(request)
    }

    /// Gives tokens back.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        self.limiter.refund(request, cost)
    }

    /// What [`Node::throttle`] would say.
    ///
    /// # Errors
    /// When there are no such limits.
    pub fn peek_throttled(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let now = self.limiter.clock().now();
        let decision = self.throttle.peek(key, limit, cost, now)?;
        Ok(self.throttle.told(decision, now))
    }

    /// Gives tokens back to a bucket without a policy.
    ///
    /// # Errors
    /// When there are no such limits.
    pub fn refund_throttled(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let now = self.limiter.clock().now();
        let decision = self.throttle.refund(key, limit, cost, now)?;
        Ok(self.throttle.told(decision, now))
    }

    /// Decides several requests that stand or fall together.
    ///
    /// # Errors
    /// When the numbers that one brings make no limit.
    pub fn check_joint(
        &self,
        origin: Origin<'_>,
        requests: &[Joint<'_, '_>],
    ) -> Result<Vec<Decision>, ThrottleError> {
        let began = self.limiter.clock().now();
        let decisions = self.limiter.check_joint(&self.throttle, requests)?;
        let ended = self.limiter.clock().now();
        self.metrics.decision_took(ended.saturating_sub(began));
        for decision in &decisions {
            self.metrics.asked(origin.protocol, 1);
            self.traces.decided(origin, decision, began, ended);
        }
        Ok(decisions)
    }

    /// Decides by a bucket without a policy.
    ///
    /// # Errors
    /// When there are no such limits.
    pub fn throttle(
        &self,
        origin: Origin<'_>,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
    ) -> Result<Decision, ThrottleError> {
        let began = self.limiter.clock().now();
        let by_order = self.limiter.kill_switch();
        let decision = self.take(key, limit, cost, began, by_order)?;
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

    /// The same in short, for who measures many together: what the bucket says, with nothing measured or
    /// traced. Where everything is admitted by order, nothing is taken.
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
        self.take(key, limit, cost, now, self.limiter.kill_switch())
    }

    #[inline]
    fn take(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        now: Nanos,
        by_order: bool,
    ) -> Result<tidegate::Decision, ThrottleError> {
        // What costs nothing is always admitted.
        self.throttle.take(key, limit, if by_order { Cost::ZERO } else { cost }, now)
    }

    /// Decides by numbers that admit nothing, and that make no bucket.
    pub fn throttle_closed(&self, origin: Origin<'_>, request: &Request<'_>) -> Decision {
        if self.limiter.kill_switch() {
            return self.check(origin, request);
        }
        let now = self.limiter.clock().now();
        let decision = self.throttle.refuse(now);
        self.metrics.asked(origin.protocol, 1);
        self.traces.decided(origin, &decision, now, now);
        decision
    }
}

#[cfg(test)]
mod tests;
