//! One limit and one key: what is admitted, and what the decisions contain.

use super::Harness;
use super::bench::{Bench, START, at, at_nanos, bucket, sliding_log, sliding_window, ten_a_minute};
use crate::{Carry, Charge, Cost, Intent, Nanos, Outcome};

pub(super) fn exact_burst<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("burst", limit);
        for left in (0..10).rev() {
            let decision = bench.take(&limit, b"key", 1, START);
            assert!(decision.is_allowed(), "{limit:?}: denied with {} left", left + 1);
            assert_eq!((decision.limit, decision.remaining), (10, left), "{limit:?}");
        }
        assert!(!bench.take(&limit, b"key", 1, START).is_allowed(), "{limit:?}: one too many");
        let whole = bench.take(&limit, b"other", 10, START);
        assert_eq!((whole.outcome, whole.remaining), (Outcome::Allowed, 0), "{limit:?}: all at once");
    }
}

pub(super) fn exact_refill<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    for rate in [1_u64, 3, 7, 10, 999_983] {
        let limit = bench.limit(&format!("refill-{rate}"), bucket(rate, Nanos::SECOND, 5));
        assert_eq!(bench.drain(&limit, b"key", 6, START), 5);
        let mut taken = 0;
        for token in 1..=40_u64 {
            // What the refill has added by then, to the microsecond.
            let now = at_nanos((token * Nanos::SECOND.get()).div_ceil(rate));
            let due = now.saturating_sub(START).get() as u128 * rate as u128 / 1_000_000_000;
            let due = due as u64 - taken;
            let got = u64::from(bench.drain(&limit, b"key", 100, now));
            assert_eq!(got, due.min(5), "{rate} per second at {}", now.saturating_sub(START));
            if due > 5 {
                break;
            }
            taken += got;
        }
    }
    let slow = bench.limit("slow", bucket(1, Nanos::new(366 * Nanos::DAY.get()), 2));
    assert_eq!(bench.drain(&slow, b"key", 3, START), 2);
    let year = START.saturating_add(Nanos::new(366 * Nanos::DAY.get()));
    assert_eq!(bench.drain(&slow, b"key", 3, year.saturating_sub(Nanos::new(1_000))), 0);
    assert_eq!(bench.drain(&slow, b"key", 3, year), 1);
}

pub(super) fn denied_changes_nothing<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("denied", limit);
        let _ = bench.take(&limit, b"key", 7, START);
        let before = bench.peek(&limit, b"key", 1, at(1));
        for _ in 0..50 {
            assert!(!bench.take(&limit, b"key", 4, at(1)).is_allowed());
        }
        assert_eq!(bench.peek(&limit, b"key", 1, at(1)), before, "{limit:?}");
        assert_eq!(bench.drain(&limit, b"key", 10, at(1)), 3, "{limit:?}");
    }
}

pub(super) fn retry_promise<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        for cost in [1, 3, 10] {
            let bench = Bench::new(harness);
            let limit = bench.limit("retry", limit);
            let _ = bench.take(&limit, b"key", 4, START);
            let _ = bench.take(&limit, b"key", 5, at(7_000));
            bench.drain(&limit, b"key", 10, at(13_000));
            let now = at(13_001);
            let denied = bench.take(&limit, b"key", cost, now);
            let wait = denied.wait().unwrap_or_else(|| panic!("{limit:?}: no wait for {cost}"));
            assert!(wait > Nanos::ZERO, "{limit:?}: denied without a wait");
            let micros = Nanos::new(wait.get().next_multiple_of(1_000));
            let just_before = now.saturating_add(micros).saturating_sub(Nanos::new(1_000));
            if micros == wait {
                assert!(
                    !bench.peek(&limit, b"key", cost, just_before).is_allowed(),
                    "{limit:?}: {cost} early"
                );
            }
            let kept = bench.take(&limit, b"key", cost, now.saturating_add(micros));
            assert!(kept.is_allowed(), "{limit:?}: the wait for {cost} was not enough");
        }
    }
}

pub(super) fn cost_above_capacity<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("never", limit);
        for cost in [11, u32::MAX] {
            let decision = bench.take(&limit, b"key", cost, START);
            assert_eq!((decision.outcome, decision.remaining), (Outcome::Never, 10), "{limit:?}");
            assert_eq!(decision.wait(), None);
        }
        assert_eq!(bench.drain(&limit, b"key", 20, START), 10, "{limit:?}: charged for nothing");
    }
}

