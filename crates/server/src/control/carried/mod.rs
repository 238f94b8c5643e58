//! Following what others may change: live entries, and what is known about users.
//!
//! A carrier (the database, else the shared Redis) keeps it and gives every change a sequence. Each node remembers how far
//! it has read ([`FollowedPlace`]) and reads what came after. It looks at intervals, and at once when it is told that there
//! may be news: by PostgreSQL, or by another node.
//!
//! A carrier may go back: Redis starts with an older file, a replica takes over that has not everything, a backup is restored.
//! It then does not know the head that the node has seen, and everything is read anew.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate::Nanos;
use tidegate_database::LiveHead;
use tidegate_redis::{WakeTopic, WakeUps};
use tokio::sync::{MutexGuard, Notify, watch};

/// How often the carrier is asked for its last sequence: one small read.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// How many readings in a row the start of a node waits for that fail: one that fails because the machine is busy is tried
/// again, and a carrier that is down does not delay the start for long.
const FIRST_READINGS: u32 = 3;

/// The pause after a wake-up, so that many of them do not become as many questions.
const WAKE_PAUSE: Duration = Duration::from_millis(10);

/// What was removed is kept by carriers for an hour; a node that heard nothing for this long reads everything anew.
const TOO_LONG: Nanos = Nanos::from_secs(30 * 60);

/// What is new, in the order in which it happened.
#[derive(Debug)]
pub(super) struct CarriedPage<N> {
    pub(super) head: LiveHead,
    pub(super) news: Vec<N>,
    /// Is it the beginning of everything? The carrier does not know the head that was seen.
    pub(super) is_anew: bool,
    /// Is there nothing after it?
    pub(super) is_last: bool,
}

/// What a carrier has, and what this node knows of it.
pub(super) trait Carried {
    /// Something that was added, changed or removed.
    type News: Send;
    /// Why the carrier does not answer.
    type Error: Send;

    fn sequence(news: &Self::News) -> u64;

    /// What comes after the sequence `after`, and everything if the carrier does not know the head that was seen; `None` if
    /// nobody carries anything.
    fn page(
        &self,
        seen: LiveHead,
        after: u64,
    ) -> impl Future<Output = Result<Option<CarriedPage<Self::News>>, Self::Error>> + Send;

    /// Adds what is new to what is known.
    fn take(&self, news: Vec<Self::News>) -> impl Future<Output = ()> + Send;

    /// Puts everything in the place of what is known: it was read for the first time, or the carrier has begun anew.
    fn replace(&self, all: Vec<Self::News>) -> impl Future<Output = ()> + Send;
}

/// How far this node has followed a carrier.
#[derive(Debug)]
pub(super) struct FollowedPlace {
    seen: Mutex<SeenNews>,
    /// Held by whoever reads from the carrier.
    turn: tokio::sync::Mutex<()>,
    /// There may be news.
    woken: Notify,
    first: watch::Sender<FirstReading>,
}

/// Has everything been read once, and is it in force?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstReading {
    /// Not yet, and so many attempts have failed.
    Pending {
        failed: u32,
    },
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct SeenNews {
    /// The head of the carrier when it last answered.
    head: LiveHead,
    /// The sequence of the last news that were taken.
    read: u64,
    /// When the carrier last answered, by the monotonic clock.
    answered: Option<Nanos>,
    /// Does the carrier not have what this node knows?
    is_doubted: bool,
}

impl Default for FollowedPlace {
    fn default() -> FollowedPlace {
        FollowedPlace {
            seen: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            woken: Notify::new(),
            first: watch::Sender::new(FirstReading::Pending { failed: 0 }),
        }
    }
}

