//! One limit at several levels of trust.

use super::Harness;
use super::bench::{
    Bench, START, at, bucket, fixed_window, sliding_log, sliding_window, ten_a_minute, ten_an_hour,
};
use crate::{Carry, LimitError, Nanos, Outcome, Store};

pub(super) fn scaled<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("trusted", limit);
        for (trust, most) in [(0, 10), (5, 10), (55, 15), (100, 20)] {
            let variant = bench.variant(&limit, trust);
            assert_eq!((variant.name(), variant.trust()), (limit.name(), trust), "{limit:?}");
            assert_eq!(variant.limit(), &limit.limit().trusted(trust).expect("in range"));
            assert_eq!(bench.variant(&limit, trust).id(), variant.id(), "{variant:?}: made twice");
            assert_eq!(bench.drain(&variant, &[trust], 50, START), most, "{variant:?}");
        }
        assert_eq!(bench.variant(&limit, 0).id(), limit.id(), "no trust is the limit itself");
        let too_much = bench.store().variant(&limit, 101);
        assert!(matches!(too_much, Err(LimitError::Trust(_))), "{limit:?}: {too_much:?}");
    }
    let bench = Bench::new(harness);
    let limit = bench.limit("rate", bucket(10, Nanos::SECOND, 30));
    let trusted = bench.variant(&limit, 100);
    assert_eq!(bench.drain(&trusted, b"key", 100, START), 60);
    assert_eq!(bench.drain(&trusted, b"key", 100, at(2_000)), 30, "15 a second");
}

/// What one trust has used, the others have too, there and back again.
pub(super) fn one_state<H: Harness>(harness: &H) {
    for (index, limit) in ten_an_hour().into_iter().enumerate() {
        let bench = Bench::new(harness);
        let limit = bench.limit("shared", limit);
        let trusted = bench.variant(&limit, 100);
        let is_bucket = index == 0;
        bench.take(&limit, b"key", 4, START);
        // A bucket keeps its tokens, a window its counts.
        assert_eq!(bench.left(&trusted, b"key", START), if is_bucket { 6 } else { 16 }, "{limit:?}");
        bench.take(&trusted, b"key", 5, START);
        assert_eq!(bench.left(&limit, b"key", START), 1, "{limit:?}");
        assert_eq!(bench.drain(&limit, b"key", 20, START), 1, "{limit:?}");
        assert_eq!(bench.left(&trusted, b"key", START), if is_bucket { 0 } else { 10 }, "{limit:?}");
        assert_eq!(bench.left(&trusted, b"unseen", START), 20, "{limit:?}: full stays full");
        // More than the limit holds is cut to it.
        bench.take(&trusted, b"other", 1, START);
        assert_eq!(bench.left(&limit, b"other", START), if is_bucket { 10 } else { 9 }, "{limit:?}");
        bench.take(&trusted, b"other", 15, START);
        let rest = if is_bucket { 4 } else { 0 };
        assert_eq!(bench.drain(&limit, b"other", 20, START), rest, "{limit:?}");
        bench.refund(&trusted, b"other", 2, START);
        assert_eq!(bench.left(&trusted, b"other", START), if is_bucket { 2 } else { 6 }, "{limit:?}");
    }
}

/// Asking, or being denied, at another trust leaves a key as it was.
pub(super) fn asking_changes_nothing<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::new(harness);
        let limit = bench.limit("asked", limit);
        let trusted = bench.variant(&limit, 100);
        bench.take(&trusted, b"key", 3, START);
        let before = bench.peek(&trusted, b"key", 1, START);
        assert!(!bench.take(&limit, b"key", 11, START).is_allowed());
        bench.left(&limit, b"key", START);
        bench.take(&limit, b"key", 0, START);
        assert_eq!(bench.peek(&trusted, b"key", 1, START), before, "{limit:?}");
    }
}

pub(super) fn edits<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let old = bench.limit("edited", bucket(10, Nanos::SECOND, 100));
    let trusted = bench.variant(&old, 100);
    bench.take(&trusted, b"key", 200, START);
    bench.take(&trusted, b"other", 200, START);
    // Two seconds at 15 a second; in proportion, 15 of 100; then four at 3.
    let new = bench.edit("edited", bucket(2, Nanos::SECOND, 50), Carry::Proportional, at(2_000));
    assert_eq!(bench.left(&bench.variant(&new, 100), b"key", at(6_000)), 15 + 12);
    assert_eq!(bench.left(&new, b"other", at(6_000)), 15 + 12);
    assert_eq!(bench.left(&new, b"unseen", at(6_000)), 50);
    // A request from before the edit, at a trust that is not known since.
    bench.take(&new, b"key", 7, at(6_000));
    let late = bench.take(&bench.variant(&old, 30), b"key", 1, at(6_000));
    assert!(late.is_allowed() && late.limit <= 100, "{late:?}");
    assert_eq!(bench.left(&new, b"key", at(6_000)), 19);

    let windows =
        [sliding_window(10, Nanos::HOUR), fixed_window(10, Nanos::HOUR), sliding_log(10, Nanos::HOUR)];
    let edited =
        [sliding_window(20, Nanos::HOUR), fixed_window(20, Nanos::HOUR), sliding_log(20, Nanos::HOUR)];
    for (old, new) in windows.into_iter().zip(edited) {
        let bench = Bench::new(harness);
        let trusted = bench.variant(&bench.limit("edited", old), 100);
        bench.take(&trusted, b"key", 10, START);
        let new = bench.edit("edited", new, Carry::Proportional, START);
        // Half of twenty is half of forty.
        assert_eq!(bench.left(&new, b"key", START), 0, "{new:?}");
        assert_eq!(bench.left(&bench.variant(&new, 100), b"key", START), 20, "{new:?}");
    }
}

/// Whoever waits as long as told is admitted, at whatever trust the key was
/// charged before.
pub(super) fn retry_promise<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        for (before, after) in [(0, 100), (100, 0), (30, 31), (100, 99)] {
            for cost in [1, 4, 10, 20] {
                let bench = Bench::new(harness);
                let limit = bench.limit("retry", limit);
                let (first, second) = (bench.variant(&limit, before), bench.variant(&limit, after));
                bench.drain(&first, b"key", 50, START);
                let denied = bench.take(&second, b"key", cost, at(1));
                let Outcome::Denied { retry_after: wait } = denied.outcome else { continue };
                let then = at(1).saturating_add(Nanos::new(wait.get().next_multiple_of(1_000)));
                let kept = bench.take(&second, b"key", cost, then);
                assert!(kept.is_allowed(), "{first:?} to {second:?}: the wait for {cost} was not enough");
            }
        }
    }
}
