//! Those who wait for one bucket: in line, or with a place that was told.

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};

use super::line::{QueueSlot, WaitLine};
use crate::Store;

/// A place that is held until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldPlace {
    pub(crate) due: Nanos,
    /// What is reserved for it; nothing yet while that is under way.
    pub(crate) tokens: u64,
    /// The last ticket of the line when it was reserved: those up to it have reserved before.
    pub(crate) behind: u64,
}

impl HeldPlace {
    /// Nothing is reserved for it yet.
    pub(crate) fn until(due: Nanos) -> HeldPlace {
        HeldPlace { due, tokens: 0, behind: 0 }
    }
}

/// Which of a bucket's lines: the one that the store paces, or one for each cost.
pub(crate) type WaitLineKey = Option<Cost>;

/// Those who have a place.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    pub(crate) held: Vec<HeldPlace>,
    /// The earliest of them: before it there is nobody to strike out.
    pub(crate) first: Nanos,
    /// Those whom the store paces.
    pub(crate) paced: WaitLine,
    /// Those of a cost, where it does not.
    pub(crate) by_cost: Vec<(Cost, WaitLine)>,
}

impl WaitQueue {
    /// How many wait at `now`.
    pub(crate) fn depth(&mut self, now: Nanos) -> usize {
        // Places of which the line has not been told yet are only left out.
        if self.first <= now && self.paced.waiting() == 0 {
            self.held.retain(|held| held.due > now);
            self.first = self.held.iter().map(|held| held.due).min().unwrap_or(Nanos::MAX);
        }
        self.held.iter().filter(|held| held.due > now).count() + self.waiting()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.paced.waiting() + self.by_cost.iter().map(|(_, line)| line.waiting()).sum::<usize>()
    }

    pub(crate) fn strike(&mut self, place: HeldPlace) {
        if let Some(place) = self.held.iter().position(|held| *held == place) {
            self.held.swap_remove(place);
        }
    }

    /// Until when there may be somebody.
    pub(crate) fn last(&self) -> Nanos {
        let held = self.held.iter().map(|held| held.due).max().unwrap_or_default();
        if self.waiting() == 0 { held } else { Nanos::MAX }
    }

    /// The line for a slot. The store paces those who have reserved by the same numbers; whoever comes with others,
    /// after an edit or at another trust, goes by its own slot until they have gone.
    pub(crate) fn line_for(&self, slot: &QueueSlot, is_paced: bool) -> WaitLineKey {
        let agrees = self.paced.first().is_none_or(|first| first.charge.limit.id() == slot.charge.limit.id());
        (!is_paced || !agrees).then_some(slot.charge.cost)
    }

    pub(crate) fn line(&mut self, key: WaitLineKey) -> &mut WaitLine {
        let Some(cost) = key else { return &mut self.paced };
        let place = self.by_cost.iter().position(|(own, _)| *own == cost).unwrap_or_else(|| {
            self.by_cost.push((cost, WaitLine::default()));
            self.by_cost.len() - 1
        });
        &mut self.by_cost[place].1
    }

    /// Where those who wait are late, what the bucket could not hold is lost as of `now`; and so it is as of the
    /// instants of places that have been used meanwhile.
    pub(crate) fn spill<S: Store>(&mut self, store: &S, now: Nanos) {
        let Some(slot) = self.paced.first() else { return };
        let charge = slot.charge_of(Cost::ZERO);
        if self.first <= now {
            self.held.sort_unstable_by_key(|held| held.due);
            let used = self.held.partition_point(|held| held.due <= now);
            for place in 0..used {
                let (due, told) = (self.held[place].due, self.held[place..].iter().map(|held| held.tokens));
                store.pace(&charge, self.paced.reserved() + told.sum::<u64>(), due);
            }
            self.held.drain(..used);
            self.first = self.held.first().map_or(Nanos::MAX, |held| held.due);
        }
        store.pace(&charge, self.all_reserved(), now);
    }

    pub(crate) fn all_reserved(&self) -> u64 {
        self.paced.reserved() + self.told().map(|(_, tokens)| tokens).sum::<u64>()
    }

    /// When those go who keep to an instant, and with how much.
    fn told(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let by_cost = self.by_cost.iter().flat_map(|(_, line)| line.slots());
        let slots = by_cost.map(|slot| (slot.due(), slot.tokens()));
        self.held.iter().map(|held| (held.due, held.tokens)).filter(|(_, tokens)| *tokens > 0).chain(slots)
    }

    /// When somebody in the paced line can go whose limit has been edited since: at the instant that it reserved, whoever
    /// else is in the line. `None` where the store paces it.
    pub(crate) fn due_without_pace<S: Store>(&mut self, ticket: u64, store: &S, now: Nanos) -> Option<Nanos> {
        let (slot, reserved) = (self.paced.brought_by(ticket)?, self.all_reserved());
        let is_paced = store.pace(&slot.charge_of(Cost::ZERO), reserved, now).is_some();
        let due = slot.due();
        self.paced.hear(ticket);
        (!is_paced).then_some(due)
    }

    /// When the next one of a line can go; never before `now`, where that is told by the store.
    pub(crate) fn due<S: Store>(&mut self, key: WaitLineKey, store: &S, now: Nanos) -> Nanos {
        if key.is_some() {
            return self.line(key).first().map_or(Nanos::MAX, QueueSlot::due);
        }
        let next = self.paced.head().and_then(|head| self.paced.brought_by(head));
        let Some(slot) = next else { return Nanos::MAX };
        let reserved = self.all_reserved();
        let due_of = |tokens: u64| {
            let cost = Cost::new(u32::try_from(tokens).unwrap_or(u32::MAX));
            Some(now.saturating_add(store.pace(&slot.charge_of(cost), reserved, now)?))
        };
        let Some(due) = due_of(slot.tokens()) else { return slot.due() };
        if due > now {
            return due;
        }
        // Places that were told are kept: each must find its cost although somebody goes now.
        let mut told: SmallVec<[(Nanos, u64); 8]> = self.told().filter(|(due, _)| *due > now).collect();
        told.sort_unstable();
        let mut tokens = slot.tokens();
        for (told, more) in told {
            tokens += more;
            if due_of(tokens).is_some_and(|due| due > told) {
                return told;
            }
        }
        now
    }
}
