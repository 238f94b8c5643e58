//! Gates: the checks before limits, in their order.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Credential, Facts, GateRule, GateStage, KeyBytes, Plan};

use crate::engine::active::Active;
use crate::engine::bursts::{BurstNote, BurstState, PenaltyOrigin, PendingCount};
use crate::engine::counting::counters::RuleOutcome;
use crate::engine::decision::{Refuser, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::reason::Reason;
use crate::{Clock, Store};

/// The result of the gates.
pub(crate) enum GateOutcome {
    /// Admitted, whatever the limits say.
    Admitted(Reason),
    /// Denied, by what and until when.
    Refused(Reason, Refuser, Option<Nanos>),
    /// The limits decide, according to the plan.
    Open,
}

/// What the gates note about a request beside their outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct GateNotes {
    /// What a policy in shadow mode would have denied.
    pub(crate) shadow_denied: SmallVec<[Refuser; 4]>,
    /// The most serious state of a burst detector.
    pub(crate) burst: Option<BurstNote>,
    /// What detectors that nodes share have to count.
    pub(crate) counts: SmallVec<[PendingCount; 2]>,
    /// Must the server be asked about detectors, even if the limits need not wait for it?
    pub(crate) must_ask: bool,
}

impl GateNotes {
    /// Adds the notes to the ruling that the limits or a gate have made.
    pub(crate) fn add_to(&self, ruling: &mut Ruling) {
        ruling.shadow_denied.insert_many(0, self.shadow_denied.iter().copied());
        ruling.burst = self.burst;
    }

    pub(crate) fn note_burst(&mut self, state: BurstState, detector: u32) {
        if self.burst.is_none_or(|noted| state > noted.state) {
            self.burst = Some(BurstNote { state, detector });
        }
    }
}

impl GateOutcome {
    /// The ruling, if the gates have decided.
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
    /// Runs all checks before limits, in this order: kill switch; `block`, `allow` and burst detectors that
    /// need no credential, live entries among them; the credential; those that do; unknown tenants. If none decides,
    /// `plan` is filled for the limits. What else they find is added to `notes`.
    pub(crate) fn check_gates(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        operation: (Operation, Nanos),
        plan: &mut Plan,
        notes: &mut GateNotes,
    ) -> GateOutcome {
        match self.check_gates_before_credential(set, facts, operation, notes) {
            GateOutcome::Open => self.check_credential_and_gates(set, facts, operation, plan, notes),
            decided => decided,
        }
    }

    /// The checks before the credential, which do not depend on the client's identity.
    pub(crate) fn check_gates_before_credential(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        operation: (Operation, Nanos),
        notes: &mut GateNotes,
    ) -> GateOutcome {
        if self.kill_switch() {
            return GateOutcome::Admitted(Reason::KillSwitch);
        }
        self.check_stage(GateStage::Unidentified, set, facts, operation, notes)
    }

    /// The check of the credential, and the checks after it.
    pub(crate) fn check_credential_and_gates(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (operation, now): (Operation, Nanos),
        plan: &mut Plan,
        notes: &mut GateNotes,
    ) -> GateOutcome {
        let rules = &set.rules;
        let refused = match facts.credential() {
            Credential::Invalid if !self.admits_invalid.load(Ordering::Relaxed) => {
                Some((Reason::InvalidCredentials, Refuser::Credentials))
            }
            Credential::UnknownKey => Some((Reason::UnknownKey, Refuser::UnknownKey)),
            Credential::None | Credential::Valid | Credential::Invalid => None,
        };
        if let Some((reason, refuser)) = refused {
            if !rules.is_shadow() {
                return GateOutcome::Refused(reason, refuser, None);
            }
            notes.shadow_denied.push(refuser);
        }
        match self.check_stage(GateStage::Identified, set, facts, (operation, now), notes) {
            GateOutcome::Open => {}
            decided => return decided,
        }
        rules.plan_into(facts, plan);
        self.compute_trust(set, facts, plan, now);
        self.apply_overrides(set, facts, plan, now);
        let is_denied = rules.denies_unknown_tenants() && facts.request.cost > Cost::ZERO;
        if plan.unknown_tenant && operation.is_new() {
            self.stats.unknown_tenants.add(0);
            self.observe_unknown_tenant(set, facts, is_denied && !rules.is_shadow(), now);
        }
        if plan.unknown_tenant && is_denied {
            if !rules.is_shadow() {
                return GateOutcome::Refused(Reason::UnknownTenant, Refuser::UnknownTenant, None);
            }
            notes.shadow_denied.push(Refuser::UnknownTenant);
        }
        GateOutcome::Open
    }

