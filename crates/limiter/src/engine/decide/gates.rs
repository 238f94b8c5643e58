//! What comes before limits, in its order.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Credential, Facts, GateStage, KeyBytes, Plan};

use crate::engine::active::Active;
use crate::engine::decision::{Reason, Refuser, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::{Clock, Store};

/// What is known before the limits are asked.
pub(crate) enum GateOutcome {
    /// It passes, whatever the limits say.
    Admitted(Reason),
    /// It is refused already, and until when.
    Refused(Reason, Refuser, Option<Nanos>),
    /// The limits decide, as planned.
    Open,
}

pub(crate) type ShadowDenied = SmallVec<[Refuser; 4]>;

impl GateOutcome {
    /// The ruling, where the limits have no part in it.
    pub(crate) fn ruling(self, now: Nanos) -> Option<Ruling> {
        match self {
            GateOutcome::Admitted(reason) => Some(Ruling::admitted(now, reason)),
            GateOutcome::Refused(reason, refuser, until) => {
                Some(Ruling::refused(now, reason, refuser, until))
            }
            GateOutcome::Open => None,
        }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The order of things: kill switch; `block`, `allow` and bursts that need no
    /// credential; the credential; those that do; unknown tenants; then the limits,
    /// for which `plan` is filled. What a policy that is only watched would have
    /// refused is added to `shadow_denied`.
    pub(crate) fn open(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        asked: (Operation, Nanos),
        plan: &mut Plan,
        shadow_denied: &mut ShadowDenied,
    ) -> GateOutcome {
        match self.open_unidentified(set, facts, asked, shadow_denied) {
            GateOutcome::Open => self.open_identified(set, facts, asked, plan, shadow_denied),
            decided => decided,
        }
    }

    /// What comes before the credential: nothing here looks at who asks.
    pub(crate) fn open_unidentified(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        asked: (Operation, Nanos),
        shadow_denied: &mut ShadowDenied,
    ) -> GateOutcome {
        if self.kill_switch() {
            return GateOutcome::Admitted(Reason::KillSwitch);
        }
        self.pass_gates(GateStage::Unidentified, set, facts, asked, shadow_denied)
    }

    /// The credential, and what comes after it.
    pub(crate) fn open_identified(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (ask, now): (Operation, Nanos),
        plan: &mut Plan,
        shadow_denied: &mut ShadowDenied,
    ) -> GateOutcome {
        let rules = &set.rules;
        if facts.credential() == Credential::Invalid && !self.takes_invalid.load(Ordering::Relaxed) {
            if !rules.is_shadow() {
                return GateOutcome::Refused(Reason::InvalidCredentials, Refuser::Credentials, None);
            }
            shadow_denied.push(Refuser::Credentials);
        }
        match self.pass_gates(GateStage::Identified, set, facts, (ask, now), shadow_denied) {
            GateOutcome::Open => {}
            decided => return decided,
        }
        rules.plan_into(facts, plan);
        if plan.unknown_tenant && ask.is_new() {
            self.stats.unknown_tenants.add(0);
        }
        if plan.unknown_tenant && rules.denies_unknown_tenants() && facts.request.cost > Cost::ZERO {
            if !rules.is_shadow() {
                return GateOutcome::Refused(Reason::UnknownTenant, Refuser::UnknownTenant, None);
            }
            shadow_denied.push(Refuser::UnknownTenant);
        }
        GateOutcome::Open
    }

    /// `block`, `allow` and bursts of one stage.
    fn pass_gates(
        &self,
        stage: GateStage,
        set: &Active,
        facts: &Facts<'_, '_>,
        (ask, now): (Operation, Nanos),
        shadow_denied: &mut ShadowDenied,
    ) -> GateOutcome {
        let rules = &set.rules;
        // `until` is a date: by the wall clock, while waits are told by the steady one.
        let wall = self.clock.wall_at(now);
        if let Some(entry) = rules.block().find(stage, facts, wall) {
            if !rules.is_shadow() {
                let until = entry.until.map(|until| now.saturating_add(until.saturating_sub(wall)));
                return GateOutcome::Refused(Reason::Blocked, Refuser::Block, until);
            }
            if !shadow_denied.contains(&Refuser::Block) {
                shadow_denied.push(Refuser::Block);
            }
        }
        if rules.allow().find(stage, facts, wall).is_some() {
            return GateOutcome::Admitted(Reason::Allowlisted);
        }
        if let Some((detector, until)) = self.burst_block(stage, set, facts, ask, now) {
            if !rules.is_shadow() {
                return GateOutcome::Refused(Reason::BurstBlocked, Refuser::Detector(detector), Some(until));
            }
            shadow_denied.push(Refuser::Detector(detector));
        }
        GateOutcome::Open
    }

    /// Asks every detector of a stage; if several block, the longest block counts.
    fn burst_block(
        &self,
        stage: GateStage,
        set: &Active,
        facts: &Facts<'_, '_>,
        ask: Operation,
        now: Nanos,
    ) -> Option<(u32, Nanos)> {
        let counts = ask.is_new() && facts.request.cost > Cost::ZERO;
        let mut longest: Option<(u32, Nanos)> = None;
        for (number, detector) in set.detectors.iter().enumerate() {
            let rule = &set.rules.detectors()[number];
            let mut key = KeyBytes::new();
            if rule.stage != stage || facts.write_key(&rule.key, &mut key).is_err() {
                continue;
            }
            let watched = self.bursts.watch(detector, &key, counts, now);
            if let Some(action) = watched.action {
                self.stats.count_action(action);
            }
            if let Some(until) = watched.blocked_until
                && longest.is_none_or(|(_, held)| until > held)
            {
                longest = Some((number as u32, until));
            }
        }
        longest
    }
}
