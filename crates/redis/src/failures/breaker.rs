//! A circuit breaker: when to stop calling a server that fails, and when to try again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;

/// This many failures in a row open the breaker.
const FAILURES_IN_A_ROW: u32 = 5;

/// Failures of half the calls within [`WINDOW`] open it too, if there are at least this many calls.
const CALLS_MIN: u64 = 10;
const WINDOW: Nanos = Nanos::from_secs(1);

/// How often the server is probed while the breaker is open.
pub(crate) const PROBE_EVERY: Nanos = Nanos::from_millis(500);

/// An open breaker lets one call through after this long without any result, in case nothing probes the server.
const UNPROBED_FOR: Nanos = Nanos::from_secs(1);

/// Stops calls to a server that fails, so that no request waits for an answer that will not come.
///
/// Closed, it lets every call through, at the cost of one atomic load. Open, it lets none through; maintenance probes
/// the server with heartbeats, and the first success of any call closes it.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    open: AtomicBool,
    failed_in_a_row: AtomicU32,
    successes: AtomicU64,
    record: Mutex<Record>,
}

/// The part that only failures and state changes write.
#[derive(Debug, Default)]
struct Record {
    /// When it was last opened or closed.
    since: Nanos,
    /// When a call last failed, or was let through an open breaker.
    last_try: Nanos,
    /// When the window began: with its first failure.
    window_from: Nanos,
    successes_before: u64,
    failures: u64,
}

impl Breaker {
    /// A closed breaker.
    pub(crate) fn new(now: Nanos) -> Breaker {
        Breaker { record: Mutex::new(Record { since: now, ..Record::default() }), ..Breaker::default() }
    }

    /// May a call be sent? While open, one call is let through if the last try is long ago.
    pub(crate) fn allows_call(&self, now: Nanos) -> bool {
        if !self.is_open() {
            return true;
        }
        let mut record = self.record();
        if now.saturating_sub(record.last_try) < UNPROBED_FOR {
            return false;
        }
        record.last_try = now;
        true
    }

    /// The answer of [`Breaker::allows_call`], without letting a call through.
    pub(crate) fn would_allow_call(&self, now: Nanos) -> bool {
        !self.is_open() || !self.tried_within(UNPROBED_FOR, now)
    }

    /// Within `time`, has a call failed, or been let through the open breaker?
    pub(crate) fn tried_within(&self, time: Nanos, now: Nanos) -> bool {
        now.saturating_sub(self.record().last_try) < time
    }

