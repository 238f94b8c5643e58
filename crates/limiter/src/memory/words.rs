//! Charging limits whose state is one word: in the key's slot, or in the overflow bucket of its limit.

use std::cell::Cell;

use portable_atomic::AtomicU128;
use tidegate_core::{Cost, Limit, LimitDecision, Meter, Nanos, token_bucket};

use super::home::OwnVersion;
use super::key_rules::{KeyRules, SharedRules};
use super::probe::{Probe, SlotRules, SlotUpdate, SlotWindow, TableFull};
use super::slot::{SlotEntry, Tag};
use super::table::TableWindow;
use super::version::MemoryVersion;
use super::window_time::{ChargeTime, charged_at};
use super::{HashedKey, Memory};
use crate::Clock;
use crate::charge::TimedCost;
use crate::history::edits::extend_wait_for_stored_variant;

impl<C: Clock> Memory<C> {
    #[inline(always)]
    pub(super) fn take_word(
        &self,
        key: HashedKey<'_>,
        meter: &Meter,
        cost: Cost,
        now: Nanos,
    ) -> LimitDecision {
        let at = self.windows.of(meter, &self.clock, now);
        match self.own_version(key).update_at_home(|state| meter.charge(state, cost, at)) {
            Some(charged) => meter.decision(charged, cost, at),
            None => self.take_anywhere(key, meter, TimedCost::now(cost), now),
        }
    }

    /// [`Memory::take_word`] for a delayed charge. Only the arithmetic of the meter uses the delay: slots,
    /// neighbours and debts use the real `now`.
    pub(super) fn take_word_ahead(
        &self,
        key: HashedKey<'_>,
        meter: &Meter,
        timed: TimedCost,
        now: Nanos,
    ) -> LimitDecision {
        self.take_anywhere(key, meter, timed, now)
    }

    /// The decision on a charge whose state may have been stored with another version.
    #[inline(never)]
    fn decision(&self, rules: &KeyRules<'_>, updated: SlotUpdate, timed: TimedCost) -> LimitDecision {
        let SlotUpdate { version, state, when, found } = updated;
        let version = rules.reader.known(version, rules.version);
        let meter = version.slot_meter();
        let decision = meter.decision_ahead(state, timed.cost, self.instant(meter, when), timed.delay);
        if state.is_ok() {
            decision
        } else {
            extend_wait(rules, decision, found, &version, timed.cost, when.now)
        }
    }

    /// The time of a charge on the clock that a meter uses.
    fn instant(&self, meter: &Meter, when: ChargeTime) -> Nanos {
        let at = self.windows.of(meter, &self.clock, when.now);
        if meter.windows().is_some() { at.max(when.wall_from) } else { at }
    }

    /// The word after a charge, or `None` if it is denied.
    fn charge(
        &self,
        rules: &KeyRules<'_>,
        version: u32,
        state: u64,
        timed: TimedCost,
        when: ChargeTime,
    ) -> Option<u64> {
        let version = rules.reader.known(version, rules.version);
        let meter = version.slot_meter();
        meter.charge_ahead(state, timed.cost, self.instant(meter, when), timed.delay)
    }

    #[inline(never)]
    fn take_anywhere(
        &self,
        key: HashedKey<'_>,
        meter: &Meter,
        timed: TimedCost,
        now: Nanos,
    ) -> LimitDecision {
        let at = self.windows.of(meter, &self.clock, now);
        let charge = |state| meter.charge_ahead(state, timed.cost, at, timed.delay);
        if let Some(charged) = self.own_version(key).update(charge) {
            return meter.decision_ahead(charged, timed.cost, at, timed.delay);
        }
        let rules = &self.rules(key, now);
        let charge = |version, state, when| self.charge(rules, version, state, timed, when);
        let updated = loop {
            match self.probe(key, rules).update(charge) {
                Ok(updated) => break updated,
                Err(TableFull) => {
                    if let Some(updated) = self.take_shared(key, rules, timed) {
                        break updated;
                    }
                }
            }
        };
        self.decision(rules, updated, timed)
    }