    /// Denies a request that lacks the key of a limit with `missing: deny`. It comes after all gates and before any
    /// limit is charged. Limits in shadow mode only record it.
    #[inline]
    pub(crate) fn check_keys(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        operation: Operation,
        plan: &Plan,
        notes: &mut GateNotes,
    ) -> GateOutcome {
        if plan.lacking().is_empty() || facts.request.cost == Cost::ZERO {
            return GateOutcome::Open;
        }
        let mut outcome = GateOutcome::Open;
        for &number in plan.lacking() {
            let counted = if set.rules.rule(number).is_shadow() {
                notes.shadow_denied.push(Refuser::Rule(number));
                RuleOutcome::ShadowDenied
            } else if matches!(outcome, GateOutcome::Open) {
                outcome = GateOutcome::Refused(Reason::MissingKey, Refuser::Rule(number), None);
                RuleOutcome::Denied
            } else {
                continue;
            };
            if operation.is_new() {
                set.bound[number as usize].named.counters.count(counted);
            }
        }
        outcome
    }

    /// `block`, `allow` and burst detectors of one stage.
    fn check_stage(
        &self,
        stage: GateStage,
        set: &Active,
        facts: &Facts<'_, '_>,
        (operation, now): (Operation, Nanos),
        notes: &mut GateNotes,
    ) -> GateOutcome {
        let rules = &set.rules;
        // `until` is a date, so it is compared with the wall clock; waits are measured on the monotonic clock.
        let wall = self.clock.wall_at(now);
        let blocked = |entry: &GateRule| {
            let until = entry.until.map(|until| now.saturating_add(until.saturating_sub(wall)));
            GateOutcome::Refused(Reason::Blocked, Refuser::Block, until)
        };
        let live = self.live_gates.load();
        if let Some(entry) = live.block(stage, facts, wall) {
            return blocked(entry);
        }
        if let Some(entry) = rules.block().find(stage, facts, wall) {
            if !rules.is_shadow() {
                return blocked(entry);
            }
            if !notes.shadow_denied.contains(&Refuser::Block) {
                notes.shadow_denied.push(Refuser::Block);
            }
        }
        let is_exempt =
            live.allow(stage, facts, wall).or_else(|| rules.allow().find(stage, facts, wall)).is_some();
        if is_exempt {
            return GateOutcome::Admitted(Reason::Allowlisted);
        }
        if let Some((detector, until)) = self.burst_block(stage, set, facts, (operation, now), notes) {
            if !rules.is_shadow() {
                return GateOutcome::Refused(Reason::BurstBlocked, Refuser::Detector(detector), Some(until));
            }
            notes.shadow_denied.push(Refuser::Detector(detector));
        }
        GateOutcome::Open
    }

    /// Runs every burst detector of a stage; if several block, the longest block counts.
    fn burst_block(
        &self,
        stage: GateStage,
        set: &Active,
        facts: &Facts<'_, '_>,
        (operation, now): (Operation, Nanos),
        notes: &mut GateNotes,
    ) -> Option<(u32, Nanos)> {
        let counts = operation.is_new() && facts.request.cost > Cost::ZERO;
        let mut longest: Option<(u32, Nanos)> = None;
        for (number, detector) in set.detectors.iter().enumerate() {
            let rule = &set.rules.detectors()[number];
            let mut key = KeyBytes::new();
            if rule.stage != stage || facts.write_key(&rule.key, &mut key).is_err() {
                continue;
            }
            let (burst, origin) = match self.store.shared_bursts() {
                None => (self.bursts.watch(detector, &key, counts, now), Some(PenaltyOrigin::ThisNode)),
                Some(shared) => self.look_at_shared(shared, (number, detector, &key), counts, now, notes),
            };
            self.note_burst((number as u32, &key), (set, facts), (burst, origin), now, notes);
            if let Some(until) = burst.blocked_until
                && longest.is_none_or(|(_, held)| until > held)
            {
                longest = Some((number as u32, until));
            }
        }
        longest
    }
}