    /// Records an answer.
    pub(crate) fn succeeded(&self, now: Nanos) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        if self.failed_in_a_row.load(Ordering::Relaxed) != 0 {
            self.failed_in_a_row.store(0, Ordering::Relaxed);
        }
        if self.is_open() {
            let mut record = self.record();
            // Another success may have closed it already.
            if self.open.swap(false, Ordering::AcqRel) {
                *record = Record { since: now, ..Record::default() };
            }
        }
    }

    /// Records a call without a usable answer.
    pub(crate) fn failed(&self, now: Nanos) {
        let in_a_row = self.failed_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut record = self.record();
        record.last_try = now;
        let successes = self.successes.load(Ordering::Relaxed);
        if record.failures == 0 || now.saturating_sub(record.window_from) >= WINDOW {
            record.window_from = now;
            record.successes_before = successes;
            record.failures = 0;
        }
        record.failures += 1;
        let calls = successes.saturating_sub(record.successes_before) + record.failures;
        let half_failed = calls >= CALLS_MIN && record.failures * 2 >= calls;
        if (in_a_row >= FAILURES_IN_A_ROW || half_failed) && !self.open.swap(true, Ordering::AcqRel) {
            record.since = now;
        }
    }

    /// Opens it at once: the server is known to be down.
    pub(crate) fn trip(&self, now: Nanos) {
        let mut record = self.record();
        record.last_try = now;
        if !self.open.swap(true, Ordering::AcqRel) {
            record.since = now;
        }
    }

    /// Did the last call fail, or is it open? Then the server is probed more often.
    pub(crate) fn needs_probe(&self) -> bool {
        self.failed_in_a_row.load(Ordering::Relaxed) > 0 || self.is_open()
    }

    /// Is it open?
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// When it was last opened or closed.
    pub(crate) fn since(&self) -> Nanos {
        self.record().since
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn opened_at(millis: u64) -> Breaker {
        let breaker = Breaker::new(at(0));
        (0..5).for_each(|_| breaker.failed(at(millis)));
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        let breaker = Breaker::new(at(7));
        (0..4).for_each(|_| breaker.failed(at(10)));
        assert!(breaker.allows_call(at(10)) && !breaker.is_open());
        assert_eq!(breaker.since(), at(7));

        breaker.failed(at(11));
        assert!(!breaker.allows_call(at(11)) && breaker.is_open());
        assert_eq!(breaker.since(), at(11));
    }

    #[test]
    fn it_can_be_opened_at_once() {
        let breaker = Breaker::new(at(0));
        assert!(!breaker.needs_probe());
        breaker.trip(at(3));
        assert!(breaker.needs_probe() && !breaker.allows_call(at(4)));
        assert_eq!(breaker.since(), at(3));
        breaker.succeeded(at(5));
        assert!(!breaker.needs_probe() && breaker.allows_call(at(5)));
    }

    #[test]
    fn one_failure_makes_it_doubtful_and_one_success_not() {
        let breaker = Breaker::new(at(0));
        breaker.failed(at(1));
        assert!(breaker.needs_probe() && !breaker.is_open());
        breaker.succeeded(at(2));
        assert!(!breaker.needs_probe());
    }

    #[test]
    fn a_success_ends_the_row() {
        let breaker = Breaker::new(at(0));
        for millis in (0..100).map(|n| n * 1_000) {
            (0..4).for_each(|_| breaker.failed(at(millis)));
            breaker.succeeded(at(millis));
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn half_of_ten_calls_within_a_second_open_it() {
        let breaker = Breaker::new(at(0));
        for n in 0..4 {
            breaker.failed(at(n));
            breaker.succeeded(at(n));
        }
        breaker.failed(at(5));
        assert!(!breaker.is_open(), "five of nine, but nine are too few");
        breaker.succeeded(at(6));
        breaker.failed(at(7));
        assert!(breaker.is_open());
    }

    #[test]
    fn a_few_failures_among_many_successes_do_not() {
        let breaker = Breaker::new(at(0));
        for n in 0..1_000 {
            breaker.succeeded(at(n));
            breaker.succeeded(at(n));
            breaker.failed(at(n));
            breaker.succeeded(at(n));
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn failures_of_another_second_are_forgotten() {
        let breaker = Breaker::new(at(0));
        for n in 0..20 {
            breaker.failed(at(n * 1_000));
            breaker.succeeded(at(n * 1_000));
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn the_first_success_closes_it_and_the_past_is_forgotten() {
        let breaker = opened_at(10);
        breaker.succeeded(at(510));
        assert!(breaker.allows_call(at(510)));
        assert_eq!(breaker.since(), at(510));

        (0..4).for_each(|_| breaker.failed(at(511)));
        assert!(!breaker.is_open());
    }

    #[test]
    fn while_it_is_open_nothing_is_asked_as_long_as_somebody_probes() {
        let breaker = opened_at(0);
        for probe in 1..20 {
            assert!(!breaker.allows_call(at(probe * 500 - 1)));
            breaker.failed(at(probe * 500));
        }
        assert_eq!(breaker.since(), at(0));
    }

    #[test]
    fn one_call_a_second_is_let_through_where_nobody_probes() {
        let breaker = opened_at(0);
        assert!(!breaker.allows_call(at(999)));
        assert!(breaker.allows_call(at(1_000)));
        assert!(!breaker.allows_call(at(1_000)), "one, not two");
        assert!(breaker.allows_call(at(2_000)));
    }

    #[test]
    fn a_clock_that_steps_back_does_no_harm() {
        let breaker = opened_at(5_000);
        assert!(!breaker.allows_call(at(1_000)));
        breaker.failed(at(1_000));
        assert!(breaker.allows_call(at(2_000)));
        breaker.succeeded(at(2_000));
        assert!(!breaker.is_open());
    }
}
