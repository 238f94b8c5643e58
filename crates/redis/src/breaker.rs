//! When to stop asking a server that fails, and when to try again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;

/// So many failures in a row open it.
const IN_A_ROW: u32 = 5;

/// So do failures of half the calls within [`WINDOW`], if there are at least so many calls.
const ENOUGH_CALLS: u64 = 10;
const WINDOW: Nanos = Nanos::from_secs(1);

/// How often an open breaker wants a probe.
pub(crate) const PROBE_EVERY: Nanos = Nanos::from_millis(500);

/// After so long without any outcome an open breaker lets one call through, should nobody probe.
const UNPROBED: Nanos = Nanos::from_secs(1);

/// Stops calls to a server that fails, so that nobody waits for what will not come.
///
/// Closed, it lets everything through, at the price of one load. Open, it lets nothing through; whoever tends the
/// store probes, and the first success of whatever kind closes it.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    open: AtomicBool,
    failed_in_a_row: AtomicU32,
    successes: AtomicU64,
    record: Mutex<Record>,
}

/// What only failures and changes touch.
#[derive(Debug, Default)]
struct Record {
    /// Since when it is open or closed.
    since: Nanos,
    /// When a call last failed, or was let through an open breaker.
    touched: Nanos,
    /// The window begins with a failure.
    window_from: Nanos,
    successes_before: u64,
    failures: u64,
}

impl Breaker {
    /// A closed one.
    pub(crate) fn new(now: Nanos) -> Breaker {
        Breaker { record: Mutex::new(Record { since: now, ..Record::default() }), ..Breaker::default() }
    }

    /// May the server be asked?
    pub(crate) fn may_ask(&self, now: Nanos) -> bool {
        if !self.is_open() {
            return true;
        }
        let mut record = self.record();
        if now.saturating_sub(record.touched) < UNPROBED {
            return false;
        }
        record.touched = now;
        true
    }

    /// What [`Breaker::may_ask`] would say, without letting anything through.
    pub(crate) fn would_ask(&self, now: Nanos) -> bool {
        !self.is_open() || !self.touched_within(UNPROBED, now)
    }

    /// Has a call failed since, or been let through while it was open?
    pub(crate) fn touched_within(&self, time: Nanos, now: Nanos) -> bool {
        now.saturating_sub(self.record().touched) < time
    }

    /// The server has answered.
    pub(crate) fn succeeded(&self, now: Nanos) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        if self.failed_in_a_row.load(Ordering::Relaxed) != 0 {
            self.failed_in_a_row.store(0, Ordering::Relaxed);
        }
        if self.is_open() {
            let mut record = self.record();
            // Another success may have been faster.
            if self.open.swap(false, Ordering::AcqRel) {
                *record = Record { since: now, ..Record::default() };
            }
        }
    }

    /// The server has not answered, or not with sense.
    pub(crate) fn failed(&self, now: Nanos) {
        let in_a_row = self.failed_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut record = self.record();
        record.touched = now;
        let successes = self.successes.load(Ordering::Relaxed);
        if record.failures == 0 || now.saturating_sub(record.window_from) >= WINDOW {
            record.window_from = now;
            record.successes_before = successes;
            record.failures = 0;
        }
        record.failures += 1;
        let calls = successes.saturating_sub(record.successes_before) + record.failures;
        let half_failed = calls >= ENOUGH_CALLS && record.failures * 2 >= calls;
        if (in_a_row >= IN_A_ROW || half_failed) && !self.open.swap(true, Ordering::AcqRel) {
            record.since = now;
        }
    }

    /// Opens it: the server is known to be away.
    pub(crate) fn trip(&self, now: Nanos) {
        let mut record = self.record();
        record.touched = now;
        if !self.open.swap(true, Ordering::AcqRel) {
            record.since = now;
        }
    }

    /// Did the last call fail, so that it is better to look again soon?
    pub(crate) fn is_doubtful(&self) -> bool {
        self.failed_in_a_row.load(Ordering::Relaxed) > 0 || self.is_open()
    }

    /// Are calls held back?
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Since when it is as it is.
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
        assert!(breaker.may_ask(at(10)) && !breaker.is_open());
        assert_eq!(breaker.since(), at(7));

        breaker.failed(at(11));
        assert!(!breaker.may_ask(at(11)) && breaker.is_open());
        assert_eq!(breaker.since(), at(11));
    }

    #[test]
    fn it_can_be_opened_at_once() {
        let breaker = Breaker::new(at(0));
        assert!(!breaker.is_doubtful());
        breaker.trip(at(3));
        assert!(breaker.is_doubtful() && !breaker.may_ask(at(4)));
        assert_eq!(breaker.since(), at(3));
        breaker.succeeded(at(5));
        assert!(!breaker.is_doubtful() && breaker.may_ask(at(5)));
    }

    #[test]
    fn one_failure_makes_it_doubtful_and_one_success_not() {
        let breaker = Breaker::new(at(0));
        breaker.failed(at(1));
        assert!(breaker.is_doubtful() && !breaker.is_open());
        breaker.succeeded(at(2));
        assert!(!breaker.is_doubtful());
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
        assert!(breaker.may_ask(at(510)));
        assert_eq!(breaker.since(), at(510));

        (0..4).for_each(|_| breaker.failed(at(511)));
        assert!(!breaker.is_open());
    }

    #[test]
    fn while_it_is_open_nothing_is_asked_as_long_as_somebody_probes() {
        let breaker = opened_at(0);
        for probe in 1..20 {
            assert!(!breaker.may_ask(at(probe * 500 - 1)));
            breaker.failed(at(probe * 500));
        }
        assert_eq!(breaker.since(), at(0));
    }

    #[test]
    fn one_call_a_second_is_let_through_where_nobody_probes() {
        let breaker = opened_at(0);
        assert!(!breaker.may_ask(at(999)));
        assert!(breaker.may_ask(at(1_000)));
        assert!(!breaker.may_ask(at(1_000)), "one, not two");
        assert!(breaker.may_ask(at(2_000)));
    }

    #[test]
    fn a_clock_that_steps_back_does_no_harm() {
        let breaker = opened_at(5_000);
        assert!(!breaker.may_ask(at(1_000)));
        breaker.failed(at(1_000));
        assert!(breaker.may_ask(at(2_000)));
        breaker.succeeded(at(2_000));
        assert!(!breaker.is_open());
    }
}
