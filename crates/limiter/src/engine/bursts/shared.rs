//! Detectors that nodes share: the store counts, and this node's own detectors decide only while it fails.
//!
//! What a request counts is collected by the gates. If the decision waits for the server, the counts are sent at the
//! same time, and a block that the answer reports takes the place of what the limits decide; what they took is handed
//! back. Otherwise the counts are sent later, and a block is noticed by a later request.

use tidegate_core::Nanos;
use tidegate_policy::{DetectorRule, Facts, KeyBytes, Request};

use super::penalties::PenaltyOrigin;
use super::{BurstDetector, BurstVerdict};
use crate::engine::active::{Active, Charges};
use crate::engine::decide::gates::GateNotes;
use crate::engine::decision::{Refuser, Ruling};
use crate::engine::limiter::Limiter;
use crate::engine::reason::Reason;
use crate::{
    BurstCount, BurstCounts, Charge, Clock, KnownBurst, Later, NowOrLater, SharedBursts, Store, Verdict,
};

/// A request that a shared detector has to count, with the detector's number in the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCount {
    number: u32,
    count: BurstCount,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// What this node knows of a shared detector, and who reports its action; see [`Limiter::note_burst`]. A request
    /// that is to be counted is added to the notes.
    pub(crate) fn look_at_shared(
        &self,
        shared: &dyn SharedBursts,
        (number, detector, key): (usize, &BurstDetector, &[u8]),
        counts: bool,
        now: Nanos,
        notes: &mut GateNotes,
    ) -> (BurstVerdict, Option<PenaltyOrigin>) {
        let count = BurstCount { detector: *detector, key: shared.key(detector, key) };
        let mut known = shared.known(&count, counts, now);
        if counts && known.is_stale {
            (notes.must_ask, known.verdict.blocked_until) = (true, None);
        }
        if counts {
            self.report_a_few(shared);
        }
        // This node has decided by itself while the store failed; those penalties stay, too.
        let own = self.bursts.watch(detector, key, false, now);
        let verdict = BurstVerdict {
            blocked_until: known.verdict.blocked_until.max(own.blocked_until),
            ..known.verdict
        };
        if counts && verdict.blocked_until.is_none() {
            notes.counts.push(PendingCount { number: number as u32, count });
        }
        (verdict, reported_by(&known))
    }

    /// Reads from the server what penalties there are upon a request, so that [`Limiter::look_at_shared`] knows those that
    /// other nodes have led to. `None` if no shared detector counts it.
    pub(crate) fn read_shared(
        &self,
        set: &Active,
        request: &Request<'_>,
        now: Nanos,
    ) -> Option<Later<'_, bool>> {
        let shared = self.store.shared_bursts()?;
        let facts = set.rules.facts(request);
        let count = |(rule, detector): (&DetectorRule, &BurstDetector)| {
            let mut key = KeyBytes::new();
            facts.write_key(&rule.key, &mut key).ok()?;
            Some(BurstCount { detector: *detector, key: shared.key(detector, &key) })
        };
        let counts: BurstCounts =
            set.rules.detectors().iter().zip(&set.detectors).filter_map(count).collect();
        (!counts.is_empty()).then(|| shared.look(counts, now))
    }

    /// Notes what a detector did. If it is for this request to report, it also counts, lists and tells the action, of
    /// the given origin.
    pub(crate) fn note_burst(
        &self,
        (number, key): (u32, &KeyBytes),
        (set, facts): (&Active, &Facts<'_, '_>),
        (verdict, origin): (BurstVerdict, Option<PenaltyOrigin>),
        now: Nanos,
        notes: &mut GateNotes,
    ) {
        if let Some(state) = verdict.state() {
            notes.note_burst(state, number);
        }
        if let (Some(action), Some(origin)) = (verdict.action, origin) {
            let (rule, detector) = (&set.rules.detectors()[number as usize], &set.detectors[number as usize]);
            self.stats.count_action(action);
            let subject = self.burst_subject((rule, detector.id, set.version), (facts, key));
            let shared_key = self.store.shared_bursts().map(|shared| shared.key(detector, key));
            self.list_penalty((detector, shared_key), subject, (action, origin, now));
            self.observe_burst(set, facts, (number as usize, key), action, now);
        }
    }

    /// Counts a request in shared detectors after its charge was begun: at the server if the decision waits for it
    /// anyway, which the returned future does; otherwise later.
    pub(crate) fn count_shared<E>(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        notes: &mut GateNotes,
        (charged, no_charges): (&NowOrLater<'_, Result<Verdict, E>>, bool),
        now: Nanos,
    ) -> Option<Later<'_, bool>> {
        if notes.counts.is_empty() {
            return None;
        }
        let shared = self.store.shared_bursts()?;
        let waits = matches!(charged, NowOrLater::Later(_)) || (no_charges && shared.asks_always());
        if waits || notes.must_ask {
            return self.ask_shared(notes, now);
        }
        self.add_shared(set, facts, notes, now);
        None
    }

    /// Counts a request in shared detectors at the server; `None` if there is nothing to count.
    pub(crate) fn ask_shared(&self, notes: &GateNotes, now: Nanos) -> Option<Later<'_, bool>> {
        let shared = self.store.shared_bursts().filter(|_| !notes.counts.is_empty())?;
        Some(shared.ask(notes.counts.iter().map(|pending| pending.count).collect(), now))
    }

    /// Counts a request in shared detectors without waiting.
    pub(crate) fn add_shared(&self, set: &Active, facts: &Facts<'_, '_>, notes: &mut GateNotes, now: Nanos) {
        let pending = std::mem::take(&mut notes.counts);
        let Some(shared) = self.store.shared_bursts().filter(|_| !pending.is_empty()) else { return };
        let counts: BurstCounts = pending.iter().map(|pending| pending.count).collect();
        let describe = |index: usize| {
            let PendingCount { number, count } = pending[index];
            let (rule, mut key) = (&set.rules.detectors()[number as usize], KeyBytes::new());
            // The key was written before, when the request was to be counted.
            let _written = facts.write_key(&rule.key, &mut key);
            self.burst_subject((rule, count.detector.id, set.version), (facts, &key))
        };
        if !shared.add(&counts, &describe, now) {
            // A block that begins here is noticed by the next request.
            pending.iter().for_each(|pending| {
                self.count_here(set, facts, pending.number, now, notes);
            });
        }
    }

    /// The ruling of a request that a shared detector blocks, once the server has answered or has not (`asked`). What
    /// the limits took is handed back. `None` if the limits decide.
    pub(crate) fn conclude_shared<E>(
        &self,
        (set, facts): (&Active, &Facts<'_, '_>),
        notes: &mut GateNotes,
        asked: bool,
        (charges, result): (&Charges<'_>, &Result<Verdict, E>),
        now: Nanos,
    ) -> Option<Ruling> {
        let (detector, until) = self.block_by_shared(set, facts, notes, asked, now)?;
        if set.rules.is_shadow() {
            notes.shadow_denied.push(Refuser::Detector(detector));
            return None;
        }
        if let Ok(verdict) = result
            && verdict.allowed
        {
            let taken = charges.iter().zip(&verdict.decisions).filter(|(_, decision)| decision.is_allowed());
            let taken: Vec<Charge<'_>> = taken.map(|(charge, _)| *charge).collect();
            self.store.hand_back(&taken, verdict.at);
        }
        Some(Ruling::refused(now, Reason::BurstBlocked, Refuser::Detector(detector), Some(until)))
    }

    /// The longest block among the detectors that have counted a request, after the server was asked.
    pub(crate) fn block_by_shared(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        notes: &mut GateNotes,
        asked: bool,
        now: Nanos,
    ) -> Option<(u32, Nanos)> {
        let shared = self.store.shared_bursts()?;
        let mut longest: Option<(u32, Nanos)> = None;
        for pending in std::mem::take(&mut notes.counts) {
            let PendingCount { number, count } = pending;
            let known = shared.known(&count, true, now);
            let (known, origin) = (known.verdict, reported_by(&known));
            let verdict = if asked {
                let rule = &set.rules.detectors()[number as usize];
                let mut key = KeyBytes::new();
                if facts.write_key(&rule.key, &mut key).is_ok() {
                    self.note_burst((number, &key), (set, facts), (known, origin), now, notes);
                }
                known
            } else {
                // A penalty that was known before stays, even if it could not be confirmed.
                let own = self.count_here(set, facts, number, now, notes);
                BurstVerdict { blocked_until: own.blocked_until.max(known.blocked_until), ..own }
            };
            if let Some(until) = verdict.blocked_until
                && longest.is_none_or(|(_, held)| until > held)
            {
                longest = Some((number, until));
            }
        }
        longest
    }

    /// This node's own detector counts a request, since the server does not.
    #[cold]
    fn count_here(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        number: u32,
        now: Nanos,
        notes: &mut GateNotes,
    ) -> BurstVerdict {
        let rule = &set.rules.detectors()[number as usize];
        let mut key = KeyBytes::new();
        if facts.write_key(&rule.key, &mut key).is_err() {
            return BurstVerdict::default();
        }
        let verdict = self.bursts.watch(&set.detectors[number as usize], &key, true, now);
        self.note_burst((number, &key), (set, facts), (verdict, Some(PenaltyOrigin::ThisNode)), now, notes);
        verdict
    }
}

/// Who reports the action: this request, or whoever takes the late ones.
fn reported_by(known: &KnownBurst) -> Option<PenaltyOrigin> {
    (!known.is_late).then_some(PenaltyOrigin::SharedStore)
}