    /// Charges the overflow bucket. `None` if the key has got a slot meanwhile: then the charge is handed back,
    /// and the slot decides. A key that gets its slot after this starts from the overflow bucket and so sees
    /// the charge.
    #[cold]
    fn take_shared(&self, key: HashedKey<'_>, rules: &KeyRules<'_>, timed: TimedCost) -> Option<SlotUpdate> {
        self.debtors.count_overflow();
        let charge = |version, state, when| self.charge(rules, version, state, timed, when);
        let shared = SharedRules(rules);
        let updated = shared_bucket(&shared).update(charge).expect("the only slot is always usable");
        if updated.state.is_ok() && timed.cost > Cost::ZERO {
            let version = rules.reader.known(updated.version, rules.version);
            let charged_at = self.instant(version.slot_meter(), updated.when);
            let full_after = self.decision(rules, updated, timed).reset_after;
            let full_after = full_after.saturating_add(version.extra_idle_time());
            let earliest = updated.when.now.min(rules.wall());
            self.debtors.record_debt(rules.debtor(), charged_at.saturating_add(full_after), earliest);
            if self.probe(key, rules).is_present() {
                let now = self.clock.now().max(updated.when.now);
                shared_bucket(&shared).amend(|version, state, _| {
                    self.word_after_hand_back(rules, version, state, timed, (charged_at, now))
                });
                return None;
            }
        }
        Some(updated)
    }

    pub(super) fn peek_word(
        &self,
        key: HashedKey<'_>,
        meter: &Meter,
        timed: TimedCost,
        now: Nanos,
    ) -> LimitDecision {
        if let Some(state) = self.own_version(key).peek() {
            let at = self.windows.of(meter, &self.clock, now);
            return meter.peek_ahead(state, timed.cost, at, timed.delay);
        }
        let rules = self.rules(key, now);
        let probe = self.probe(key, &rules);
        let found = probe.peek().unwrap_or_else(|| {
            if probe.has_free_slot() { rules.first(probe.tag) } else { rules.shared_entry(probe.tag) }
        });
        let entry = probe.migrate(found);
        let version = rules.reader.known(entry.tag.version(), key.version);
        let meter = version.slot_meter();
        let decision = meter.peek_ahead(entry.state, timed.cost, rules.now(meter), timed.delay);
        extend_wait(&rules, decision, found, &version, timed.cost, now)
    }

