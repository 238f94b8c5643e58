//! Live gates: entries of `block` and `allow` that people add at run time, beside the policy and for a while.
//!
//! They are checked where those of the policy are: a block before everything else of its stage, an `allow` after the
//! blocks of the policy and before its detectors and limits. A policy in shadow mode does not shadow them: somebody has
//! asked for them now, while the policy is only tried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use tidegate_core::Nanos;
use tidegate_policy::{Facts, Gate, GateRule, GateStage, RuleSet};

use super::limiter::Limiter;

/// The live gates. Without any, a decision reads one flag.
#[derive(Debug, Default)]
pub(crate) struct LiveGates {
    is_some: AtomicBool,
    rules: ArcSwapOption<RuleSet>,
}

/// The live gates at one instant.
pub(crate) struct LoadedLiveGates(Option<Guard<Option<Arc<RuleSet>>>>);

impl LiveGates {
    #[inline]
    pub(crate) fn load(&self) -> LoadedLiveGates {
        LoadedLiveGates(self.is_some.load(Ordering::Acquire).then(|| self.rules.load()))
    }

    /// Replaces them by rules that another limiter may also have.
    pub(crate) fn share(&self, rules: Option<Arc<RuleSet>>) {
        let is_some = rules.is_some();
        self.rules.store(rules);
        self.is_some.store(is_some, Ordering::Release);
    }
}

impl LoadedLiveGates {
    /// The entry that blocks a request.
    #[inline]
    pub(crate) fn block(&self, stage: GateStage, facts: &Facts<'_, '_>, wall: Nanos) -> Option<&GateRule> {
        self.find(RuleSet::block, stage, facts, wall)
    }

    /// The entry that exempts a request.
    #[inline]
    pub(crate) fn allow(&self, stage: GateStage, facts: &Facts<'_, '_>, wall: Nanos) -> Option<&GateRule> {
        self.find(RuleSet::allow, stage, facts, wall)
    }

    #[inline]
    fn find(
        &self,
        gate: impl Fn(&RuleSet) -> &Gate,
        stage: GateStage,
        facts: &Facts<'_, '_>,
        wall: Nanos,
    ) -> Option<&GateRule> {
        gate(self.0.as_ref()?.as_ref()?).find(stage, facts, wall)
    }
}

impl<S, C> Limiter<S, C> {
    /// Replaces the live gates: the `block` and `allow` of these rules apply beside those of the policy, whatever policy
    /// is in force, until their `until`. A live block refuses even if the policy is in shadow mode or exempts the client
    /// at the same stage; a live `allow` exempts from limits and detectors, not from blocks.
    ///
    /// ```
    /// use tidegate::engine::{GateBuilder, Limiter, Policy, PolicyBuilder, Reason, Request};
    ///
    /// let limiter = Limiter::new(Policy::parse("version: 1\nlimits: []\n")?)?;
    /// let blocked = GateBuilder::new().when("user", ["666"]).reason("abuse");
    /// limiter.set_live_gates(Some(PolicyBuilder::new().block_gate(blocked).build()?));
    /// assert_eq!(limiter.check(&Request::new().user("666")).reason(), Reason::Blocked);
    ///
    /// limiter.set_live_gates(None::<Policy>);
    /// assert!(limiter.check(&Request::new().user("666")).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_live_gates(&self, rules: Option<impl Into<RuleSet>>) {
        self.live_gates.share(rules.map(|rules| Arc::new(rules.into())));
        self.tell_besides();
    }

    /// The live gates in force.
    pub fn live_gates(&self) -> Option<Arc<RuleSet>> {
        self.live_gates.rules.load_full()
    }
}
