//! Windows on a wall clock that is set forward and back, with buckets beside them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Carry, Cost, Limit, LogQuota, Nanos, Quota, WindowQuota};

use crate::{Bucket, Charge, Clock, Intent, LimitRef, ManualClock, Memory, MemoryOptions, Store};

/// What happens before a request, and its key and cost.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How far both clocks advance, in eighths of a window.
    wait: u64,
    /// How far the wall clock is set forward or back, in eighths of a window.
    set: i64,
    key: u8,
    cost: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let set =
        prop_oneof![6 => Just(0), 3 => -20_i64..=20, 1 => -4_000_i64..=4_000, 1 => -600_000_i64..=600_000];
    let step = (0_u64..6, set, any::<u8>(), 1_u32..4);
    vec(step.prop_map(|(wait, set, key, cost)| Step { wait, set, key, cost }), 1..80)
}

/// Windows of both kinds: some that distinguish all windows, some whose number wraps.
fn windows() -> impl Strategy<Value = (Limit, WindowQuota)> {
    let numbers = prop_oneof![
        (1_u32..8).prop_map(|limit| (limit, Nanos::MINUTE)),
        (1_u32..8).prop_map(|limit| (limit, Nanos::DAY)),
        (999_998_u32..=1_000_000).prop_map(|limit| (limit, Nanos::SECOND)),
    ];
    (numbers, any::<bool>()).prop_map(|((limit, length), sliding)| {
        let quota = WindowQuota::new(limit, length).expect("in range");
        (if sliding { Limit::sliding_window(quota) } else { Limit::fixed_window(quota) }, quota)
    })
}

struct World {
    clock: ManualClock,
    store: Memory<ManualClock>,
    limit: LimitRef,
}

impl World {
    fn new(limit: Limit, max_keys: usize) -> World {
        let clock = ManualClock::default();
        let options = MemoryOptions { max_keys, ..MemoryOptions::default() };
        let store = Memory::with_clock(options, clock.clone()).unwrap();
        let limit = store.limit("limit", limit, Carry::AsIs, clock.now()).expect("there is room");
        World { clock, store, limit }
    }

    fn timed(&self, intent: Intent, key: u8, cost: u32) -> crate::LimitDecision {
        let key = [key];
        let charge = Charge::new(&self.limit, &key, Cost::new(cost));
        self.store.charge_now(intent, &[charge], self.clock.now()).decisions[0]
    }

    fn left(&self, key: u8) -> u32 {
        self.timed(Intent::Peek, key, 0).remaining
    }

    /// Sets the wall clock by this much, within a few years, and not so far that a test reaches [`Nanos::END`], where time
    /// stands still; `true` if that is back.
    fn set(&self, by: i64) -> bool {
        let (years, latest) = (5 * Nanos::YEAR.get() as i64, Nanos::END.get() - 5 * Nanos::YEAR.get());
        let (before, by) = (self.clock.wall(), by.clamp(-years, years));
        let after = Nanos::new(before.get().saturating_add_signed(by).min(latest));
        self.clock.set_wall(after);
        after < before
    }
}

