//! Wait queues: the requests that wait for a bucket. [`places`] takes places for a request, [`bucket_queue`]
//! has all places of one bucket, [`fair_queue`] the order in which waiting requests are admitted, and [`admit`]
//! waits.
//!
//! A request that a `queue` limit denies is charged ahead, as of the instant at which the bucket will hold its
//! cost, so that no other request can take these tokens. Its place is either held until that instant, or, for a
//! request that really waits, in a [`FairQueue`](fair_queue::FairQueue) of the bucket, which serves tenants
//! round-robin. Places are counted, to bound them. [`fair_queue`] has the argument why no more is admitted than
//! the bucket allows.

#[cfg(feature = "async")]
pub(super) mod admit;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only `async` can wait in a queue"))]
pub(super) mod bucket_queue;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only `async` can wait in a queue"))]
pub(super) mod fair_queue;
pub(super) mod places;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::Nanos;

use crate::{Intent, Store};
use bucket_queue::{BucketQueue, FairQueueKey, HeldPlace};
use fair_queue::{DelayedCharge, RemovedCharge, WaiterRank, WaiterTurn, Wakers};

/// Queues are distributed over this many locks.
const SHARDS: usize = 16;

/// The most buckets with waiting requests, in each shard.
const QUEUES_MAX: usize = 4_096;

/// The queues of all buckets for which requests wait.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    shards: [Mutex<Shard>; SHARDS],
    /// The number of waiters on buckets that the store paces.
    paced: AtomicUsize,
    /// Random in each process, so that a client cannot choose keys that share a queue or a shard.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    queues: HashMap<BucketQueueKey, BucketQueue>,
    /// Before this instant no queue of a full shard becomes empty.
    full_until: Nanos,
}

/// Identifies a bucket: a number for its limit, and a keyed hash of its key.
pub(crate) type BucketQueueKey = (u32, u64);

/// Identifies a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTicket {
    queue: BucketQueueKey,
    fair_queue: FairQueueKey,
    number: u64,
}

impl WaitQueues {
    /// The key of a bucket's queue. Two bucket keys with the same hash would share a queue: its depth, and its
    /// order, in which one request could be admitted with the other's charge. With 64 bits under a secret that
    /// does not happen, neither by chance nor on purpose.
    pub(crate) fn key_of(&self, limit: u32, key: &[u8]) -> BucketQueueKey {
        (limit, self.secret.hash_one(key))
    }

    /// Are all places taken?
    pub(crate) fn is_full(&self, queue: BucketQueueKey, max_depth: u32, now: Nanos) -> bool {
        let mut shard = self.shard(queue);
        shard.queues.get_mut(&queue).is_some_and(|queue| queue.depth(now) >= max_depth as usize)
    }

    /// Holds a place until `due`; `false` if `max_depth` places are taken.
    pub(crate) fn hold(&self, queue: BucketQueueKey, max_depth: u32, due: Nanos, now: Nanos) -> bool {
        let mut shard = self.shard(queue);
        if shard.queues.len() >= QUEUES_MAX && !shard.queues.contains_key(&queue) && !shard.sweep(now) {
            return false;
        }
        let queue = shard.queues.entry(queue).or_default();
        let has_space = queue.depth(now) < max_depth as usize;
        if has_space {
            queue.first = if queue.held.is_empty() { due } else { queue.first.min(due) };
            queue.held.push(HeldPlace::until(due));
        }
        has_space
    }

    /// Records in a place how many tokens were charged for it.
    pub(crate) fn record_tokens(&self, key: BucketQueueKey, place: HeldPlace, tokens: u64) -> HeldPlace {
        let mut shard = self.shard(key);
        let Some(queue) = shard.queues.get_mut(&key) else { return place };
        let recorded = HeldPlace { tokens, behind: queue.paced.last_ticket(), ..place };
        if let Some(held) = queue.held.iter_mut().find(|held| **held == place) {
            *held = recorded;
        }
        recorded
    }

