//! One limit at several levels of trust.

use super::bench::{
    Bench, START, at, bucket, fixed_window, sliding_log, sliding_window, ten_a_minute, ten_an_hour,
};
use super::{Harness, Random};
use crate::{Carry, Limit, LimitError, LimitRef, LimitVariant, Meter, Nanos, Outcome, Store};

pub(super) fn scaled<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("trusted", limit);
        for (trust, most) in [(0, 10), (5, 10), (55, 15), (100, 20)] {
            let variant = bench.variant(&limit, trust);
            assert_eq!((variant.name(), variant.variant().trust), (limit.name(), trust), "{limit:?}");
            assert_eq!(variant.limit(), &limit.limit().trusted(trust).expect("in range"));
            assert_eq!(bench.variant(&limit, trust).id(), variant.id(), "{variant:?}: made twice");
            assert_eq!(bench.drain(&variant, &[trust], 50, START), most, "{variant:?}");
        }
        assert_eq!(bench.variant(&limit, 0).id(), limit.id(), "no trust is the limit itself");
        let too_much = bench.store().variant(&limit, LimitVariant::at_trust(101));
        assert!(matches!(too_much, Err(LimitError::Scaled(_))), "{limit:?}: {too_much:?}");
    }
    let bench = Bench::new(harness);
    let limit = bench.limit("rate", bucket(10, Nanos::SECOND, 30));
    let trusted = bench.variant(&limit, 100);
    assert_eq!(bench.drain(&trusted, b"key", 100, START), 60);
    assert_eq!(bench.drain(&trusted, b"key", 100, at(2_000)), 30, "15 a second");
}

/// What is used at one trust is used at every other, back and forth.
pub(super) fn one_state<H: Harness>(harness: &H) {
    for (index, limit) in ten_an_hour().into_iter().enumerate() {
        let bench = Bench::new(harness);
        let limit = bench.limit("shared", limit);
        let trusted = bench.variant(&limit, 100);
        let is_bucket = index == 0;
        let _ = bench.take(&limit, b"key", 4, START);
        // A bucket keeps its tokens, a window its counts.
        assert_eq!(bench.left(&trusted, b"key", START), if is_bucket { 6 } else { 16 }, "{limit:?}");
        let _ = bench.take(&trusted, b"key", 5, START);
        assert_eq!(bench.left(&limit, b"key", START), 1, "{limit:?}");
        assert_eq!(bench.drain(&limit, b"key", 20, START), 1, "{limit:?}");
        assert_eq!(bench.left(&trusted, b"key", START), if is_bucket { 0 } else { 10 }, "{limit:?}");
        assert_eq!(bench.left(&trusted, b"unseen", START), 20, "{limit:?}: an unused key is full");
        // More than the limit holds is capped.
        let _ = bench.take(&trusted, b"other", 1, START);
        assert_eq!(bench.left(&limit, b"other", START), if is_bucket { 10 } else { 9 }, "{limit:?}");
        let _ = bench.take(&trusted, b"other", 15, START);
        let rest = if is_bucket { 4 } else { 0 };
        assert_eq!(bench.drain(&limit, b"other", 20, START), rest, "{limit:?}");
        let _ = bench.refund(&trusted, b"other", 2, START);
        assert_eq!(bench.left(&trusted, b"other", START), if is_bucket { 2 } else { 6 }, "{limit:?}");
    }
}

/// A peek or a denial at another trust leaves a key unchanged.
pub(super) fn asking_changes_nothing<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::new(harness);
        let limit = bench.limit("asked", limit);
        let trusted = bench.variant(&limit, 100);
        let _ = bench.take(&trusted, b"key", 3, START);
        let before = bench.peek(&trusted, b"key", 1, START);
        assert!(!bench.take(&limit, b"key", 11, START).is_allowed());
        bench.left(&limit, b"key", START);
        let _ = bench.take(&limit, b"key", 0, START);
        assert_eq!(bench.peek(&trusted, b"key", 1, START), before, "{limit:?}");
    }
}

/// A full bucket holds no more at a higher trust; one that was full for long enough is full at every trust,
/// like one that was never used.
pub(super) fn full_at_less<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let limit = bench.limit("full", bucket(10, Nanos::SECOND, 20));
    let trusted = bench.variant(&limit, 100);
    let _ = bench.take(&limit, b"key", 10, START);
    assert_eq!(bench.left(&limit, b"key", at(1_000)), 20);
    assert_eq!(bench.left(&trusted, b"key", at(1_000)), 20, "a full bucket is not full at a higher trust");
    assert_eq!(bench.left(&trusted, b"key", at(2_000)), 30, "it has kept what was refilled since");
    let denied = bench.take(&trusted, b"key", 40, at(2_000));
    assert_eq!(denied.wait(), Some(Nanos::SECOND), "a denial leaves it as it is");
    assert_eq!((denied.remaining, denied.reset_after), (30, Nanos::SECOND));
    assert!(bench.take(&trusted, b"key", 40, at(3_000)).is_allowed(), "as full as a new one");
    // A refund gives back no more than was taken.
    let _ = bench.take(&limit, b"back", 5, START);
    let _ = bench.refund(&limit, b"back", 100, START);
    assert_eq!(bench.left(&trusted, b"back", START), 20);
    assert_eq!(bench.left(&trusted, b"back", at(2_000)), 40);
}

