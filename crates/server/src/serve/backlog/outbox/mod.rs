//! Answers of one connection that are made and that its client has not taken.
//!
//! They take a share of what there is for all connections. It is looked at in bulk: an answer that leaves at once
//! costs nothing here, and the first [`ANSWERS_FREE_BYTES`] of a connection are not counted.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use tokio::sync::Notify;

use crate::bounds::budget::{BudgetAccount, BudgetShare};
use crate::bounds::{
    ANSWERS_BYTES_MAX, ANSWERS_FREE_BYTES, ANSWERS_PER_CONNECTION_BYTES_MAX, TAKE_BYTES_MIN, TAKE_TIMEOUT,
};

/// Shares grow by so much at once where answers are counted one by one.
const GRAIN: usize = 64 * 1_024;
/// What a stream must let through of an answer, each time: many of them share a connection.
const STREAM_TAKE_BYTES_MIN: usize = TAKE_BYTES_MIN / 16;
/// How often it is looked whether HTTP/2 streams get on.
const LOOK_INTERVAL: std::time::Duration = TAKE_TIMEOUT.checked_div(2).expect("it is not divided by zero");

/// There is no room for more answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "answers that clients have not taken use up what there is for them ({} MiB, and a part of it for one address); \
     read your answers, and ask again in a moment",
    ANSWERS_BYTES_MAX >> 20
)]
pub(crate) struct OutboxFull;

/// What is unsent on one connection. Its tasks run on one thread; the atomics only let them share it.
#[derive(Debug)]
pub(crate) struct Outbox {
    held: AtomicUsize,
    /// The bytes of the share, for who only wants to compare.
    granted: AtomicUsize,
    share: Mutex<BudgetShare>,
    waiting: AtomicUsize,
    room: Notify,
    ages: Ages,
}

impl Outbox {
    pub(crate) fn new(account: &BudgetAccount) -> Arc<Outbox> {
        Arc::new(Outbox {
            held: AtomicUsize::new(0),
            granted: AtomicUsize::new(0),
            share: Mutex::new(account.share()),
            waiting: AtomicUsize::new(0),
            room: Notify::new(),
            ages: Ages::default(),
        })
    }

    /// Waits until the client has taken so much that one more answer may be made.
    ///
    /// # Errors
    /// When there is no room on any connection of its address, or on none at all.
    pub(crate) async fn room(&self) -> Result<(), OutboxFull> {
        while self.is_full() {
            let waiting = Waiting::new(self);
            let room = self.room.notified();
            if self.is_full() {
                room.await;
            }
            drop(waiting);
        }
        self.has_share()
    }

    /// Has the client left too much untaken?
    pub(crate) fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= ANSWERS_PER_CONNECTION_BYTES_MAX
    }

    /// May one more answer be made, as far as all connections together are concerned?
    pub(crate) fn has_share(&self) -> Result<(), OutboxFull> {
        let held = self.held.load(Ordering::Relaxed);
        if held < ANSWERS_FREE_BYTES + self.granted.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.with_share(|share| share.grow_to(share.bytes() + GRAIN)) {
            true => Ok(()),
            false => Err(OutboxFull),
        }
    }

    /// So many bytes wait to be written, in all: for connections that answer one request after the other.
    ///
    /// # Errors
    /// When there is no room for them; the connection is to be given up.
    pub(crate) fn set_backlog(&self, bytes: usize) -> Result<(), OutboxFull> {
        self.held.store(bytes, Ordering::Relaxed);
        let counted = bytes.saturating_sub(ANSWERS_FREE_BYTES);
        if counted != self.granted.load(Ordering::Relaxed) && !self.with_share(|share| share.set_to(counted))
        {
            return Err(OutboxFull);
        }
        self.notify();
        Ok(())
    }

    /// An answer that counts until it is sent: for connections with many at once.
    pub(crate) fn hold(self: &Arc<Self>, bytes: Bytes) -> CountedBytes {
        let held = self.held.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let counted = held.saturating_sub(ANSWERS_FREE_BYTES);
        if counted > self.granted.load(Ordering::Relaxed) {
            self.with_share(|share| {
                // Where there is no room for more than is there already, the next answer is refused.
                if !share.grow_to(counted.next_multiple_of(GRAIN)) {
                    share.force_to(counted);
                }
            });
        }
        let counted = Counted { size: bytes.len(), taken: 0, open: self.open() };
        CountedBytes { bytes, counted: Some(counted) }
    }

    fn open(self: &Arc<Self>) -> Open {
        Open { since: self.ages.begin(), outbox: Arc::clone(self) }
    }

    /// Resolves when the client has left an answer untaken for too long.
    pub(crate) async fn stalled(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if self.ages.look() {
                return;
            }
        }
    }

    fn release(&self, bytes: usize) {
        let held = self.held.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if held <= ANSWERS_FREE_BYTES && self.granted.load(Ordering::Relaxed) > 0 {
            self.with_share(|share| share.force_to(0));
        }
        self.notify();
    }

    fn notify(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 && !self.is_full() {
            self.room.notify_waiters();
        }
    }

    fn with_share<T>(&self, change: impl FnOnce(&mut BudgetShare) -> T) -> T {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut share);
        self.granted.store(share.bytes(), Ordering::Relaxed);
        changed
    }
}

/// Somebody waits for room.
struct Waiting<'o>(&'o Outbox);

impl<'o> Waiting<'o> {
    fn new(outbox: &'o Outbox) -> Waiting<'o> {
        outbox.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(outbox)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many answers have last got on in which of the last few periods. Nothing is kept for each of them.
#[derive(Debug, Default)]
struct Ages {
    now: AtomicU32,
    open: [AtomicUsize; 4],
}

impl Ages {
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

    /// A period has passed. Is there an answer that has not got on for two whole ones?
    fn look(&self) -> bool {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        self.at(now.wrapping_sub(2)).load(Ordering::Relaxed) > 0
    }
}

/// An answer that is held, and since when its client has taken none of it.
#[derive(Debug)]
struct Open {
    outbox: Arc<Outbox>,
    since: u32,
}

impl Open {
    fn got_on(&mut self) {
        let now = self.outbox.ages.begin();
        self.outbox.ages.end(self.since);
        self.since = now;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.outbox.ages.end(self.since);
    }
}

/// Bytes of an answer. While a library holds them in its buffers, they count.
#[derive(Debug, Default)]
pub(crate) struct CountedBytes {
    bytes: Bytes,
    counted: Option<Counted>,
}

#[derive(Debug)]
struct Counted {
    size: usize,
    /// Since it last got on.
    taken: usize,
    open: Open,
}

impl CountedBytes {
    /// Bytes that are counted elsewhere.
    pub(crate) fn uncounted(bytes: Bytes) -> CountedBytes {
        CountedBytes { bytes, counted: None }
    }

    /// From now on they count.
    pub(crate) fn count(&mut self, outbox: &Arc<Outbox>) {
        if self.counted.is_none() && !self.bytes.is_empty() {
            *self = outbox.hold(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.outbox.release(self.size);
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
            counted.taken += count;
            // A window that is opened byte by byte is no progress.
            if counted.taken >= STREAM_TAKE_BYTES_MIN {
                counted.taken = 0;
                counted.open.got_on();
            }
        }
    }
}

#[cfg(test)]
mod tests;
