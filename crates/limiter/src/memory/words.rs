//! Charging limits whose state is one word: in the key's slot, or in the bucket
//! that keys without a slot share.

use std::cell::Cell;
use std::sync::Arc;

use portable_atomic::AtomicU128;
use tidegate_core::{Cost, LimitDecision, Meter, Nanos, token_bucket};

use super::overflow::{DebtKind, Debtor, Debtors};
use super::probe::{Probe, SlotRules, SlotUpdate, SlotWindow, TableFull};
use super::slot::{Slot, SlotEntry, Tag};
use super::table::TableWindow;
use super::version::{MemoryRegistry, MemoryVersion};
use super::window_time::{ChargeTime, WindowTime, charged_at};
use super::{HashedKey, Memory};
use crate::Clock;
use crate::charge::TimedCost;
use crate::history::edits::told_as_found;

/// What the protocol must know, for one key at one instant.
pub(super) struct KeyRules<'a> {
    registry: &'a MemoryRegistry,
    debtors: &'a Debtors,
    version: &'a Arc<MemoryVersion>,
    hash: u64,
    now: Nanos,
    clock: &'a dyn Clock,
    windows: &'a WindowTime,
}

impl KeyRules<'_> {
    fn debtor(&self) -> Debtor<'_> {
        Debtor { overflow: &self.version.data.overflow, kind: DebtKind::Slot, hash: self.hash }
    }

    /// Now, as a meter sees it.
    fn now(&self, meter: &Meter) -> Nanos {
        self.windows.of(meter, self.clock, self.now)
    }

    /// The same for the key's own limit.
    fn own_now(&self) -> Nanos {
        self.version.meter().map_or(self.now, |meter| self.now(meter))
    }

    /// The shared bucket as it stands, as an entry of the key.
    fn shared_entry(&self, tag: Tag) -> SlotEntry {
        let entry = self.version.data.overflow.slot.get();
        if entry.is_empty() || entry.is_claim() {
            SlotEntry { tag, state: 0 }
        } else {
            SlotEntry { tag: tag.with_version(entry.tag.version()), ..entry }
        }
    }
}

impl SlotRules for KeyRules<'_> {
    fn is_idle(&self, entry: SlotEntry) -> bool {
        let number = entry.tag.version();
        let version = if number == self.version.number { self.version } else { self.registry.get(number) };
        self.registry.is_idle(version, entry.state, |meter| self.now(meter))
    }

    fn adopt(&self, entry: SlotEntry, tag: Tag) -> SlotEntry {
        let (version, state) =
            self.registry.bring_up(entry.tag.version(), entry.state, self.version, |meter| self.now(meter));
        SlotEntry { tag: tag.with_version(version), state }
    }

    /// A key that drew on the shared bucket starts as empty as that is, or what
    /// it drew would be granted twice.
    fn first(&self, tag: Tag) -> SlotEntry {
        if self.debtors.may_owe(self.debtor(), self.own_now()) {
            self.shared_entry(tag)
        } else {
            SlotEntry { tag, state: 0 }
        }
    }

    fn wall(&self) -> Nanos {
        self.clock.wall_at(self.now)
    }
}

/// What the protocol must know of a shared bucket: it starts full.
struct SharedRules<'a>(&'a KeyRules<'a>);

impl SlotRules for SharedRules<'_> {
    fn is_idle(&self, entry: SlotEntry) -> bool {
        self.0.is_idle(entry)
    }

    fn adopt(&self, entry: SlotEntry, tag: Tag) -> SlotEntry {
        self.0.adopt(entry, tag)
    }

    fn first(&self, tag: Tag) -> SlotEntry {
        SlotEntry { tag, state: 0 }
    }

    fn wall(&self) -> Nanos {
        self.0.wall()
    }
}

impl<C: Clock> Memory<C> {
    #[inline(always)]
    pub(super) fn take_word(
        &self,
        key: HashedKey<'_>,
        meter: &Meter,
        cost: Cost,
        now: Nanos,
    ) -> LimitDecision {
        let rules = self.rules(key, now);
        let at = self.windows.of(meter, &self.clock, now);
        match self.probe(key, &rules).update_at_home(|state| meter.charge(state, cost, at)) {
            Some(charged) => meter.decision(charged, cost, at),
            None => self.take_anywhere(key, &rules, TimedCost::now(cost)),
        }
    }

