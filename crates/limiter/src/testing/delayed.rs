//! Delayed charges: places in a queue.

use super::bench::{Bench, START, at, bucket, ten_a_minute, ten_an_hour};
use super::{Charge, Harness};
use crate::{Cost, Intent, LimitDecision, LimitRef, Nanos};

impl<H: Harness> Bench<'_, H> {
    fn take_delayed(&self, limit: &LimitRef, cost: u32, delay: Nanos, now: Nanos) -> LimitDecision {
        let charge = Charge::new(limit, b"key", Cost::new(cost)).delayed(delay);
        let verdict = self.charge(Intent::Take, &[charge], now);
        assert_eq!(verdict.allowed, verdict.decisions[0].is_allowed());
        verdict.decisions[0]
    }

    /// Charges with the delay that the limit returns, in whole microseconds.
    fn charge_after_wait(&self, limit: &LimitRef, cost: u32, now: Nanos) -> Nanos {
        let mut delay = Nanos::ZERO;
        for _ in 0..4 {
            let decision = self.take_delayed(limit, cost, delay, now);
            if decision.is_allowed() {
                return delay;
            }
            let wait = decision.wait().expect("no cost here is above the capacity");
            assert!(wait > delay, "{limit:?}: a wait of {wait} after {delay} was not enough");
            delay = Nanos::new(wait.get().next_multiple_of(1_000));
        }
        panic!("{limit:?}: no place for {cost} after {delay}")
    }

    fn hand_back(&self, limit: &LimitRef, cost: u32, delay: Nanos, charged_at: Nanos) {
        let charge = Charge::new(limit, b"key", Cost::new(cost)).delayed(delay);
        assert!(self.charge(Intent::HandBack, &[charge], charged_at).allowed);
    }
}

/// No other request gets what a delayed charge has taken, before its instant or after.
pub(super) fn denies_others<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("queue", limit);
        assert_eq!(bench.drain(&limit, b"key", 20, START), 10);
        let delay = bench.charge_after_wait(&limit, 4, at(1_000));
        let due = at(1_000).saturating_add(delay);
        for now in [at(1_000), at(1_001), due.saturating_sub(Nanos::MILLISECOND)] {
            let denied = bench.take(&limit, b"key", 1, now);
            assert_eq!((denied.is_allowed(), denied.remaining), (false, 0), "{limit:?} at {now}");
            let wait = denied.wait().expect("one is not above the capacity");
            let then = now.saturating_add(Nanos::new(wait.get().next_multiple_of(1_000)));
            assert!(then >= due, "{limit:?}: admitted before the delayed charge");
            assert!(
                bench.peek(&limit, b"key", 1, then).is_allowed(),
                "{limit:?}: the wait at {now} was too short"
            );
        }
        assert_eq!(bench.left(&limit, b"other", START), 10, "{limit:?}: another key was charged");
    }
}

/// In a bucket each delayed charge is exactly behind the one before.
pub(super) fn exact_places<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let limit = bench.limit("queue", bucket(10, Nanos::SECOND, 5));
    assert_eq!(bench.drain(&limit, b"key", 20, START), 5);
    for (cost, place) in [(1, 100), (2, 300), (5, 800), (1, 900)] {
        assert_eq!(bench.charge_after_wait(&limit, cost, START), Nanos::from_millis(place));
    }
    let wait = |cost, millis| bench.peek(&limit, b"key", cost, at(millis)).wait();
    assert_eq!(wait(1, 0), Some(Nanos::from_millis(1_000)));
    assert_eq!(wait(5, 950), Some(Nanos::from_millis(450)));
    assert_eq!(bench.drain(&limit, b"key", 20, at(999)), 0);
    assert_eq!(bench.drain(&limit, b"key", 20, at(1_200)), 3);
    let early = bench.take_delayed(&limit, 1, Nanos::from_millis(50), at(1_200));
    assert_eq!(early.wait(), Some(Nanos::from_millis(100)), "counted from now");
}

/// A place given up in time leaves no trace.
pub(super) fn handed_back<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("queue", limit);
        assert_eq!(bench.drain(&limit, b"key", 20, START), 10);
        let left = |millis| bench.left(&limit, b"key", at(millis));
        let before = [0, 1_000, 60_000, 70_000, 120_000].map(left);
        let delay = bench.charge_after_wait(&limit, 4, START);
        bench.hand_back(&limit, 4, delay, START);
        assert_eq!([0, 1_000, 60_000, 70_000, 120_000].map(left), before, "{limit:?}");
        // Nor does a plain charge that is handed back.
        let now = at(240_000);
        let _ = bench.take(&limit, b"key", 7, now);
        bench.hand_back(&limit, 7, Nanos::ZERO, now);
        assert_eq!(bench.left(&limit, b"key", now), 10, "{limit:?}");
        bench.hand_back(&limit, 7, Nanos::ZERO, now);
        assert_eq!(bench.drain(&limit, b"key", 20, now), 10, "{limit:?}: above the capacity");
    }
}

/// A place given up must not admit others at once in addition to the places behind it.
pub(super) fn handed_back_from_the_middle<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let limit = bench.limit("queue", bucket(1, Nanos::SECOND, 5));
    assert_eq!(bench.drain(&limit, b"key", 20, START), 5);
    let first = bench.charge_after_wait(&limit, 5, START);
    let second = bench.charge_after_wait(&limit, 1, START);
    bench.hand_back(&limit, 5, first, START);
    let then = START.saturating_add(second);
    assert!(bench.drain(&limit, b"key", 20, then) <= 4, "five at once, and the one that waited");
}

pub(super) fn all_or_nothing<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::new(harness);
        let (queued, strict) =
            (bench.limit("queued", limit), bench.limit("strict", bucket(1, Nanos::HOUR, 1)));
        let both = |delay| {
            let place = Charge::new(&queued, b"key", Cost::new(2)).delayed(delay);
            bench.charge(Intent::Take, &[place, Charge::new(&strict, b"key", Cost::ONE)], START).allowed
        };
        assert_eq!(bench.drain(&queued, b"key", 20, START), 10);
        let wait = bench.peek(&queued, b"key", 2, START).wait().expect("2 is not above the capacity");
        let micros = Nanos::new(wait.get().next_multiple_of(1_000));
        assert!(!both(Nanos::ZERO), "{queued:?}");
        assert_eq!(bench.left(&strict, b"key", START), 1, "{queued:?}: charged without a place");
        assert!(both(micros), "{queued:?}");
        let before = bench.peek(&queued, b"key", 2, START);
        let wait = before.wait().expect("2 is not above the capacity");
        assert!(!both(wait), "{queued:?}: the other limit is used up");
        assert_eq!(bench.peek(&queued, b"key", 2, START), before, "{queued:?}: a place taken for nothing");
    }
}

/// A delayed charge does not delay any other key.
pub(super) fn time_stays<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::with_keys(harness, 100);
        let limit = bench.limit("queue", limit);
        assert_eq!(bench.drain(&limit, b"victim", 20, START), 10);
        for stranger in 0..1_000_u32 {
            let key = stranger.to_le_bytes();
            let charge = Charge::new(&limit, &key, Cost::ONE).delayed(Nanos::new(3 * Nanos::HOUR.get()));
            let _ = bench.charge(Intent::Take, &[charge], START);
        }
        assert_eq!(bench.drain(&limit, b"victim", 20, at(1)), 0, "{limit:?}: refilled ahead of time");
    }
}
