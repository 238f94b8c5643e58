//! The responses of one connection that its client has not read.
//!
//! Their bytes count against a limit per connection and against a budget for all connections. The budget's lock is
//! taken seldom: a response that is sent at once does not touch it, the first [`BACKLOG_FREE_BYTES`] of a connection
//! are free, and beyond them a share grows in steps.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use tokio::sync::Notify;

use crate::bounds::budget::{BudgetAccount, BudgetShare};
use crate::bounds::{
    BACKLOG_BYTES_MAX, BACKLOG_FREE_BYTES, BACKLOG_PER_CONNECTION_BYTES_MAX, CLIENT_READ_BYTES_MIN,
    CLIENT_READ_TIMEOUT,
};

/// A share grows in steps of this size on connections that count responses one by one (HTTP/2 and gRPC).
const SHARE_STEP_BYTES: usize = 64 * 1_024;
/// The least bytes of a response that an HTTP/2 stream must send per period. It is less than for a connection, because
/// many streams share one.
const STREAM_READ_BYTES_MIN: usize = CLIENT_READ_BYTES_MIN / 16;
/// How often HTTP/2 streams are checked for progress.
const CHECK_INTERVAL: std::time::Duration = CLIENT_READ_TIMEOUT.checked_div(2).expect("2 is not 0");

/// The budget for unread responses is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "responses that clients have not read use up the memory set aside for them ({} MiB in all, a part of it for one \
     address); read your responses, then send the request again",
    BACKLOG_BYTES_MAX >> 20
)]
pub(crate) struct BacklogFull;

/// The unread responses of one connection. Only tasks of one thread use it; the atomics make it shareable between them.
#[derive(Debug)]
pub(crate) struct ResponseBacklog {
    /// Bytes of all unread responses.
    unread: AtomicUsize,
    /// A copy of the share's size, to compare without the lock.
    granted: AtomicUsize,
    share: Mutex<BudgetShare>,
    /// How many tasks wait for capacity.
    waiting: AtomicUsize,
    capacity_freed: Notify,
    periods: ProgressPeriods,
}

impl ResponseBacklog {
    pub(crate) fn new(account: &BudgetAccount) -> Arc<ResponseBacklog> {
        Arc::new(ResponseBacklog {
            unread: AtomicUsize::new(0),
            granted: AtomicUsize::new(0),
            share: Mutex::new(account.share()),
            waiting: AtomicUsize::new(0),
            capacity_freed: Notify::new(),
            periods: ProgressPeriods::default(),
        })
    }

    /// Waits until the client has read enough for one more response.
    ///
    /// # Errors
    /// If the budget of its address, or of all connections, is used up.
    pub(crate) async fn wait_for_capacity(&self) -> Result<(), BacklogFull> {
        while self.is_full() {
            let waiter = Waiter::new(self);
            let freed = self.capacity_freed.notified();
            if self.is_full() {
                freed.await;
            }
            drop(waiter);
        }
        self.check_budget()
    }

    /// Has the connection reached its limit of unread bytes?
    pub(crate) fn is_full(&self) -> bool {
        self.unread.load(Ordering::Relaxed) >= BACKLOG_PER_CONNECTION_BYTES_MAX
    }