    /// The same as of later. Only the arithmetic of the meter knows of the delay:
    /// slots, neighbours and debts go by the real `now`.
    pub(super) fn take_word_ahead(&self, key: HashedKey<'_>, ask: TimedCost, now: Nanos) -> LimitDecision {
        self.take_anywhere(key, &self.rules(key, now), ask)
    }

    /// The decision on a charge that may have met another version.
    #[inline(never)]
    fn decision(&self, settled: SlotUpdate, ask: TimedCost) -> LimitDecision {
        let SlotUpdate { version, state, when, found } = settled;
        let meter = self.registry.meter(version);
        let decision = meter.decision_ahead(state, ask.cost, self.instant(meter, when), ask.delay);
        if state.is_ok() { decision } else { self.as_found(decision, found, version, ask.cost, when.now) }
    }

    /// The same where the key may have been found at another trust.
    fn as_found(
        &self,
        decision: LimitDecision,
        found: SlotEntry,
        version: u32,
        cost: Cost,
        now: Nanos,
    ) -> LimitDecision {
        let unchanged = || self.registry.unchanged((found.tag.version(), found.state), version);
        told_as_found(decision, unchanged, cost, now)
    }

    /// When that is, as a meter sees it.
    fn instant(&self, meter: &Meter, when: ChargeTime) -> Nanos {
        let at = self.windows.of(meter, &self.clock, when.now);
        if meter.windows().is_some() { at.max(when.wall_from) } else { at }
    }

    /// What a charge does to a word.
    fn charge(&self, version: u32, state: u64, ask: TimedCost, when: ChargeTime) -> Option<u64> {
        let meter = self.registry.meter(version);
        meter.charge_ahead(state, ask.cost, self.instant(meter, when), ask.delay)
    }

    #[inline(never)]
    fn take_anywhere(&self, key: HashedKey<'_>, rules: &KeyRules<'_>, ask: TimedCost) -> LimitDecision {
        let charge = |version, state, when| self.charge(version, state, ask, when);
        let settled = loop {
            match self.probe(key, rules).update(charge) {
                Ok(settled) => break settled,
                Err(TableFull) => {
                    if let Some(settled) = self.take_shared(key, rules, ask) {
                        break settled;
                    }
                }
            }
        };
        self.decision(settled, ask)
    }

    /// Draws on the shared bucket. `None` if the key has got a slot meanwhile:
    /// then what was drawn is handed back, and the slot decides. A key that gets
    /// its slot after this sees what was drawn.
    #[cold]
    fn take_shared(&self, key: HashedKey<'_>, rules: &KeyRules<'_>, ask: TimedCost) -> Option<SlotUpdate> {
        self.debtors.count_overflow();
        let charge = |version, state, when| self.charge(version, state, ask, when);
        let shared = SharedRules(rules);
        let settled = shared_bucket(&shared).update(charge).expect("the one slot is its key's own");
        if settled.state.is_ok() && ask.cost > Cost::ZERO {
            let charged_at = self.instant(self.registry.meter(settled.version), settled.when);
            let idle_later = self.registry.idle_later(self.registry.get(settled.version));
            let full_after = self.decision(settled, ask).reset_after.saturating_add(idle_later);
            let earliest = settled.when.now.min(rules.wall());
            self.debtors.owes(rules.debtor(), charged_at.saturating_add(full_after), earliest);
            if self.probe(key, rules).is_present() {
                let now = self.clock.now().max(settled.when.now);
                shared_bucket(&shared).amend(|version, state, _| {
                    self.handed_back(key.version, version, state, ask, (charged_at, now))
                });
                return None;
            }
        }
        Some(settled)
    }

    pub(super) fn peek_word(&self, key: HashedKey<'_>, ask: TimedCost, now: Nanos) -> LimitDecision {
        let rules = self.rules(key, now);
        let probe = self.probe(key, &rules);
        let found = probe.look().unwrap_or_else(|| {
            if probe.has_room() { rules.first(probe.tag) } else { rules.shared_entry(probe.tag) }
        });
        let entry = probe.adopt(found);
        let version = entry.tag.version();
        let meter = self.registry.meter(version);
        let decision = meter.peek_ahead(entry.state, ask.cost, rules.now(meter), ask.delay);
        self.as_found(decision, found, version, ask.cost, now)
    }

