//! The background work of a store: heartbeats, lease renewals, and hand-backs of callers that did not wait for them.

mod guard;
mod tasks;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tidegate::{Charge, Nanos, OwnedCharge, Role, Sleep};
use tokio::sync::Notify;

use crate::failures::breaker::PROBE_EVERY;
use crate::store::StoreSide;

pub use guard::MaintenanceGuard;

/// The most hand-backs in the backlog, and the most renewals. One more is dropped, which is safe: it admits less, never
/// more.
const WAITING_MAX: usize = 4_096;

/// The most tasks of policies that are tried out in the backlog.
const BESIDE_MAX: usize = 1_024;

/// How many tasks run at the same time.
const WORKERS: usize = 8;

/// The most renewals in one call.
const RENEWALS_AT_ONCE: usize = 32;

/// How often this node sends a heartbeat.
pub(crate) const HEARTBEAT_EVERY: Nanos = Nanos::from_secs(1);

/// How often to check whether a heartbeat is due, and to send what burst detectors have counted.
const CHECK_EVERY: Nanos = Nanos::from_millis(100);

/// A charge that is sent by itself, apart from the request it belonged to; so it is binding.
pub(crate) fn standalone(charge: &Charge<'_>) -> OwnedCharge {
    OwnedCharge { role: Role::Binding, ..OwnedCharge::from(charge) }
}

/// A piece of background work.
#[derive(Clone, Debug)]
pub(crate) enum MaintenanceTask {
    /// Hand these charges back; they were made at `at` by the server's clock.
    HandBack { charges: Vec<OwnedCharge>, at: Nanos },
    /// Renew the leases of these buckets, if they still need it.
    Renew(Vec<OwnedCharge>),
}

/// The tasks that wait for a worker.
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
    /// The tasks of policies that are tried out: run after the others, and in calls of their own.
    beside: VecDeque<(Arc<StoreSide>, MaintenanceTask)>,
}

impl MaintenanceBacklog {
    /// An empty backlog.
    pub(crate) fn new() -> MaintenanceBacklog {
        MaintenanceBacklog::default()
    }

