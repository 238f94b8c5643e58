//! The queue of one bucket: waiting requests, and places held until a fixed instant.

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};

use super::fair_queue::{DelayedCharge, FairQueue};
use crate::Store;

/// A place that is held until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldPlace {
    pub(crate) due: Nanos,
    /// The tokens charged for it; zero until they are charged.
    pub(crate) tokens: u64,
    /// The last ticket of the paced queue when the tokens were charged: waiters up to this ticket have charged
    /// before.
    pub(crate) behind: u64,
}

impl HeldPlace {
    /// A place for which nothing is charged yet.
    pub(crate) fn until(due: Nanos) -> HeldPlace {
        HeldPlace { due, tokens: 0, behind: 0 }
    }
}

/// Which fair queue of a bucket: the one that the store paces, or the one for a cost.
pub(crate) type FairQueueKey = Option<Cost>;

/// All places of one bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketQueue {
    pub(crate) held: Vec<HeldPlace>,
    /// The earliest instant of `held`: nothing can be removed from it before.
    pub(crate) first: Nanos,
    /// The waiters that the store paces.
    pub(crate) paced: FairQueue,
    /// The waiters of each cost, if the store does not pace them.
    pub(crate) by_cost: Vec<(Cost, FairQueue)>,
}

impl BucketQueue {
    /// The number of places at `now`.
    pub(crate) fn depth(&mut self, now: Nanos) -> usize {
        // While there are paced waiters, past places are only left out here: `discard_overflow` still needs them.
        if self.first <= now && self.paced.waiting() == 0 {
            self.held.retain(|held| held.due > now);
            self.first = self.held.iter().map(|held| held.due).min().unwrap_or(Nanos::MAX);
        }
        self.held.iter().filter(|held| held.due > now).count() + self.waiting()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.paced.waiting() + self.by_cost.iter().map(|(_, fair_queue)| fair_queue.waiting()).sum::<usize>()
    }

    pub(crate) fn remove_held(&mut self, place: HeldPlace) {
        if let Some(index) = self.held.iter().position(|held| *held == place) {
            self.held.swap_remove(index);
        }
    }

    /// Until when the queue may have places.
    pub(crate) fn last(&self) -> Nanos {
        let held = self.held.iter().map(|held| held.due).max().unwrap_or_default();
        if self.waiting() == 0 { held } else { Nanos::MAX }
    }

    /// The fair queue for a delayed charge. The store paces waiters that charged by the same numbers. A waiter
    /// with other numbers, after an edit or at another trust, keeps the instant of its own charge until the
    /// others are gone.
    pub(crate) fn fair_queue_for(&self, delayed_charge: &DelayedCharge, is_paced: bool) -> FairQueueKey {
        let agrees = self
            .paced
            .first()
            .is_none_or(|first| first.charge.limit.id() == delayed_charge.charge.limit.id());
        (!is_paced || !agrees).then_some(delayed_charge.charge.cost)
    }

    pub(crate) fn fair_queue(&mut self, key: FairQueueKey) -> &mut FairQueue {
        let Some(cost) = key else { return &mut self.paced };
        let index = self.by_cost.iter().position(|(own, _)| *own == cost).unwrap_or_else(|| {
            self.by_cost.push((cost, FairQueue::default()));
            self.by_cost.len() - 1
        });
        &mut self.by_cost[index].1
    }

    /// If waiting requests are late, discards what the bucket could not hold, as of `now` and as of the
    /// instants of held places that have passed meanwhile.
    pub(crate) fn discard_overflow<S: Store>(&mut self, store: &S, now: Nanos) {
        let Some(delayed_charge) = self.paced.first() else { return };
        let charge = delayed_charge.charge_of(Cost::ZERO);
        if self.first <= now {
            self.held.sort_unstable_by_key(|held| held.due);
            let used = self.held.partition_point(|held| held.due <= now);
            for index in 0..used {
                let (due, fixed) = (self.held[index].due, self.held[index..].iter().map(|held| held.tokens));
                store.pace(&charge, self.paced.delayed_tokens() + fixed.sum::<u64>(), due);
            }
            self.held.drain(..used);
            self.first = self.held.first().map_or(Nanos::MAX, |held| held.due);
        }
        store.pace(&charge, self.all_delayed_tokens(), now);
    }

    pub(crate) fn all_delayed_tokens(&self) -> u64 {
        self.paced.delayed_tokens() + self.fixed().map(|(_, tokens)| tokens).sum::<u64>()
    }

    /// The instants of places that are fixed, and their tokens.
    fn fixed(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let by_cost = self.by_cost.iter().flat_map(|(_, fair_queue)| fair_queue.charges());
        let charges = by_cost.map(|delayed_charge| (delayed_charge.due(), delayed_charge.tokens()));
        self.held.iter().map(|held| (held.due, held.tokens)).filter(|(_, tokens)| *tokens > 0).chain(charges)
    }

    /// The instant at which a paced waiter can be admitted if its limit has been edited since: that of its own
    /// delayed charge, whatever its position. `None` if the store paces it.
    pub(crate) fn due_without_pace<S: Store>(&mut self, ticket: u64, store: &S, now: Nanos) -> Option<Nanos> {
        let (delayed_charge, delayed_tokens) = (self.paced.charge_by(ticket)?, self.all_delayed_tokens());
        let is_paced = store.pace(&delayed_charge.charge_of(Cost::ZERO), delayed_tokens, now).is_some();
        let due = delayed_charge.due();
        self.paced.clear_notification(ticket);
        (!is_paced).then_some(due)
    }

    /// The instant at which the head of a fair queue can be admitted; if the store paces it, not before `now`.
    pub(crate) fn due<S: Store>(&mut self, key: FairQueueKey, store: &S, now: Nanos) -> Nanos {
        if key.is_some() {
            return self.fair_queue(key).first().map_or(Nanos::MAX, DelayedCharge::due);
        }
        let next = self.paced.head().and_then(|head| self.paced.charge_by(head));
        let Some(delayed_charge) = next else { return Nanos::MAX };
        let delayed_tokens = self.all_delayed_tokens();
        let due_of = |tokens: u64| {
            let cost = Cost::new(u32::try_from(tokens).unwrap_or(u32::MAX));
            Some(now.saturating_add(store.pace(&delayed_charge.charge_of(cost), delayed_tokens, now)?))
        };
        let Some(due) = due_of(delayed_charge.tokens()) else { return delayed_charge.due() };
        if due > now {
            return due;
        }
        // Fixed places are kept: each must find its cost even if the head is admitted now.
        let mut fixed: SmallVec<[(Nanos, u64); 8]> = self.fixed().filter(|(due, _)| *due > now).collect();
        fixed.sort_unstable();
        let mut tokens = delayed_charge.tokens();
        for (at, more) in fixed {
            tokens += more;
            if due_of(tokens).is_some_and(|due| due > at) {
                return at;
            }
        }
        now
    }
}
