//! What has to be done beside deciding: the beat, renewals of leases, and charges that are handed back later.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tidegate::{Charge, Nanos, OwnedCharge, Role, Sleep};
use tokio::sync::Notify;

use crate::breaker::PROBE_EVERY;

/// How many hand-backs wait at most, and how many renewals. One more is dropped: then less is admitted, never
/// more.
const WAITING_MAX: usize = 4_096;

/// How many chores are under way at once.
const HANDS: usize = 8;

/// How many renewals go into one call.
const RENEWALS_AT_ONCE: usize = 32;

/// How often the others are told that this node is alive.
pub(crate) const BEAT_EVERY: Nanos = Nanos::from_secs(1);

/// How often to look whether a beat is due.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// A charge to be made by itself, whatever it was part of.
pub(crate) fn by_itself(charge: &Charge<'_>) -> OwnedCharge {
    OwnedCharge { role: Role::Binding, ..OwnedCharge::from(charge) }
}

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum MaintenanceTask {
    /// Hand these back; they were charged at that instant of the server's clock.
    HandBack { charges: Vec<OwnedCharge>, at: Nanos },
    /// Renew the leases of these buckets, if that is still wanted.
    Renew(Vec<OwnedCharge>),
}

/// What waits to be done.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceBacklog {
    waiting: Mutex<Waiting>,
    added: Notify,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    hand_backs: VecDeque<(Vec<OwnedCharge>, Nanos)>,
    renewals: VecDeque<OwnedCharge>,
}

impl MaintenanceBacklog {
    /// Nothing to do.
    pub(crate) fn new() -> MaintenanceBacklog {
        MaintenanceBacklog::default()
    }

    /// To be handed back; the charges were made at `at` of the server's clock. Says whether there was room.
    pub(crate) fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) -> bool {
        let owned = charges.iter().map(by_itself).collect();
        self.add(|waiting| push(&mut waiting.hand_backs, (owned, at)))
    }

    /// A lease to be renewed. Says whether there was room.
    pub(crate) fn renew(&self, charge: &Charge<'_>) -> bool {
        let owned = by_itself(charge);
        self.add(|waiting| push(&mut waiting.renewals, owned))
    }

    /// How many chores were dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The next thing to do, if there is one. Renewals come first, since somebody may be waiting for them.
    pub(crate) fn take(&self) -> Option<MaintenanceTask> {
        let mut waiting = self.waiting();
        let chore = if waiting.renewals.is_empty() {
            waiting.hand_backs.pop_front().map(|(charges, at)| MaintenanceTask::HandBack { charges, at })
        } else {
            let some = waiting.renewals.len().min(RENEWALS_AT_ONCE);
            Some(MaintenanceTask::Renew(waiting.renewals.drain(..some).collect()))
        };
        if !waiting.renewals.is_empty() || !waiting.hand_backs.is_empty() {
            // One notice may stand for several chores: the next hand is woken by this one.
            self.added.notify_one();
        }
        chore
    }

    fn add(&self, put: impl FnOnce(&mut Waiting) -> bool) -> bool {
        let added = put(&mut self.waiting());
        if added {
            self.added.notify_one();
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        added
    }

    async fn next(&self) -> MaintenanceTask {
        loop {
            if let Some(chore) = self.take() {
                return chore;
            }
            self.added.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) -> bool {
    let room = queue.len() < WAITING_MAX;
    if room {
        queue.push_back(item);
    }
    room
}

/// Who does the chores: the store.
pub(crate) trait MaintenanceRunner: Sync {
    /// Tells the server that this node is alive, which also probes it.
    fn beat(&self) -> impl Future<Output = ()> + Send;

    /// Does one thing. Failing is no harm.
    fn act(&self, chore: MaintenanceTask) -> impl Future<Output = ()> + Send;

    /// Is the server held to be failing, so that it wants probes?
    fn is_failing(&self) -> bool;
}

/// Does what there is to do, several things at once, and beats. Never ends.
pub(crate) async fn tend<H: MaintenanceRunner, C: Sleep>(hands: &H, chores: &MaintenanceBacklog, clock: &C) {
    let mut all: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = vec![Box::pin(beat(hands, clock))];
    all.extend((0..HANDS).map(|_| Box::pin(work(hands, chores)) as Pin<Box<dyn Future<Output = ()> + Send>>));
    join_all(all).await;
}

async fn work<H: MaintenanceRunner>(hands: &H, chores: &MaintenanceBacklog) {
    loop {
        hands.act(chores.next().await).await;
    }
}

async fn beat<H: MaintenanceRunner, C: Sleep>(hands: &H, clock: &C) {
    loop {
        let last = clock.now();
        hands.beat().await;
        loop {
            clock.sleep(LOOK_EVERY).await;
            let every = if hands.is_failing() { PROBE_EVERY } else { BEAT_EVERY };
            if clock.now().saturating_sub(last) >= every {
                break;
            }
        }
    }
}

/// How many nodes there are: the most of the last three answers, so that a beat that was late makes nobody's
/// share larger.
#[derive(Debug)]
pub(crate) struct NodeCount {
    recent: Mutex<[u32; 3]>,
    most: AtomicU32,
}

impl NodeCount {
    /// As far as anybody knows, only this one.
    pub(crate) fn new() -> NodeCount {
        NodeCount { recent: Mutex::new([1; 3]), most: AtomicU32::new(1) }
    }

    /// The server has counted so many.
    pub(crate) fn note(&self, nodes: u32) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.rotate_right(1);
        recent[0] = nodes.max(1);
        let most = recent.iter().copied().max().unwrap_or(1);
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