    /// Adds charges to hand back, made at `at` by the server's clock. `false` if the backlog is full.
    pub(crate) fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) -> bool {
        let owned = charges.iter().map(standalone).collect();
        self.add(|waiting| push(&mut waiting.hand_backs, (owned, at)))
    }

    /// Adds a lease to renew. `false` if the backlog is full.
    pub(crate) fn renew(&self, charge: &Charge<'_>) -> bool {
        let owned = standalone(charge);
        self.add(|waiting| push(&mut waiting.renewals, owned))
    }

    /// Adds charges of a policy that is tried out to hand back, if there is room.
    pub(crate) fn hand_back_beside(&self, side: &Arc<StoreSide>, charges: &[Charge<'_>], at: Nanos) {
        let charges = charges.iter().map(standalone).collect();
        self.add_beside((Arc::clone(side), MaintenanceTask::HandBack { charges, at }));
    }

    /// Adds a lease of a policy that is tried out to renew, if there is room.
    pub(crate) fn renew_beside(&self, side: &Arc<StoreSide>, charge: &Charge<'_>) {
        let charge = standalone(charge);
        {
            let mut waiting = self.waiting();
            if let Some((last, MaintenanceTask::Renew(buckets))) = waiting.beside.back_mut()
                && Arc::ptr_eq(last, side)
                && buckets.len() < RENEWALS_AT_ONCE
            {
                return buckets.push(charge);
            }
        }
        self.add_beside((Arc::clone(side), MaintenanceTask::Renew(vec![charge])));
    }

    /// One that is dropped changes nothing for the policy in force, so it is not counted.
    fn add_beside(&self, task: (Arc<StoreSide>, MaintenanceTask)) {
        let mut waiting = self.waiting();
        if waiting.beside.len() < BESIDE_MAX {
            waiting.beside.push_back(task);
            drop(waiting);
            self.added.notify_one();
        }
    }

    /// How many tasks were dropped because the backlog was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Removes the next task, and the policy that is tried out for which it is. Renewals come first: without them the next
    /// requests must call the server.
    pub(crate) fn take(&self) -> Option<(Option<Arc<StoreSide>>, MaintenanceTask)> {
        let mut waiting = self.waiting();
        let task = if waiting.renewals.is_empty() {
            waiting.hand_backs.pop_front().map(|(charges, at)| MaintenanceTask::HandBack { charges, at })
        } else {
            let some = waiting.renewals.len().min(RENEWALS_AT_ONCE);
            Some(MaintenanceTask::Renew(waiting.renewals.drain(..some).collect()))
        };
        let task = match task {
            Some(task) => Some((None, task)),
            None => waiting.beside.pop_front().map(|(side, task)| (Some(side), task)),
        };
        if !waiting.renewals.is_empty() || !waiting.hand_backs.is_empty() || !waiting.beside.is_empty() {
            // `Notify` stores one permit for several tasks, so each worker wakes the next.
            self.added.notify_one();
        }
        task
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

    async fn next(&self) -> (Option<Arc<StoreSide>>, MaintenanceTask) {
        loop {
            if let Some(task) = self.take() {
                return task;
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

/// Runs heartbeats and tasks; the store implements it.
pub(crate) trait MaintenanceRunner: Sync {
    /// Sends a heartbeat, which also probes the server.
    fn heartbeat(&self) -> impl Future<Output = ()> + Send;

    /// Runs one task, perhaps for a policy that is tried out. A task that fails is not retried.
    fn run_task(
        &self,
        beside: Option<Arc<StoreSide>>,
        task: MaintenanceTask,
    ) -> impl Future<Output = ()> + Send;

    /// Sends what burst detectors have counted since the last time.
    fn send_counts(&self) -> impl Future<Output = ()> + Send;

    /// Does the server fail, so that it must be probed?
    fn is_failing(&self) -> bool;
}

/// Runs the workers and the heartbeat loop. Never ends.
pub(crate) async fn run_maintenance<H: MaintenanceRunner, C: Sleep>(
    runner: &H,
    backlog: &MaintenanceBacklog,
    clock: &C,
) {
    let mut all: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> =
        vec![Box::pin(heartbeat_loop(runner, clock))];
    all.extend(
        (0..WORKERS)
            .map(|_| Box::pin(worker_loop(runner, backlog)) as Pin<Box<dyn Future<Output = ()> + Send>>),
    );
    join_all(all).await;
}

async fn worker_loop<H: MaintenanceRunner>(runner: &H, backlog: &MaintenanceBacklog) {
    loop {
        let (beside, task) = backlog.next().await;
        runner.run_task(beside, task).await;
    }
}

async fn heartbeat_loop<H: MaintenanceRunner, C: Sleep>(runner: &H, clock: &C) {
    loop {
        let last = clock.now();
        runner.heartbeat().await;
        loop {
            clock.sleep(CHECK_EVERY).await;
            runner.send_counts().await;
            let every = if runner.is_failing() { PROBE_EVERY } else { HEARTBEAT_EVERY };
            if clock.now().saturating_sub(last) >= every {
                break;
            }
        }
    }
}

/// The number of nodes: the largest of the last three answers. A node whose heartbeat is late once still counts, so
/// that the shares of the others do not grow.
#[derive(Debug)]
pub(crate) struct NodeCount {
    recent: Mutex<[u32; 3]>,
    most: AtomicU32,
}

impl NodeCount {
    /// Before the first answer: only this node.
    pub(crate) fn new() -> NodeCount {
        NodeCount { recent: Mutex::new([1; 3]), most: AtomicU32::new(1) }
    }

    /// Records an answer of the server.
    pub(crate) fn note(&self, nodes: u32) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.rotate_right(1);
        recent[0] = nodes.max(1);
        let most = recent.iter().copied().max().unwrap_or(1);
        self.most.store(most, Ordering::Relaxed);
    }

    /// The number of nodes that are alive.
    pub(crate) fn count(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