/// The cost for a large limit that is the same fraction of it as of a small one.
fn scaled(cost: u32, quota: &WindowQuota) -> u32 {
    (cost * (quota.limit() / 5).max(1)).min(quota.limit())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// For each window that the wall clock has reached, a key is admitted at most the limit, however often the
    /// clock returns there. If windows recognise any step back and no key was evicted, that holds for each
    /// window by itself: while the clock is behind, what a key is admitted counts in the latest window in which
    /// it was counted.
    #[test]
    fn no_window_admits_twice((limit, quota) in windows(), keys in 1_u8..9, max_keys in 1_usize..40, steps in steps()) {
        let (world, eighth) = (World::new(limit, max_keys), quota.length().get() / 8);
        let mut admitted = BTreeMap::<(u8, u64), u64>::new();
        let mut latest = BTreeMap::<u8, u64>::new();
        let mut reached = BTreeSet::<u64>::new();
        let window_now = || world.clock.wall().get() / quota.length().get();
        for step in steps {
            world.clock.advance(Nanos::new(step.wait * eighth));
            reached.insert(window_now());
            let before: Vec<u32> = (0..keys).map(|key| world.left(key)).collect();
            if world.set(step.set * eighth as i64) {
                let after: Vec<u32> = (0..keys).map(|key| world.left(key)).collect();
                let fuller = before.iter().zip(&after).any(|(before, after)| after > before);
                prop_assert!(!fuller, "{before:?} became {after:?} by a step back");
            }
            reached.insert(window_now());
            let (key, cost) = (step.key % keys, scaled(step.cost, &quota));
            if world.timed(Intent::Take, key, cost).is_allowed() {
                let window = (*latest.entry(key).or_default()).max(window_now());
                latest.insert(key, window);
                *admitted.entry((key, window)).or_default() += u64::from(cost);
                let in_window = admitted[&(key, window)];
                let in_all: u64 = admitted.iter().filter(|((of, _), _)| *of == key).map(|(_, sum)| sum).sum();
                let (limit, windows) = (u64::from(quota.limit()), reached.len() as u64);
                prop_assert!(in_all <= limit * windows, "{in_all} of {quota} for {key} in {windows} windows");
                let stats = world.store.stats();
                let is_exact = quota.recognises_any_step_back() && stats.evictions + stats.overflows == 0;
                prop_assert!(!is_exact || in_window <= limit, "{in_window} of {quota} for {key} in {window}");
            }
        }
    }

    /// A clock that is set forward opens a new window at once, and one that was not reached before is empty.
    #[test]
    fn a_step_forward_opens_a_new_window((limit, quota) in windows(), steps in steps(), by in 2_u64..1_000) {
        let (world, eighth) = (World::new(limit, 1_000), quota.length().get() / 8);
        let mut latest = Nanos::ZERO;
        for step in steps {
            world.clock.advance(Nanos::new(step.wait * eighth));
            latest = latest.max(world.clock.wall());
            world.set(step.set * eighth as i64);
            latest = latest.max(world.clock.wall());
            let _ = world.timed(Intent::Take, step.key, scaled(step.cost, &quota));
        }
        let new = latest.get() / quota.length().get() + by;
        world.clock.set_wall(Nanos::new(new * quota.length().get()));
        prop_assert_eq!(world.left(0), quota.limit());
        let all = world.timed(Intent::Take, 0, quota.limit());
        prop_assert!(all.is_allowed());
        prop_assert_eq!(world.timed(Intent::Peek, 0, 1).wait().is_some(), true);
    }

    /// Buckets and logs do not depend on the wall clock.
    #[test]
    fn buckets_and_logs_go_by_the_steady_clock(bucket in any::<bool>(), max_keys in 1_usize..40, steps in steps()) {
        let limit = match bucket {
            true => Limit::from(Quota::new(5, Nanos::MINUTE, 7).expect("in range")),
            false => Limit::from(LogQuota::new(7, Nanos::MINUTE).expect("in range")),
        };
        let (set, steady) = (World::new(limit, max_keys), World::new(limit, max_keys));
        // Each store hashes keys with its own secret, so only a single key has the same position in both.
        for step in steps {
            for world in [&set, &steady] {
                world.clock.advance(Nanos::new(step.wait * Nanos::MINUTE.get() / 8));
            }
            set.set(step.set * Nanos::MINUTE.get() as i64);
            let (one, other) = (set.timed(Intent::Take, 1, step.cost), steady.timed(Intent::Take, 1, step.cost));
            prop_assert_eq!(one, other);
        }
    }
}

#[test]
fn a_charge_is_handed_back_to_the_window_it_was_counted_in() {
    let quota = WindowQuota::new(10, Nanos::HOUR).unwrap();
    for limit in [Limit::fixed_window(quota), Limit::sliding_window(quota)] {
        for step in [Nanos::HOUR.get() as i64, 48 * Nanos::HOUR.get() as i64, -(Nanos::HOUR.get() as i64)] {
            let world = World::new(limit, 100);
            let made_at = world.clock.now();
            let _ = world.timed(Intent::Take, 1, 4);
            world.clock.advance(Nanos::SECOND);
            world.set(step);
            let _ = world.timed(Intent::Take, 1, 3);
            let before = world.left(1);
            let charge = Charge::new(&world.limit, &[1], Cost::new(4));
            let _ = world.store.charge_now(Intent::HandBack, &[charge], made_at);
            let after = world.left(1);
            // Set forward by an hour, the sliding window still counts it; set back, it is in the window that is
            // kept.
            let counts =
                step < 0 || (limit == Limit::sliding_window(quota) && step == Nanos::HOUR.get() as i64);
            assert!(after >= before && after <= before + if counts { 4 } else { 0 }, "{limit}, {step}");
            assert!(step > 0 || after == before + 4, "{limit}: all of it, while the window is kept");
        }
    }
}