impl FollowedPlace {
    /// Waits until nobody else reads or changes what is known.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// There may be news: look at once.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Waits until there may be news: the database or another node tells so, or some time has passed.
    pub(super) async fn wait(&self, wake_ups: Option<&WakeUps>, topic: WakeTopic) {
        let woken = async {
            match wake_ups {
                Some(wake_ups) => wake_ups.woken(topic).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(POLL_PAUSE) => {}
            // Many wake-ups are one question to the carrier.
            () = self.woken.notified() => tokio::time::sleep(WAKE_PAUSE).await,
            () = woken => tokio::time::sleep(WAKE_PAUSE).await,
        }
    }

    /// Reads what is new. The caller has the turn.
    pub(super) async fn read<C: Carried>(&self, carried: &C, now: Nanos) -> Result<(), C::Error> {
        let read = self.read_pages(carried, now).await;
        if read.is_err() {
            self.note_failed();
        }
        read
    }

    async fn read_pages<C: Carried>(&self, carried: &C, now: Nanos) -> Result<(), C::Error> {
        let SeenNews { mut head, mut read, is_doubted, .. } = self.start(now);
        // What is read from the beginning; put in place as a whole.
        let (mut anew, mut is_sure) = (is_doubted.then(Vec::<C::News>::new), false);
        while let Some(page) = carried.page(head, read).await? {
            if page.is_anew {
                (anew, read) = (Some(Vec::new()), 0);
            }
            head = page.head;
            read = page.news.last().map_or(read, C::sequence);
            if page.is_last {
                read = read.max(head.sequence);
            }
            match &mut anew {
                Some(all) => all.extend(page.news),
                None => carried.take(page.news).await,
            }
            if page.is_last
                && let Some(all) = anew.take()
            {
                carried.replace(all).await;
                is_sure = true;
            }
            if anew.is_none() {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                // A doubt from meanwhile stays.
                let is_doubted = seen.is_doubted && !is_sure;
                *seen = SeenNews { head, read, answered: Some(now), is_doubted };
            }
            if page.is_last {
                break;
            }
        }
        Ok(())
    }

    /// The carrier does not have what this node knows: the next time, everything is read anew.
    pub(super) fn doubt(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_doubted = true;
    }

    /// Notes that everything has been read once, and is in force.
    pub(super) fn note_loaded(&self) {
        self.first.send_replace(FirstReading::Done);
    }

    /// Notes that an attempt to read has failed; later ones than the first reading do not matter.
    fn note_failed(&self) {
        self.first.send_modify(|first| {
            if let FirstReading::Pending { failed } = first {
                *failed = failed.saturating_add(1);
            }
        });
    }

    /// Has everything been read once?
    pub(super) fn is_loaded(&self) -> bool {
        *self.first.borrow() == FirstReading::Done
    }

    /// Waits until everything has been read once, or the carrier does not answer.
    pub(super) async fn loaded(&self) {
        let mut first = self.first.subscribe();
        let is_over = |first: &FirstReading| match first {
            FirstReading::Pending { failed } => *failed >= FIRST_READINGS,
            FirstReading::Done => true,
        };
        // The sender lives as long as this.
        let _ended = first.wait_for(is_over).await;
    }

    /// From where to read.
    fn start(&self, now: Nanos) -> SeenNews {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = seen.answered.is_some_and(|answered| now.saturating_sub(answered) > TOO_LONG);
        if is_old || seen.is_doubted {
            return SeenNews { is_doubted: true, ..SeenNews::default() };
        }
        seen
    }
}

/// Tells in the log when something cannot be followed any more, and when it can again.
#[derive(Debug)]
pub(super) struct FollowLog {
    failing: &'static str,
    again: &'static str,
    is_failing: bool,
}

impl FollowLog {
    pub(super) fn new(failing: &'static str, again: &'static str) -> FollowLog {
        FollowLog { failing, again, is_failing: false }
    }

    pub(super) fn note<E: Display>(&mut self, result: Result<(), E>) {
        match (&result, self.is_failing) {
            (Err(error), false) => tracing::warn!(%error, "{}", self.failing),
            (Ok(()), true) => tracing::info!("{}", self.again),
            _ => {}
        }
        self.is_failing = result.is_err();
    }
}

#[cfg(test)]
mod tests;
