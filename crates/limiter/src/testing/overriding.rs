//! One limit in the numbers of several overrides.

use super::bench::{
    Bench, START, at, bucket, fixed_window, sliding_log, sliding_window, ten_a_minute, ten_an_hour,
};
use super::trusting::check_all;
use super::{Harness, Random};
use crate::{Carry, Limit, LimitError, LimitRef, LimitVariant, Nanos, Outcome, OverrideNumbers, Rate, Store};

fn times(hundredths: u16) -> LimitVariant {
    OverrideNumbers::Times(hundredths).into()
}

/// So many per hour, and so many at once.
fn fixed(per_hour: u64, capacity: u32) -> LimitVariant {
    let rate = Rate::new(per_hour, Nanos::HOUR).expect("the suite's rates are in range");
    OverrideNumbers::Fixed { rate: Some(rate), capacity: Some(capacity) }.into()
}

pub(super) fn other_numbers<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::new(harness);
        let limit = bench.limit("overridden", limit);
        let trusted = LimitVariant { trust: 100, ..times(250) };
        let all =
            [(LimitVariant::PLAIN, 10), (times(250), 25), (times(1), 1), (fixed(7, 7), 7), (trusted, 50)];
        for (index, (variant, most)) in all.into_iter().enumerate() {
            let overridden = bench.overridden(&limit, variant);
            assert_eq!((overridden.name(), overridden.variant()), (limit.name(), variant), "{limit:?}");
            assert_eq!(overridden.limit(), &limit.limit().at(variant).expect("in range"));
            assert_eq!(bench.overridden(&limit, variant).id(), overridden.id(), "{overridden:?}: made twice");
            assert_eq!(bench.drain(&overridden, &[index as u8], 60, START), most, "{overridden:?}");
        }
        let plain = bench.overridden(&bench.overridden(&limit, times(250)), LimitVariant::PLAIN);
        assert_eq!(plain.id(), limit.id(), "no override is the limit itself");
        let nothing = bench.store().variant(&limit, times(0));
        assert!(matches!(nothing, Err(LimitError::Scaled(_))), "{limit:?}: {nothing:?}");
    }
}

/// What is used in some numbers is used in all others, back and forth.
pub(super) fn one_state<H: Harness>(harness: &H) {
    for (index, limit) in ten_an_hour().into_iter().enumerate() {
        let bench = Bench::new(harness);
        let limit = bench.limit("shared", limit);
        let (raised, lowered) = (bench.overridden(&limit, times(300)), bench.overridden(&limit, fixed(5, 5)));
        let is_bucket = index == 0;
        let _ = bench.take(&limit, b"key", 4, START);
        // A bucket keeps its tokens, a window its counts.
        assert_eq!(bench.left(&raised, b"key", START), if is_bucket { 6 } else { 26 }, "{limit:?}");
        assert_eq!(bench.left(&lowered, b"key", START), if is_bucket { 5 } else { 1 }, "{limit:?}");
        let _ = bench.take(&raised, b"key", 5, START);
        assert_eq!(bench.left(&limit, b"key", START), 1, "{limit:?}");
        assert_eq!(bench.drain(&limit, b"key", 20, START), 1, "{limit:?}");
        assert_eq!(bench.left(&raised, b"key", START), if is_bucket { 0 } else { 20 }, "{limit:?}");
        assert_eq!(bench.left(&raised, b"unseen", START), 30, "{limit:?}: an unused key is full");
        // More than the limit holds is capped.
        let _ = bench.take(&raised, b"other", 1, START);
        assert_eq!(bench.left(&limit, b"other", START), if is_bucket { 10 } else { 9 }, "{limit:?}");
        let _ = bench.take(&raised, b"other", 15, START);
        assert_eq!(bench.drain(&limit, b"other", 20, START), if is_bucket { 10 } else { 0 }, "{limit:?}");
        let _ = bench.refund(&raised, b"other", 2, START);
        assert_eq!(bench.left(&raised, b"other", START), if is_bucket { 2 } else { 16 }, "{limit:?}");
    }
}