    pub(super) fn refund_word(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) {
        self.amend(key, now, |version, state| {
            let meter = self.registry.meter(version);
            meter.refund(state, cost, self.windows.of(meter, &self.clock, now))
        });
    }

    /// See [`token_bucket::pace`]; `None` for other meters, and where the limit has been edited since: what is reserved
    /// is time then, of which the new numbers make another number of tokens.
    pub(super) fn pace_word(
        &self,
        key: HashedKey<'_>,
        cost: Cost,
        reserved: u64,
        now: Nanos,
    ) -> Option<Nanos> {
        let rules = self.rules(key, now);
        let told = Cell::new(None);
        let act = |version, state, when: ChargeTime| {
            let Meter::TokenBucket(quota) = self.registry.meter(version) else { return None };
            if version != key.version.number {
                return None;
            }
            let (wait, next) = token_bucket::pace(state, quota, cost, reserved, when.now);
            told.set(Some(wait));
            Some(next)
        };
        if self.probe(key, &rules).update(act).is_err() {
            shared_bucket(&SharedRules(&rules)).update(act).expect("the one slot is its key's own");
        }
        told.get()
    }

    pub(super) fn hand_back_word(&self, key: HashedKey<'_>, ask: TimedCost, at: Nanos, now: Nanos) {
        self.amend(key, now, |version, state| {
            let at = charged_at(self.registry.meter(version), &self.clock, at);
            self.handed_back(key.version, version, state, ask, (at, now))
        });
    }

    /// A word without a charge that was made at one instant, as its meter saw it,
    /// under one version, and is handed back at another under another.
    fn handed_back(
        &self,
        charged: &MemoryVersion,
        version: u32,
        state: u64,
        ask: TimedCost,
        (charged_at, now): (Nanos, Nanos),
    ) -> u64 {
        if !self.registry.keeps_tokens(charged, self.registry.get(version)) {
            return state;
        }
        let meter = self.registry.meter(version);
        let now = self.windows.of(meter, &self.clock, now);
        meter.hand_back(state, ask.cost, meter.as_of(charged_at, ask.delay), now)
    }

    /// Gives something back to the key's own slot or to the bucket it drew on. A
    /// key that has neither is idle: there is nothing to give back to.
    fn amend(&self, key: HashedKey<'_>, now: Nanos, act: impl Fn(u32, u64) -> u64) {
        let rules = self.rules(key, now);
        let act = |version, state, _| act(version, state);
        if !self.probe(key, &rules).amend(act) && self.debtors.may_owe(rules.debtor(), rules.own_now()) {
            shared_bucket(&SharedRules(&rules)).amend(act);
        }
    }

    #[inline]
    fn rules<'a>(&'a self, key: HashedKey<'a>, now: Nanos) -> KeyRules<'a> {
        let (registry, debtors) = (&self.registry, &self.debtors);
        let (clock, windows) = (&self.clock, &self.windows);
        KeyRules { registry, debtors, version: key.version, hash: key.hash, now, clock, windows }
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
            ledger: &self.table.ledger,
        }
    }
}

/// A window of one slot.
struct OneSlot<'a>(&'a AtomicU128);

impl SlotWindow for OneSlot<'_> {
    type Slot = AtomicU128;

    fn line(&self, index: usize) -> Option<&[AtomicU128]> {
        (index == 0).then(|| std::slice::from_ref(self.0))
    }
}

/// The bucket that keys without a slot share, as a key that is the same for all.
fn shared_bucket<'a>(rules: &'a SharedRules<'a>) -> Probe<'a, OneSlot<'a>, SharedRules<'a>> {
    let overflow = &rules.0.version.data.overflow;
    Probe {
        window: OneSlot(&overflow.slot),
        tag: Tag::new(0, rules.0.version.number),
        now: rules.0.now,
        rules,
        ledger: &overflow.ledger,
    }
}