    /// Checks that the budget of all connections has capacity for one more response.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn check_budget(&self) -> Result<(), BacklogFull> {
        let unread = self.unread.load(Ordering::Relaxed);
        if unread < BACKLOG_FREE_BYTES + self.granted.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.with_share(|share| share.grow_to(share.bytes() + SHARE_STEP_BYTES)) {
            true => Ok(()),
            false => Err(BacklogFull),
        }
    }

    /// Sets how many bytes in all wait to be written. For connections that answer one request after the other
    /// (HTTP/1.1 and RESP).
    ///
    /// # Errors
    /// If they exceed the budget; the connection must then be closed.
    pub(crate) fn set_unsent(&self, bytes: usize) -> Result<(), BacklogFull> {
        self.unread.store(bytes, Ordering::Relaxed);
        let counted = bytes.saturating_sub(BACKLOG_FREE_BYTES);
        if counted != self.granted.load(Ordering::Relaxed) && !self.with_share(|share| share.set_to(counted))
        {
            return Err(BacklogFull);
        }
        self.notify();
        Ok(())
    }

    /// Counts a response until it is sent. For connections with many responses at once (HTTP/2 and gRPC).
    pub(crate) fn count_until_sent(self: &Arc<Self>, bytes: Bytes) -> CountedBytes {
        let unread = self.unread.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let counted = unread.saturating_sub(BACKLOG_FREE_BYTES);
        if counted > self.granted.load(Ordering::Relaxed) {
            self.with_share(|share| {
                // This response exists already, so it is counted even beyond the budget; the next one is refused.
                if !share.grow_to(counted.next_multiple_of(SHARE_STEP_BYTES)) {
                    share.force_to(counted);
                }
            });
        }
        let counted = Counted { size: bytes.len(), sent: 0, open: self.open() };
        CountedBytes { bytes, counted: Some(counted) }
    }

    fn open(self: &Arc<Self>) -> OpenResponse {
        OpenResponse { since: self.periods.begin(), backlog: Arc::clone(self) }
    }

    /// Resolves when the client has not read a response for too long.
    pub(crate) async fn stalled(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if self.periods.end_period() {
                return;
            }
        }
    }

    fn release(&self, bytes: usize) {
        let unread = self.unread.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if unread <= BACKLOG_FREE_BYTES && self.granted.load(Ordering::Relaxed) > 0 {
            self.with_share(|share| share.force_to(0));
        }
        self.notify();
    }

    fn notify(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 && !self.is_full() {
            self.capacity_freed.notify_waiters();
        }
    }

    fn with_share<T>(&self, change: impl FnOnce(&mut BudgetShare) -> T) -> T {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut share);
        self.granted.store(share.bytes(), Ordering::Relaxed);
        changed
    }
}

/// Counts a task that waits for capacity, until dropped.
struct Waiter<'o>(&'o ResponseBacklog);

impl<'o> Waiter<'o> {
    fn new(backlog: &'o ResponseBacklog) -> Waiter<'o> {
        backlog.waiting.fetch_add(1, Ordering::Relaxed);
        Waiter(backlog)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// For each of the last few periods of [`CHECK_INTERVAL`], how many open responses made their last progress in it. So
/// a stalled response is found without keeping a timer for each.
#[derive(Debug, Default)]
struct ProgressPeriods {
    now: AtomicU32,
    open: [AtomicUsize; 4],
}

impl ProgressPeriods {
    fn at(&self, period: u32) -> &AtomicUsize {
        &self.open[period as usize % self.open.len()]
    }

    fn begin(&self) -> u32 {
        let now = self.now.load(Ordering::Relaxed);
        self.at(now).fetch_add(1, Ordering::Relaxed);
        now
    }

    fn end(&self, since: u32) {
        self.at(since).fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the current period. Is there a response without progress for two whole periods?
    fn end_period(&self) -> bool {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        self.at(now.wrapping_sub(2)).load(Ordering::Relaxed) > 0
    }
}

/// An unread response, and the period of its last progress.
#[derive(Debug)]
struct OpenResponse {
    backlog: Arc<ResponseBacklog>,
    since: u32,
}

impl OpenResponse {
    fn made_progress(&mut self) {
        let now = self.backlog.periods.begin();
        self.backlog.periods.end(self.since);
        self.since = now;
    }
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        self.backlog.periods.end(self.since);
    }
}

/// Bytes of a response. They count against the backlog for as long as hyper or `h2` holds them in its buffers.
#[derive(Debug, Default)]
pub(crate) struct CountedBytes {
    bytes: Bytes,
    counted: Option<Counted>,
}

#[derive(Debug)]
struct Counted {
    size: usize,
    /// Bytes sent since it last made progress.
    sent: usize,
    open: OpenResponse,
}

impl CountedBytes {
    /// Bytes that do not count here.
    pub(crate) fn uncounted(bytes: Bytes) -> CountedBytes {
        CountedBytes { bytes, counted: None }
    }

    /// Counts them from now on.
    pub(crate) fn count(&mut self, backlog: &Arc<ResponseBacklog>) {
        if self.counted.is_none() && !self.bytes.is_empty() {
            *self = backlog.count_until_sent(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.backlog.release(self.size);
    }
}

impl Buf for CountedBytes {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(counted) = &mut self.counted {
            counted.sent += count;
            // A client that opens its flow-control window byte by byte makes no progress.
            if counted.sent >= STREAM_READ_BYTES_MIN {
                counted.sent = 0;
                counted.open.made_progress();
            }
        }
    }
}

#[cfg(test)]
mod tests;