/// A peek or a denial in other numbers leaves a key unchanged.
pub(super) fn asking_changes_nothing<H: Harness>(harness: &H) {
    for limit in ten_an_hour() {
        let bench = Bench::new(harness);
        let limit = bench.limit("asked", limit);
        let raised = bench.overridden(&limit, times(200));
        let _ = bench.take(&raised, b"key", 3, START);
        let before = bench.peek(&raised, b"key", 1, START);
        assert!(!bench.take(&limit, b"key", 11, START).is_allowed());
        bench.left(&limit, b"key", START);
        let _ = bench.take(&limit, b"key", 0, START);
        assert_eq!(bench.peek(&raised, b"key", 1, START), before, "{limit:?}");
    }
}

/// A bucket that is full in the limit's own numbers is not full in larger ones, but fills up in them from then on.
pub(super) fn full_at_less<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let limit = bench.limit("full", bucket(10, Nanos::SECOND, 20));
    let raised = bench.overridden(&limit, times(300));
    let _ = bench.take(&limit, b"key", 10, START);
    assert_eq!(bench.left(&limit, b"key", at(1_000)), 20);
    assert_eq!(bench.left(&raised, b"key", at(1_000)), 20, "a full bucket is not full in larger numbers");
    assert_eq!(bench.left(&raised, b"key", at(2_000)), 50, "30 a second since");
    let denied = bench.take(&raised, b"key", 60, at(2_000));
    assert!(!denied.is_allowed() && denied.remaining == 50, "a denial leaves it as it is: {denied:?}");
    let wait = denied.wait().expect("it will hold that").get().next_multiple_of(1_000);
    assert_eq!(wait, 333_334_000, "the ten that are missing, at 30 a second");
    let then = at(2_000).saturating_add(Nanos::new(wait));
    assert!(bench.take(&raised, b"key", 60, then).is_allowed(), "as full as a new one");
    // And down again: of the tokens that are left, as many as the limit holds.
    let _ = bench.take(&raised, b"down", 5, START);
    assert_eq!(bench.drain(&limit, b"down", 50, START), 20);
    assert_eq!(bench.left(&raised, b"down", START), 0);
}

/// A refund of nothing writes a bucket in the numbers that it is made in, with the tokens that it has: from then on it gains
/// tokens at their rate. A window keeps its count.
pub(super) fn renumbering<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let limit = bench.limit("renumbered", bucket(10, Nanos::HOUR, 10));
    let (raised, plain) = (bench.overridden(&limit, times(1_000)), &limit);
    for key in [b"left alone".as_slice(), b"renumbered"] {
        assert_eq!(bench.drain(plain, key, 20, START), 10);
    }
    let _ = bench.refund(&raised, b"renumbered", 0, START);
    assert_eq!(bench.left(&raised, b"renumbered", START), 0, "it is given nothing");
    assert_eq!(bench.left(&raised, b"renumbered", at(36_000)), 1, "a hundred an hour");
    assert_eq!(bench.left(&raised, b"left alone", at(36_000)), 0, "still ten an hour");
    let _ = bench.refund(plain, b"renumbered", 0, at(36_000));
    assert_eq!(bench.left(&raised, b"renumbered", at(72_000)), 1, "ten an hour again");
    assert_eq!(bench.left(plain, b"renumbered", at(396_000)), 2);
    let _ = bench.take(plain, b"lowered", 2, START);
    let _ = bench.refund(&bench.overridden(&limit, times(50)), b"lowered", 0, START);
    assert_eq!(bench.left(plain, b"lowered", START), 8, "what is full in lower numbers is not cut");
    let _ = bench.refund(plain, b"unseen", 0, START);
    assert_eq!(bench.left(&raised, b"unseen", START), 100, "a key that was never used stays so");
    for limit in
        [fixed_window(10, Nanos::HOUR), sliding_window(10, Nanos::HOUR), sliding_log(10, Nanos::HOUR)]
    {
        let limit = bench.limit("counted", limit);
        let _ = bench.take(&limit, b"key", 4, START);
        let _ = bench.refund(&bench.overridden(&limit, times(1_000)), b"key", 0, START);
        assert_eq!(bench.left(&limit, b"key", START), 6, "{limit:?}");
    }
}

