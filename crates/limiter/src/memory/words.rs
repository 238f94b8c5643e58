//! Charging limits whose state is one word: in the key's slot, or in the bucket
//! that keys without a slot share.

use std::sync::Arc;

use portable_atomic::AtomicU128;
use tidegate_core::{Cost, Decision, Meter, Nanos};

use super::overflow::Debtors;
use super::probe::{NoRoom, Probe, Rules, Settled, Window};
use super::registry::{Registry, Version};
use super::slot::{Entry, Slot, Tag};
use super::table::TableWindow;
use super::{Key, Memory};
use crate::Clock;

/// What the protocol must know, for one key at one instant.
pub(super) struct KeyRules<'a> {
    registry: &'a Registry,
    debtors: &'a Debtors,
    version: &'a Arc<Version>,
    hash: u64,
    now: Nanos,
}

impl KeyRules<'_> {
    /// The meter of a version; `own` is that of the key's.
    #[inline]
    fn meter<'m>(&'m self, version: u32, own: &'m Meter) -> &'m Meter {
        if version == self.version.number { own } else { self.registry.meter(version) }
    }

    /// The shared bucket as it stands.
    fn shared_entry(&self, tag: Tag) -> Entry {
        let entry = self.version.identity.overflow.slot.get();
        if entry.is_empty() || entry.is_claim() { Entry { tag, state: 0 } } else { self.adopt(entry, tag) }
    }
}

impl Rules for KeyRules<'_> {
    fn is_idle(&self, entry: Entry) -> bool {
        let number = entry.tag.version();
        let own = number == self.version.number;
        let version = if own { self.version } else { self.registry.get(number) };
        let newest = version.newest();
        let (_, state) = if newest.number == number {
            (number, entry.state)
        } else {
            self.registry.bring_up(number, entry.state, newest)
        };
        // A limit that has become one that keeps logs leaves nothing here.
        newest.meter().is_none_or(|meter| meter.is_idle(state, self.now))
    }

    fn adopt(&self, entry: Entry, tag: Tag) -> Entry {
        let (version, state) = self.registry.bring_up(entry.tag.version(), entry.state, self.version);
        Entry { tag: tag.with_version(version), state }
    }

    /// A key that drew on the shared bucket starts as empty as that is, or what
    /// it drew would be granted twice.
    fn first(&self, tag: Tag) -> Entry {
        if self.debtors.may_owe(self.hash, self.now) {
            self.shared_entry(tag)
        } else {
            Entry { tag, state: 0 }
        }
    }
}

/// What the protocol must know of a shared bucket: it starts full.
struct SharedRules<'a>(&'a KeyRules<'a>);

impl Rules for SharedRules<'_> {
    fn is_idle(&self, entry: Entry) -> bool {
        self.0.is_idle(entry)
    }

    fn adopt(&self, entry: Entry, tag: Tag) -> Entry {
        self.0.adopt(entry, tag)
    }

    fn first(&self, tag: Tag) -> Entry {
        Entry { tag, state: 0 }
    }
}

impl<C: Clock> Memory<C> {
    #[inline(always)]
    pub(super) fn take_word(&self, key: Key<'_>, meter: &Meter, cost: Cost, now: Nanos) -> Decision {
        let rules = self.rules(key, now);
        let charge = |version, state, now| rules.meter(version, meter).charge(state, cost, now);
        match self.probe(key, &rules).update_at_home(charge) {
            Some(settled) => rules.meter(settled.version, meter).decision(settled.state, cost, settled.now),
            None => self.take_anywhere(key, &rules, cost),
        }
    }

    #[inline(never)]
    fn take_anywhere(&self, key: Key<'_>, rules: &KeyRules<'_>, cost: Cost) -> Decision {
        let charge = |version, state, now| self.registry.meter(version).charge(state, cost, now);
        let settled = loop {
            match self.probe(key, rules).update(charge) {
                Ok(settled) => break settled,
                Err(NoRoom) => {
                    if let Some(settled) = self.take_shared(key, rules, cost) {
                        break settled;
                    }
                }
            }
        };
        self.registry.meter(settled.version).decision(settled.state, cost, settled.now)
    }