pub(super) fn peek_takes_nothing<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("peek", limit);
        let _ = bench.take(&limit, b"key", 4, START);
        for _ in 0..20 {
            assert_eq!(bench.left(&limit, b"key", START), 6, "{limit:?}");
            assert_eq!(bench.take(&limit, b"key", 0, START).remaining, 6, "{limit:?}: cost 0 asks");
        }
        assert!(bench.peek(&limit, b"key", 6, START).is_allowed());
        assert!(!bench.peek(&limit, b"key", 7, START).is_allowed());
        let _ = bench.take(&limit, b"key", 6, START);
        assert!(bench.take(&limit, b"key", 0, START).is_allowed(), "{limit:?}: asking is always allowed");
        assert_eq!(bench.left(&limit, b"unseen", START), 10);
    }
}

pub(super) fn refund_is_capped<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("refund", limit);
        let _ = bench.take(&limit, b"key", 8, START);
        assert_eq!(bench.refund(&limit, b"key", 3, START).remaining, 5, "{limit:?}");
        assert_eq!(bench.refund(&limit, b"key", 1_000, START).remaining, 10, "{limit:?}");
        assert_eq!(bench.refund(&limit, b"unseen", 1_000, START).remaining, 10, "{limit:?}");
        assert_eq!(bench.drain(&limit, b"key", 20, START), 10, "{limit:?}: above the capacity");
        assert_eq!(bench.drain(&limit, b"unseen", 20, START), 10, "{limit:?}: above the capacity");
    }
}

pub(super) fn reset_is_unused<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("reset", limit);
        let _ = bench.take(&limit, b"key", 4, START);
        assert_eq!(bench.drain(&limit, b"key", 10, at(20)), 6, "{limit:?}");
        let _ = bench.take(&limit, b"other", 3, START);
        // A denial that a node may remember.
        assert!(!bench.take(&limit, b"key", 1, at(30)).is_allowed(), "{limit:?}");
        for key in [&b"key"[..], b"unseen"] {
            let charge = Charge::new(&limit, key, Cost::ONE);
            let reset = bench.charge(Intent::Reset, &[charge], at(40));
            assert_eq!((reset.allowed, reset.decisions[0].remaining), (true, 10), "{limit:?}");
            assert_eq!(bench.drain(&limit, key, 20, at(40)), 10, "{limit:?}: not one more than unused");
        }
        assert_eq!(bench.drain(&limit, b"other", 20, at(40)), 7, "{limit:?}: of another key");
    }
}

pub(super) fn reset_after_edits<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let wide = bench.limit("edited", bucket(10, Nanos::MINUTE, 100));
    assert_eq!(bench.drain(&wide, b"key", 200, START), 100);
    let narrow = bench.edit("edited", bucket(10, Nanos::MINUTE, 20), Carry::AsIs, at(1));
    let _ = bench.charge(Intent::Reset, &[Charge::new(&narrow, b"key", Cost::ONE)], at(2));
    assert_eq!(bench.drain(&narrow, b"key", 200, at(2)), 20);
    let _ = bench.charge(Intent::Reset, &[Charge::new(&wide, b"key", Cost::ONE)], at(3));
    assert!(bench.drain(&narrow, b"key", 200, at(3)) <= 20, "an old handle resets to the newest numbers");
}

pub(super) fn step_back<H: Harness>(harness: &H) {
    let limits =
        [bucket(10, Nanos::MINUTE, 10), sliding_window(10, Nanos::MINUTE), sliding_log(10, Nanos::MINUTE)];
    for limit in limits {
        let bench = Bench::new(harness);
        let limit = bench.limit("back", limit);
        assert_eq!(bench.drain(&limit, b"key", 20, at(30_000)), 10);
        for millis in [29_999, 20_000, 0] {
            assert_eq!(bench.drain(&limit, b"key", 20, at(millis)), 0, "{limit:?} at {millis} ms");
        }
        assert_eq!(bench.drain(&limit, b"key", 20, at(30_000)), 0, "{limit:?}: refilled by the step");
    }
}