/// A key that is charged in the numbers of several overrides in turn, and takes everything it can, is admitted no more
/// over any time than the largest numbers allow. Meanwhile other keys come, which replace idle ones.
pub(super) fn alternating<H: Harness>(harness: &H) {
    let limits = [
        bucket(10, Nanos::SECOND, 20),
        bucket(7, Nanos::HOUR, 30),
        bucket(1, Nanos::MINUTE, 1),
        fixed_window(10, Nanos::HOUR),
        sliding_log(10, Nanos::MINUTE),
    ];
    for limit in limits {
        for seed in 1..=3 {
            let bench = Bench::with_keys(harness, 8);
            let plain = bench.limit("alternating", limit);
            let most = LimitVariant { trust: 100, ..times(1_000) };
            let all = [LimitVariant::PLAIN, most, times(1_000), times(50), LimitVariant::at_trust(100)];
            let variants: Vec<LimitRef> = all.map(|variant| bench.overridden(&plain, variant)).into();
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
            check_all(variants[1].limit(), &admitted);
        }
    }
}

pub(super) fn edits<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let old = bench.limit("edited", bucket(10, Nanos::SECOND, 100));
    let (doubled, own) = (bench.overridden(&old, times(200)), bench.overridden(&old, fixed(3_600, 60)));
    let _ = bench.take(&doubled, b"times", 200, START);
    let _ = bench.take(&own, b"fixed", 60, START);
    // Two seconds at 20 per second make 40 of 200; in proportion, 20 of 100; then four at 4.
    let new = bench.edit("edited", bucket(2, Nanos::SECOND, 50), Carry::Proportional, at(2_000));
    assert_eq!(bench.left(&bench.overridden(&new, times(200)), b"times", at(6_000)), 20 + 16);
    assert_eq!(bench.left(&new, b"times", at(6_000)), 20 + 16);
    assert_eq!(bench.left(&bench.overridden(&new, fixed(3_600, 60)), b"fixed", at(6_000)), 6, "one a second");
    // A request from before the edit, in numbers that have not been used since.
    let _ = bench.take(&new, b"times", 7, at(6_000));
    let late = bench.take(&bench.overridden(&old, times(300)), b"times", 1, at(6_000));
    assert!(late.is_allowed(), "{late:?}");
    assert_eq!(bench.left(&new, b"times", at(6_000)), 28);
    // An edit that resets makes the key unused, in all numbers.
    let reset = bench.edit("edited", bucket(2, Nanos::SECOND, 51), Carry::Reset, at(6_000));
    assert_eq!(bench.left(&bench.overridden(&reset, fixed(3_600, 60)), b"fixed", at(6_000)), 60);

    let windows = |limit| {
        [
            sliding_window(limit, Nanos::HOUR),
            fixed_window(limit, Nanos::HOUR),
            sliding_log(limit, Nanos::HOUR),
        ]
    };
    for (old, new) in windows(10).into_iter().zip(windows(20)) {
        let bench = Bench::new(harness);
        let tripled = bench.overridden(&bench.limit("edited", old), times(300));
        let _ = bench.take(&tripled, b"key", 15, START);
        let new = bench.edit("edited", new, Carry::Proportional, START);
        // Half of thirty is half of sixty.
        assert_eq!(bench.left(&new, b"key", START), 0, "{new:?}");
        assert_eq!(bench.left(&bench.overridden(&new, times(300)), b"key", START), 30, "{new:?}");
    }
}

/// A request that waits as long as its denial says is admitted, whatever the numbers of the key's last charge.
pub(super) fn retry_promise<H: Harness>(harness: &H) {
    let all =
        [LimitVariant::PLAIN, times(300), times(30), fixed(60, 7), LimitVariant { trust: 100, ..times(150) }];
    for limit in ten_a_minute() {
        for (before, after) in all.iter().flat_map(|before| all.iter().map(move |after| (*before, *after))) {
            for cost in [1, 10] {
                retry(&Bench::new(harness), limit, (before, after), cost);
            }
        }
    }
}

fn retry<H: Harness>(
    bench: &Bench<'_, H>,
    limit: Limit,
    (before, after): (LimitVariant, LimitVariant),
    cost: u32,
) {
    let limit = bench.limit("retry", limit);
    let (first, second) = (bench.overridden(&limit, before), bench.overridden(&limit, after));
    bench.drain(&first, b"key", 60, START);
    let denied = bench.take(&second, b"key", cost, at(1));
    let Outcome::Denied { retry_after: wait } = denied.outcome else { return };
    let then = at(1).saturating_add(Nanos::new(wait.get().next_multiple_of(1_000)));
    let kept = bench.take(&second, b"key", cost, then);
    assert!(kept.is_allowed(), "{first:?} to {second:?}: the wait for {cost} was not enough");
}