/// A key whose trust alternates and that takes everything it can is admitted no more, over any time, than the
/// highest trust allows. Meanwhile other keys come, which replace idle ones.
pub(super) fn alternating<H: Harness>(harness: &H) {
    let limits = [
        bucket(10, Nanos::SECOND, 20),
        bucket(7, Nanos::HOUR, 30),
        bucket(1, Nanos::MINUTE, 1),
        sliding_window(10, Nanos::MINUTE),
        fixed_window(10, Nanos::HOUR),
        sliding_log(10, Nanos::MINUTE),
    ];
    for limit in limits {
        for seed in 1..=3 {
            let bench = Bench::with_keys(harness, 8);
            let plain = bench.limit("alternating", limit);
            let variants: Vec<LimitRef> =
                [0, 100, 0, 100, 29].iter().map(|trust| bench.variant(&plain, *trust)).collect();
            let (mut random, mut now, mut admitted) = (Random::new(seed), START, Vec::new());
            for step in 0..40_u64 {
                let variant = random.pick(&variants);
                let left = bench.left(variant, b"key", now);
                let cost = if random.once_in(3) { left.min(1) } else { left };
                let said = bench.take(variant, b"key", cost, now);
                assert!(said.is_allowed(), "{variant:?} has {left} left: {said:?}");
                admitted.push((now, u64::from(cost)));
                for other in 0..4 {
                    let _ = bench.take(&plain, &[other, step as u8], 1, now);
                }
                let quarters = random.below(6) * said.reset_after.get() / 4;
                now = now.saturating_add(Nanos::new(quarters.next_multiple_of(1_000)));
            }
            let most = variants[1].limit();
            check_all(most, &admitted);
        }
    }
}

/// From each charge to each later one, no more than a limit allows.
pub(super) fn check_all(limit: &Limit, admitted: &[(Nanos, u64)]) {
    let within = |from: u64, to: u64| -> u64 {
        admitted.iter().filter(|(at, _)| (from..=to).contains(&at.get())).map(|(_, cost)| cost).sum()
    };
    for (last, _) in admitted {
        let last = last.get();
        match limit {
            Limit::Meter(Meter::TokenBucket(quota)) => {
                for (first, _) in admitted.iter().filter(|(first, _)| first.get() <= last) {
                    let (tokens, nanos) =
                        (u128::from(quota.rate().tokens()), u128::from(quota.rate().nanos()));
                    // Each change of trust may shift the clock by less than a nanosecond.
                    let elapsed = u128::from(last - first.get()) + admitted.len() as u128;
                    let most = u128::from(quota.capacity()) + elapsed * tokens / nanos;
                    let found = within(first.get(), last);
                    assert!(u128::from(found) <= most, "{limit}: {found} from {first} to {last}, not {most}");
                }
            }
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
                let length = quota.length().get();
                let start = last - last % length;
                let before = match limit {
                    Limit::Meter(Meter::SlidingWindow(_)) => within(start - length, start - 1),
                    _ => 0,
                };
                let estimate = u128::from(before) * u128::from(length - last % length)
                    + u128::from(within(start, last)) * u128::from(length);
                let most = u128::from(quota.limit()) * u128::from(length);
                assert!(estimate <= most, "{limit}: {estimate} of {most} at {last}");
            }
            Limit::Log(quota) => {
                let found = within(last - quota.window().get() + 1, last);
                assert!(found <= u64::from(quota.limit()), "{limit}: {found} at {last}");
            }
        }
    }
}

pub(super) fn edits<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let old = bench.limit("edited", bucket(10, Nanos::SECOND, 100));
    let trusted = bench.variant(&old, 100);
    let _ = bench.take(&trusted, b"key", 200, START);
    let _ = bench.take(&trusted, b"other", 200, START);
    // Two seconds at 15 per second; in proportion, 15 of 100; then four at 3.
    let new = bench.edit("edited", bucket(2, Nanos::SECOND, 50), Carry::Proportional, at(2_000));
    assert_eq!(bench.left(&bench.variant(&new, 100), b"key", at(6_000)), 15 + 12);
    assert_eq!(bench.left(&new, b"other", at(6_000)), 15 + 12);
    assert_eq!(bench.left(&new, b"unseen", at(6_000)), 50);
    // A request from before the edit, at a trust that has not been used since.
    let _ = bench.take(&new, b"key", 7, at(6_000));
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
        let _ = bench.take(&trusted, b"key", 10, START);
        let new = bench.edit("edited", new, Carry::Proportional, START);
        // Half of twenty is half of forty.
        assert_eq!(bench.left(&new, b"key", START), 0, "{new:?}");
        assert_eq!(bench.left(&bench.variant(&new, 100), b"key", START), 20, "{new:?}");
    }
}

/// A request that waits as long as its denial says is admitted, whatever the trust of the key's last charge.
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