#[test]
fn an_edit_carries_counts_over_as_of_the_wall_clock() {
    let quota = |limit| Limit::fixed_window(WindowQuota::new(limit, Nanos::DAY).unwrap());
    let mut world = World::new(quota(10), 100);
    world.set(400 * Nanos::DAY.get() as i64);
    let _ = world.timed(Intent::Take, 1, 6);
    world.limit = world.store.limit("limit", quota(20), Carry::AsIs, world.clock.now()).unwrap();
    assert_eq!(world.left(1), 14, "what was used this day stays used");
    world.set(Nanos::DAY.get() as i64);
    assert_eq!(world.left(1), 20);
}

#[test]
fn a_single_window_follows_the_wall_clock_and_a_single_bucket_does_not() {
    let clock = ManualClock::default();
    let hour = WindowQuota::new(5, Nanos::HOUR).unwrap();
    let window = Bucket::with_clock(tidegate_core::Meter::FixedWindow(hour), clock.clone());
    let bucket = Bucket::with_clock(Quota::per_hour(5).unwrap(), clock.clone());
    let all = Cost::new(5);
    assert!(window.take(all).is_allowed() && bucket.take(all).is_allowed());
    clock.set_wall(clock.wall().saturating_sub(Nanos::DAY));
    assert!(!window.take(Cost::ONE).is_allowed() && !bucket.take(Cost::ONE).is_allowed());
    clock.set_wall(clock.wall().saturating_add(Nanos::new(2 * Nanos::DAY.get())));
    assert!(window.take(all).is_allowed(), "another hour has begun");
    assert!(!bucket.take(Cost::ONE).is_allowed(), "no time has passed");
    let denied = window.peek(Cost::ONE);
    let end = clock.wall().saturating_add(denied.wait().unwrap());
    assert_eq!(end.get() % Nanos::HOUR.get(), 0, "the wait ends at a full hour of the wall clock");
}

/// Debts of windows end by the wall clock, those of buckets by the monotonic one: if the two are far apart,
/// neither may be replaced before its end.
#[test]
fn a_debt_is_kept_whichever_clock_is_ahead() {
    for ahead in [400_i64, -400] {
        let clock = ManualClock::default();
        let store =
            Memory::with_clock(MemoryOptions { max_keys: 1, ..MemoryOptions::default() }, clock.clone())
                .unwrap();
        let named = |name, limit| store.limit(name, limit, Carry::AsIs, clock.now()).unwrap();
        let quick = named("quick", Quota::per_second(1).unwrap().into());
        let bucket = named("bucket", Quota::per_hour(2_000).unwrap().into());
        let window = named("window", Limit::fixed_window(WindowQuota::new(2_000, Nanos::DAY).unwrap()));
        let take = |limit: &LimitRef, key: u32, cost: u32| {
            let key = key.to_be_bytes();
            store.charge_now(Intent::Take, &[Charge::new(limit, &key, Cost::new(cost))], clock.now()).allowed
        };
        let wall = clock.wall().get().saturating_add_signed(ahead * Nanos::DAY.get() as i64);
        clock.set_wall(Nanos::new(wall));
        let mut filler = 0;
        while store.stats().overflows == 0 {
            filler += 1;
            take(&quick, filler, 1);
        }
        let (first, other) = if ahead > 0 { (&bucket, &window) } else { (&window, &bucket) };
        let all = first.limit().capacity();
        assert!(take(first, 1, all), "from the shared bucket");
        (0..other.limit().capacity()).for_each(|key| assert!(take(other, 10 + key, 1)));
        // Now the keys that filled the table are idle and can be evicted.
        clock.advance(Nanos::from_secs(2));
        assert!(!take(first, 1, 5), "what it drew is not granted twice, {ahead} days ahead");
    }
}