    /// Gives up a place.
    pub(crate) fn release(&self, key: BucketQueueKey, place: HeldPlace) {
        let mut shard = self.shard(key);
        let Some(queue) = shard.queues.get_mut(&key) else { return };
        queue.remove_held(place);
        shard.remove_if_empty(key);
    }

    /// Replaces a place held until `due` by one in a fair queue.
    pub(crate) fn join(
        &self,
        key: BucketQueueKey,
        due: Nanos,
        rank: WaiterRank,
        delayed_charge: DelayedCharge,
        is_paced: bool,
    ) -> QueueTicket {
        let mut wakers = Wakers::new();
        let mut shard = self.shard(key);
        let queue = shard.queues.entry(key).or_default();
        queue.remove_held(HeldPlace::until(due));
        let fair_queue = queue.fair_queue_for(&delayed_charge, is_paced);
        if fair_queue.is_none() {
            self.paced.fetch_add(1, Ordering::Relaxed);
        }
        let number = queue.fair_queue(fair_queue).join(rank, delayed_charge, &mut wakers);
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
        QueueTicket { queue: key, fair_queue, number }
    }

    /// Does no request wait that a charge without delay could overtake?
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.paced.load(Ordering::Relaxed) == 0
    }

    /// Called before a bucket is charged as of `now`: discards what the bucket could not hold because waiting
    /// requests are late.
    pub(crate) fn discard_overflow<S: Store>(&self, key: BucketQueueKey, store: &S, now: Nanos) {
        if let Some(queue) = self.shard(key).queues.get_mut(&key) {
            queue.discard_overflow(store, now);
        }
    }

    /// Is it the waiter's turn at `now`?
    pub(crate) fn check_turn<S: Store>(&self, ticket: QueueTicket, store: &S, now: Nanos) -> WaiterTurn {
        let check_turn = |queue: &mut BucketQueue, wakers: &mut Wakers| {
            if ticket.fair_queue.is_none() {
                queue.discard_overflow(store, now);
            }
            if ticket.fair_queue.is_none()
                && let Some(due) = queue.due_without_pace(ticket.number, store, now)
            {
                return if due <= now { WaiterTurn::Now } else { WaiterTurn::Later(due) };
            }
            queue.fair_queue(ticket.fair_queue).put_back(ticket.number);
            let due = queue.due(ticket.fair_queue, store, now);
            let fair_queue = queue.fair_queue(ticket.fair_queue);
            let turn = fair_queue.check_turn(ticket.number, due, now, wakers);
            if turn == WaiterTurn::Now && ticket.fair_queue.is_some() && fair_queue.has_missed(now) {
                fair_queue.remove(ticket.number, RemovedCharge::First, false, wakers);
                return WaiterTurn::Missed;
            }
            turn
        };
        self.with_queue(ticket, check_turn).unwrap_or(WaiterTurn::Missed)
    }

    /// Registers the waker of a waiter; returns whether it was notified already.
    pub(crate) fn register_waker(&self, ticket: QueueTicket, waker: &Waker) -> bool {
        self.with_queue(ticket, |queue, _| {
            queue.fair_queue(ticket.fair_queue).register_waker(ticket.number, waker)
        })
        .unwrap_or(true)
    }

    /// Removes a waiter that is admitted at `now`, when it was its turn.
    pub(crate) fn admit<S: Store>(&self, ticket: QueueTicket, store: &S, now: Nanos) {
        self.with_queue(ticket, |queue, wakers| match ticket.fair_queue {
            Some(_) => {
                queue.fair_queue(ticket.fair_queue).remove(ticket.number, RemovedCharge::First, false, wakers)
            }
            None => {
                queue.discard_overflow(store, now);
                let gone = queue.paced.remove(ticket.number, RemovedCharge::Own, false, wakers);
                self.paced.fetch_sub(gone.iter().count(), Ordering::Relaxed);
                gone
            }
        });
    }

    /// Removes a waiter that gives up. Returns its delayed charge, if no waiter behind it needs that.
    pub(crate) fn give_up<S: Store>(
        &self,
        ticket: QueueTicket,
        store: &S,
        now: Nanos,
    ) -> Option<DelayedCharge> {
        let give_up = |queue: &mut BucketQueue, wakers: &mut Wakers| {
            if ticket.fair_queue.is_some() {
                return queue.fair_queue(ticket.fair_queue).remove(
                    ticket.number,
                    RemovedCharge::Last,
                    true,
                    wakers,
                );
            }
            queue.discard_overflow(store, now);
            let delayed_charge = queue.paced.remove(ticket.number, RemovedCharge::Own, true, wakers)?;
            self.paced.fetch_sub(1, Ordering::Relaxed);
            // A place with a fixed instant keeps it, and the state of the bucket cannot represent a gap before
            // it.
            if queue.held.iter().any(|held| held.tokens > 0 && held.behind >= ticket.number) {
                return None;
            }
            // The waiters behind move up, because they are paced by what is left. If the limit has been edited,
            // the tokens charged by the old numbers are lost: they are no longer at the instant for which they
            // were charged.
            let charge = delayed_charge.charge_of(delayed_charge.charge.cost);
            if store.pace(&charge, delayed_charge.tokens() + queue.all_delayed_tokens(), now).is_some() {
                // A store that paces waiters answers at once, so the refund is done when this returns.
                _ = store.charge(Intent::Refund, &[charge], now);
            }
            None
        };
        self.with_queue(ticket, give_up).flatten()
    }

    /// Calls `act` with a queue, and wakes the notified waiters once the lock is released.
    fn with_queue<R>(
        &self,
        ticket: QueueTicket,
        act: impl FnOnce(&mut BucketQueue, &mut Wakers) -> R,
    ) -> Option<R> {
        let mut wakers = Wakers::new();
        let mut shard = self.shard(ticket.queue);
        let result = act(shard.queues.get_mut(&ticket.queue)?, &mut wakers);
        shard.remove_if_empty(ticket.queue);
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
        Some(result)
    }

    fn shard(&self, queue: BucketQueueKey) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(queue.1 % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn remove_if_empty(&mut self, key: BucketQueueKey) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        queue.by_cost.retain(|(_, fair_queue)| fair_queue.waiting() > 0);
        if queue.held.is_empty() && queue.waiting() == 0 {
            self.queues.remove(&key);
            self.full_until = Nanos::ZERO;
        }
    }

    /// Removes empty queues; returns whether there is space for another. A full shard is scanned again only
    /// when one of its queues may have become empty.
    fn sweep(&mut self, now: Nanos) -> bool {
        if now < self.full_until {
            return false;
        }
        self.queues.retain(|_, queue| queue.last() > now);
        self.full_until = self.queues.values().map(BucketQueue::last).min().unwrap_or_default();
        self.queues.len() < QUEUES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_free() {
        let queues = WaitQueues::default();
        let (queue, at) = (queues.key_of(1, b"alice"), Nanos::from_secs);
        assert!(queues.hold(queue, 2, at(5), at(1)));
        assert!(queues.hold(queue, 2, at(6), at(1)));
        assert!(!queues.hold(queue, 2, at(7), at(1)), "two places");
        assert!(queues.hold(queues.key_of(1, b"bob"), 2, at(7), at(1)), "of each bucket");
        assert!(queues.hold(queue, 2, at(7), at(5)), "the first has been served");
        queues.release(queue, HeldPlace::until(at(6)));
        assert!(queues.hold(queue, 2, at(8), at(5)), "one has gone away");
        assert!(!queues.hold(queue, 2, at(9), at(5)));
    }

    #[test]
    fn who_shares_a_room_cannot_be_foreseen() {
        let queue = |queues: &WaitQueues| queues.key_of(1, b"alice");
        let queues: [WaitQueues; 2] = Default::default();
        assert_eq!(queue(&queues[0]), queue(&queues[0]));
        assert_ne!(queue(&queues[0]), queue(&queues[1]), "each has a secret of its own");
    }
}