    /// Gives tokens back. A bucket that is not full then is in the numbers of the key's version, even if it was given
    /// nothing: from now on it gains tokens at their rate. One that is full stays in its numbers, where it may have more.
    pub(super) fn refund_word(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) {
        let renumbers = |rules: &KeyRules<'_>, version, state| {
            let version = rules.reader.known(version, rules.version);
            matches!(version.slot_meter(), Meter::TokenBucket(quota) if !token_bucket::is_full(state, quota, now))
        };
        self.amend(key, now, renumbers, |rules, version, state| {
            let version = rules.reader.known(version, rules.version);
            let meter = version.slot_meter();
            meter.refund(state, cost, self.windows.of(meter, &self.clock, now))
        });
    }

    /// See [`token_bucket::pace`]; `None` for other meters, and if the limit has been edited since: the delayed
    /// charges are an amount of time in the state, which is another number of tokens under the new numbers.
    pub(super) fn pace_word(
        &self,
        key: HashedKey<'_>,
        cost: Cost,
        delayed: u64,
        now: Nanos,
    ) -> Option<Nanos> {
        let rules = self.rules(key, now);
        let wait = Cell::new(None);
        let act = |version, state, when: ChargeTime| {
            if version != key.version.number {
                return None;
            }
            let Some(Meter::TokenBucket(quota)) = key.version.meter() else { return None };
            let (until_held, next) = token_bucket::pace(state, quota, cost, delayed, when.now);
            wait.set(Some(until_held));
            Some(next)
        };
        if self.probe(key, &rules).update(act).is_err() {
            shared_bucket(&SharedRules(&rules)).update(act).expect("the only slot is always usable");
        }
        wait.get()
    }

    /// Makes a key unused, and with it the overflow bucket or log if the key has charged that instead of its own.
    pub(crate) fn reset(&self, key: HashedKey<'_>, now: Nanos) {
        match &key.version.limit {
            Limit::Meter(_) => self.amend(key, now, |_, _, _| false, |_, _, _| 0),
            Limit::Log(quota) => self.logs.reset(&self.log_context(), &key.logged(quota, now)),
        }
    }

    pub(super) fn hand_back_word(&self, key: HashedKey<'_>, timed: TimedCost, at: Nanos, now: Nanos) {
        self.amend(
            key,
            now,
            |_, _, _| false,
            |rules, version, state| {
                let at = charged_at(rules.reader.known(version, rules.version).slot_meter(), &self.clock, at);
                self.word_after_hand_back(rules, version, state, timed, (at, now))
            },
        );
    }

    /// The word without a charge that was made with the key's version at `charged_at` (on the clock of its
    /// meter), and is handed back at `now` in a word of another version.
    fn word_after_hand_back(
        &self,
        rules: &KeyRules<'_>,
        version: u32,
        state: u64,
        timed: TimedCost,
        (charged_at, now): (Nanos, Nanos),
    ) -> u64 {
        let (charged, version) = (rules.version, rules.reader.known(version, rules.version));
        if !charged.generation.keeps_tokens(&version.generation, charged.variant) {
            return state;
        }
        let meter = version.slot_meter();
        let now = self.windows.of(meter, &self.clock, now);
        meter.hand_back(state, timed.cost, meter.as_of(charged_at, timed.delay), now)
    }

    /// Gives something back to the key's own slot or to the overflow bucket it charged. A key that has neither
    /// is idle, and there is nothing to give back to.
    fn amend(
        &self,
        key: HashedKey<'_>,
        now: Nanos,
        renumbers: impl Fn(&KeyRules<'_>, u32, u64) -> bool,
        act: impl Fn(&KeyRules<'_>, u32, u64) -> u64,
    ) {
        let rules = self.rules(key, now);
        let act = |version, state, _| act(&rules, version, state);
        let renumbers = |version, state| renumbers(&rules, version, state);
        let is_held = self.probe(key, &rules).amend_renumbering(renumbers, act);
        if !is_held && self.debtors.may_owe(rules.debtor(), rules.own_now()) {
            shared_bucket(&SharedRules(&rules)).amend(act);
        }
    }

    fn rules<'a>(&'a self, key: HashedKey<'a>, now: Nanos) -> KeyRules<'a> {
        let (reader, debtors) = (self.registry.read(), &self.debtors);
        let (clock, windows) = (&self.clock, &self.windows);
        KeyRules { reader, debtors, version: key.version, hash: key.hash, now, clock, windows }
    }

    #[inline]
    fn own_version(&self, key: HashedKey<'_>) -> OwnVersion<TableWindow<'_>> {
        OwnVersion { window: self.table.window(key.hash), tag: Tag::new(key.hash, key.version.number) }
    }

    #[inline]
    fn probe<'a>(
        &'a self,
        key: HashedKey<'_>,
        rules: &'a KeyRules<'a>,
    ) -> Probe<'a, TableWindow<'a>, KeyRules<'a>> {
        Probe {
            window: self.table.window(key.hash),
            tag: Tag::new(key.hash, key.version.number),
            now: rules.now,
            rules,
            counters: &self.table.counters,
        }
    }
}

/// Lengthens the wait of a denial if the key is stored in another variant.
fn extend_wait(
    rules: &KeyRules<'_>,
    decision: LimitDecision,
    found: SlotEntry,
    version: &MemoryVersion,
    cost: Cost,
    now: Nanos,
) -> LimitDecision {
    let unchanged = || rules.reader.unchanged((found.tag.version(), found.state), version);
    extend_wait_for_stored_variant(decision, unchanged, (&version.limit, cost), now)
}

/// A window of one slot.
struct OneSlot<'a>(&'a AtomicU128);

impl SlotWindow for OneSlot<'_> {
    type Slot = AtomicU128;

    fn line(&self, index: usize) -> Option<&[AtomicU128]> {
        (index == 0).then(|| std::slice::from_ref(self.0))
    }
}

/// The overflow bucket of a limit, as a key that is the same for all.
fn shared_bucket<'a>(rules: &'a SharedRules<'a>) -> Probe<'a, OneSlot<'a>, SharedRules<'a>> {
    let overflow = &rules.0.version.data.overflow;
    Probe {
        window: OneSlot(&overflow.slot),
        tag: Tag::new(0, rules.0.version.number),
        now: rules.0.now,
        rules,
        counters: &overflow.counters,
    }
}
