//! Following what others may change: live entries, and what is known about users.
//!
//! A carrier (the database, else the shared Redis) keeps it and gives every change a sequence. Each node remembers how far
//! it has read ([`FollowedPlace`]) and reads what came after. It looks at intervals, and at once when it is told that there
//! may be news: by PostgreSQL, or by another node.

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

    /// What is new after `seen`, and everything if the epoch is another one; `None` if nobody carries anything.
    fn page(
        &self,
        seen: LiveHead,
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
    head: LiveHead,
    /// When the carrier last answered, by the monotonic clock.
    answered: Option<Nanos>,
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
        let mut seen = self.start(now);
        // Filled anew if the epoch changes; put in place as a whole.
        let mut anew: Option<Vec<C::News>> = None;
        while let Some(page) = carried.page(seen).await? {
            if page.head.epoch != seen.epoch {
                anew = Some(Vec::new());
                seen = LiveHead { epoch: page.head.epoch, sequence: 0 };
            }
            seen.sequence = page.news.last().map_or(seen.sequence, C::sequence);
            if page.is_last {
                seen.sequence = seen.sequence.max(page.head.sequence);
            }
            match &mut anew {
                Some(all) => all.extend(page.news),
                None => carried.take(page.news).await,
            }
            if page.is_last
                && let Some(all) = anew.take()
            {
                carried.replace(all).await;
            }
            if anew.is_none() {
                self.set(SeenNews { head: seen, answered: Some(now) });
            }
            if page.is_last {
                break;
            }
        }
        Ok(())
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
    fn start(&self, now: Nanos) -> LiveHead {
        let SeenNews { head, answered } = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = answered.is_some_and(|answered| now.saturating_sub(answered) > TOO_LONG);
        if is_old { LiveHead::default() } else { head }
    }

    fn set(&self, seen: SeenNews) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
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
mod tests {
    use std::collections::BTreeMap;

    use futures_util::FutureExt;

    use super::*;

    /// A carrier that gives two changes at a time: of each name its sequence, or 0 if it was removed.
    #[derive(Default)]
    struct Names {
        head: LiveHead,
        changes: Vec<(&'static str, u64, bool)>,
        is_away: bool,
        known: Mutex<BTreeMap<&'static str, u64>>,
        pages: Mutex<u32>,
    }

    impl Names {
        fn change(&mut self, name: &'static str, is_there: bool) {
            self.head.sequence += 1;
            self.changes.retain(|(known, ..)| *known != name);
            self.changes.push((name, self.head.sequence, is_there));
        }

        fn known(&self) -> Vec<&'static str> {
            self.known.lock().unwrap().keys().copied().collect()
        }

        fn pages(&self) -> u32 {
            std::mem::take(&mut self.pages.lock().unwrap())
        }
    }

    impl Carried for Names {
        type News = (&'static str, u64, bool);
        type Error = &'static str;

        fn sequence(news: &Self::News) -> u64 {
            news.1
        }

        async fn page(&self, seen: LiveHead) -> Result<Option<CarriedPage<Self::News>>, Self::Error> {
            if self.is_away {
                return Err("away");
            }
            *self.pages.lock().unwrap() += 1;
            let after = if seen.epoch == self.head.epoch { seen.sequence } else { 0 };
            let news: Vec<_> =
                self.changes.iter().filter(|(_, sequence, _)| *sequence > after).take(2).copied().collect();
            Ok(Some(CarriedPage { head: self.head, is_last: news.len() < 2, news }))
        }

        async fn take(&self, news: Vec<Self::News>) {
            let mut known = self.known.lock().unwrap();
            for (name, sequence, is_there) in news {
                let _before = if is_there { known.insert(name, sequence) } else { known.remove(name) };
            }
        }

        async fn replace(&self, all: Vec<Self::News>) {
            let there = all.into_iter().filter(|(.., is_there)| *is_there);
            *self.known.lock().unwrap() = there.map(|(name, sequence, _)| (name, sequence)).collect();
        }
    }

    #[tokio::test]
    async fn what_is_new_is_read_page_by_page_and_everything_of_another_epoch() {
        let (place, at) = (FollowedPlace::default(), Nanos::from_secs);
        let mut names = Names { head: LiveHead { epoch: 7, sequence: 0 }, is_away: true, ..Names::default() };
        assert_eq!(place.read(&names, at(1)).await, Err("away"));
        names.is_away = false;
        ["a", "b", "c", "d", "e"].into_iter().for_each(|name| names.change(name, true));
        place.read(&names, at(1)).await.unwrap();
        assert_eq!((names.known(), names.pages()), (vec!["a", "b", "c", "d", "e"], 3));
        names.change("b", false);
        place.read(&names, at(2)).await.unwrap();
        assert_eq!((names.known(), names.pages()), (vec!["a", "c", "d", "e"], 1));
        // Another epoch: what is not there any more is gone, though nobody has removed it.
        names.head.epoch = 8;
        names.changes.retain(|(name, ..)| *name != "a");
        place.read(&names, at(3)).await.unwrap();
        assert_eq!((names.known(), names.pages()), (vec!["c", "d", "e"], 3));
        // What was removed is forgotten by the carrier after a while.
        names.changes.retain(|(name, ..)| *name != "c");
        place.read(&names, at(3 + 30 * 60)).await.unwrap();
        assert_eq!(names.known(), ["c", "d", "e"]);
        place.read(&names, at(4 + 60 * 60)).await.unwrap();
        assert_eq!(names.known(), ["d", "e"]);
    }

    #[tokio::test]
    async fn the_start_waits_for_a_first_reading_but_not_for_a_carrier_that_is_away() {
        let is_over = |place: &FollowedPlace| place.loaded().now_or_never().is_some();
        let mut names = Names { is_away: true, ..Names::default() };
        let (away, back) = (FollowedPlace::default(), FollowedPlace::default());
        for _ in 0..3 {
            assert!(!is_over(&away) && !away.is_loaded());
            assert_eq!(away.read(&names, Nanos::ZERO).await, Err("away"));
        }
        assert!(is_over(&away) && !away.is_loaded());
        // Once is no reason to begin without it.
        assert_eq!(back.read(&names, Nanos::ZERO).await, Err("away"));
        names.is_away = false;
        back.read(&names, Nanos::ZERO).await.unwrap();
        assert!(!is_over(&back), "it is not in force yet");
        back.note_loaded();
        assert!(is_over(&back) && back.is_loaded());
        names.is_away = true;
        assert_eq!(back.read(&names, Nanos::ZERO).await, Err("away"));
        assert!(back.is_loaded());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_up_ends_the_wait() {
        let place = FollowedPlace::default();
        let waited = async || {
            let before = tokio::time::Instant::now();
            place.wait(None, WakeTopic::Trust).await;
            before.elapsed()
        };
        assert!(waited().await >= POLL_PAUSE);
        // Those that came before count too, as one.
        (0..3).for_each(|_| place.wake());
        assert!(waited().await < POLL_PAUSE);
        assert!(waited().await >= POLL_PAUSE);
    }
}
