//! Real threads on real atomics: exactly what is available is admitted.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Bucket, Cost, Keyed, ManualClock, MemoryOptions, Nanos, Quota};

const THREADS: usize = 4;

/// Runs `work(thread)` on all threads at once and adds up what they return.
fn race(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let (barrier, sum) = (Barrier::new(THREADS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, sum, work) = (&barrier, &sum, &work);
            scope.spawn(move || {
                barrier.wait();
                sum.fetch_add(work(thread), Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}

fn slow(capacity: u32) -> Quota {
    Quota::new(1, Nanos::new(366 * Nanos::DAY.get()), capacity).unwrap()
}

fn keyed(capacity: u32, max_keys: usize, clock: &ManualClock) -> Keyed<u64, ManualClock> {
    let options = MemoryOptions { max_keys, ..MemoryOptions::default() };
    Keyed::with(slow(capacity), options, clock.clone()).unwrap()
}

#[test]
fn a_bucket_admits_exactly_its_capacity() {
    // A check and a charge in two steps would admit 101 of 100.
    for round in 0..300 {
        let bucket = Bucket::with_clock(slow(100), ManualClock::default());
        let admitted = race(|_| (0..60).filter(|_| bucket.take(Cost::ONE).is_allowed()).count() as u64);
        assert_eq!(admitted, 100, "round {round}");
    }
}

#[test]
fn refunds_and_takes_balance() {
    let bucket = Bucket::with_clock(slow(190), ManualClock::default());
    // Each thread takes some tokens and gives all of them back except the last few.
    let kept = race(|thread| {
        let mut held = 0;
        for turn in 0..20_000 {
            if (turn + thread) % 3 != 0 {
                held += u64::from(bucket.take(Cost::ONE).is_allowed());
            } else if held > 0 {
                bucket.refund(Cost::ONE);
                held -= 1;
            }
        }
        held
    });
    let left = u64::from(bucket.peek(Cost::ONE).remaining);
    assert_eq!(kept + left, 190);
}

#[test]
fn each_of_many_keys_admits_exactly_its_capacity() {
    const KEYS: u64 = 20_000;
    let clock = ManualClock::default();
    let keyed = keyed(7, 40_000, &clock);
    let admitted = race(|thread| {
        let mut admitted = 0;
        for turn in 0..3 {
            for i in 0..KEYS {
                // Threads run through the keys in different orders, so that inserts race too.
                let key = (i.wrapping_mul(2 * thread as u64 + 1) + turn) % KEYS;
                admitted += u64::from(keyed.take(&key, Cost::ONE).is_allowed());
            }
        }
        admitted
    });
    // Some orders may skip keys at even multiples; take the rest of each key.
    let rest: u64 =
        (0..KEYS).map(|key| (0..8).filter(|_| keyed.take(&key, Cost::ONE).is_allowed()).count() as u64).sum();
    assert_eq!(keyed.stats().overflows, 0, "half full: everybody has a slot");
    assert_eq!(admitted + rest, 7 * KEYS);
    assert_eq!(keyed.stats().keys, KEYS);
}

#[test]
fn a_crowded_table_grants_no_key_more_than_its_capacity() {
    // Far more keys than slots: they overflow, and come and go as slots become free.
    const KEYS: usize = 400;
    let clock = ManualClock::default();
    for round in 0..40 {
        let keyed = keyed(5, 64, &clock);
        let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        race(|thread| {
            for turn in 0..4_000 {
                let key = (turn * (2 * thread + 1) + round) % KEYS;
                if keyed.take(&(key as u64), Cost::ONE).is_allowed() {
                    admitted[key].fetch_add(1, Ordering::Relaxed);
                    if turn % 5 == 0 {
                        // Handing it back frees slots while others use them.
                        keyed.refund(&(key as u64), Cost::ONE);
                        admitted[key].fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
            0
        });
        for (key, admitted) in admitted.iter().enumerate() {
            let admitted = admitted.load(Ordering::Relaxed);
            assert!(admitted <= 5, "round {round}: key {key} got {admitted} of 5");
        }
    }
}

#[test]
fn keys_that_go_idle_and_return_stay_within_their_envelope() {
    // One token each, back after a millisecond; far more keys than slots, so that slots change keys all the
    // time while the clock moves.
    const KEYS: usize = 2_000;
    let clock = ManualClock::default();
    let quota = Quota::new(1, Nanos::MILLISECOND, 1).unwrap();
    let options = MemoryOptions { max_keys: 700, ..MemoryOptions::default() };
    let keyed: Keyed<usize, _> = Keyed::with(quota, options, clock.clone()).unwrap();
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    const STEPS: u64 = 200;
    for step in 0..STEPS {
        race(|thread| {
            for i in 0..KEYS {
                let key = (i * (2 * thread + 1) + step as usize) % KEYS;
                if keyed.take(&key, Cost::ONE).is_allowed() {
                    admitted[key].fetch_add(1, Ordering::Relaxed);
                }
            }
            0
        });
        clock.advance(Nanos::from_millis(1));
        for (key, admitted) in admitted.iter().enumerate() {
            let admitted = admitted.load(Ordering::Relaxed);
            assert!(admitted <= step + 1, "step {step}: key {key} got {admitted}");
        }
    }
    assert!(keyed.stats().evictions > 10_000, "slots did change hands: {:?}", keyed.stats());
}

#[test]
fn several_limits_for_one_key_are_all_or_nothing() {
    let clock = ManualClock::default();
    for round in 0..50 {
        let keyed = keyed(100, 1_000, &clock).and(slow(60)).unwrap().and(slow(80)).unwrap();
        let admitted = race(|_| (0..40).filter(|_| keyed.take_all(&1, Cost::ONE).allowed).count() as u64);
        assert!(admitted <= 60, "round {round}");
        let left = keyed.take_all(&1, Cost::ZERO).decisions;
        let left = [left[0].remaining, left[1].remaining, left[2].remaining].map(u64::from);
        assert_eq!(left, [100 - admitted, 60 - admitted, 80 - admitted], "round {round}");
    }
}

#[test]
fn buckets_taken_together_are_all_or_nothing() {
    for round in 0..100 {
        let clock = ManualClock::default();
        let buckets = [50, 30, 40].map(|capacity| Bucket::with_clock(slow(capacity), clock.clone()));
        let admitted = race(|thread| {
            let charges = [0, 1, 2].map(|i| (&buckets[(i + thread) % 3], Cost::ONE));
            (0..20).filter(|_| Bucket::take_all(&charges).allowed).count() as u64
        });
        let left = buckets.map(|bucket| u64::from(bucket.peek(Cost::ONE).remaining));
        assert!(admitted <= 30, "round {round}");
        assert_eq!(left, [50 - admitted, 30 - admitted, 40 - admitted], "round {round}");
    }
}