    /// Draws on the shared bucket. `None` if the key has got a slot meanwhile:
    /// then what was drawn is handed back, and the slot decides. A key that gets
    /// its slot after this sees what was drawn.
    #[cold]
    fn take_shared(&self, key: Key<'_>, rules: &KeyRules<'_>, cost: Cost) -> Option<Settled> {
        self.debtors.count_overflow();
        let charge = |version, state, now| self.registry.meter(version).charge(state, cost, now);
        let shared = SharedRules(rules);
        let settled = shared_bucket(&shared).update(charge).expect("the one slot is its key's own");
        if let Ok(state) = settled.state
            && cost > Cost::ZERO
        {
            let full_after = self.registry.meter(settled.version).peek(state, cost, settled.now).reset_after;
            self.debtors.owes(key.hash, settled.now.saturating_add(full_after));
            if self.probe(key, rules).is_present() {
                let (charged_at, now) = (settled.now, self.clock.now().max(settled.now));
                shared_bucket(&shared).amend(|version, state, _| {
                    self.registry.meter(version).hand_back(state, cost, charged_at, now)
                });
                return None;
            }
        }
        Some(settled)
    }

    pub(super) fn peek_word(&self, key: Key<'_>, cost: Cost, now: Nanos) -> Decision {
        let rules = self.rules(key, now);
        let probe = self.probe(key, &rules);
        let entry = probe.look().unwrap_or_else(|| {
            if probe.has_room() { rules.first(probe.tag) } else { rules.shared_entry(probe.tag) }
        });
        self.registry.meter(entry.tag.version()).peek(entry.state, cost, now)
    }

    pub(super) fn refund_word(&self, key: Key<'_>, cost: Cost, now: Nanos) {
        self.amend(key, now, |meter, state| meter.refund(state, cost, now));
    }

    pub(super) fn hand_back_word(&self, key: Key<'_>, cost: Cost, charged_at: Nanos) {
        let now = self.clock.now().max(charged_at);
        self.amend(key, now, |meter, state| meter.hand_back(state, cost, charged_at, now));
    }

    /// Gives something back to the key's own slot or to the bucket it drew on. A
    /// key that has neither is idle: there is nothing to give back to.
    fn amend(&self, key: Key<'_>, now: Nanos, act: impl Fn(&Meter, u64) -> u64) {
        let rules = self.rules(key, now);
        let act = |version, state, _| act(self.registry.meter(version), state);
        if !self.probe(key, &rules).amend(act) && self.debtors.may_owe(key.hash, now) {
            shared_bucket(&SharedRules(&rules)).amend(act);
        }
    }

    #[inline]
    fn rules<'a>(&'a self, key: Key<'a>, now: Nanos) -> KeyRules<'a> {
        let (registry, debtors) = (&self.registry, &self.debtors);
        KeyRules { registry, debtors, version: key.version, hash: key.hash, now }
    }

    #[inline]
    fn probe<'a>(
        &'a self,
        key: Key<'_>,
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

impl Window for OneSlot<'_> {
    type Slot = AtomicU128;

    fn line(&self, index: usize) -> Option<&[AtomicU128]> {
        (index == 0).then(|| std::slice::from_ref(self.0))
    }
}

/// The bucket that keys without a slot share, as a key that is the same for all.
fn shared_bucket<'a>(rules: &'a SharedRules<'a>) -> Probe<'a, OneSlot<'a>, SharedRules<'a>> {
    let overflow = &rules.0.version.identity.overflow;
    Probe {
        window: OneSlot(&overflow.slot),
        tag: Tag::new(0, rules.0.version.number),
        now: rules.0.now,
        rules,
        ledger: &overflow.ledger,
    }
}
