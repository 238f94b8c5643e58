//! Several limits charged as one: all or none, also when threads race.

use std::sync::atomic::{AtomicU32, Ordering};

use super::bench::{Bench, START, at, bucket, fixed_window, sliding_log, sliding_window, ten_a_minute};
use super::{Charge, Harness};
use crate::{Cost, Intent, Nanos};

pub(super) fn all_or_nothing<H: Harness>(harness: &H) {
    for first in ten_a_minute() {
        for second in ten_a_minute() {
            let bench = Bench::new(harness);
            let (wide, narrow) = (bench.limit("wide", first), bench.limit("narrow", second));
            let _ = bench.take(&narrow, b"", 8, START);
            let both = |cost: u32| {
                let charges = [&wide, &narrow].map(|limit| Charge::new(limit, b"", Cost::new(cost)));
                bench.charge(Intent::Take, &charges, START)
            };
            let denied = both(3);
            assert!(!denied.allowed, "{narrow:?} had two left");
            assert!(denied.decisions[0].is_allowed() && !denied.decisions[1].is_allowed());
            assert_eq!(denied.decisions[0].remaining, 10, "{wide:?}: described as charged");
            assert_eq!(bench.left(&wide, b"", START), 10, "{wide:?}: charged though the other denied");
            let never = both(11);
            assert!(!never.allowed && never.decisions.iter().all(|decision| decision.is_never()));
            let allowed = both(2);
            assert!(allowed.allowed);
            assert_eq!([allowed.decisions[0].remaining, allowed.decisions[1].remaining], [8, 0]);
        }
    }
}

/// Threads race for three limits each; the middle one is the bottleneck.
pub(super) fn all_or_nothing_in_a_race<H: Harness>(harness: &H) {
    const THREADS: u32 = 4;
    let limits = [
        (bucket(1, Nanos::HOUR, 90), bucket(1, Nanos::HOUR, 60), bucket(1, Nanos::HOUR, 80)),
        (sliding_window(90, Nanos::HOUR), bucket(1, Nanos::HOUR, 60), fixed_window(80, Nanos::HOUR)),
        (sliding_log(90, Nanos::HOUR), sliding_log(60, Nanos::HOUR), bucket(1, Nanos::HOUR, 80)),
    ];
    for (round, (a, b, c)) in limits.into_iter().cycle().take(12).enumerate() {
        let bench = Bench::new(harness);
        let limits = [bench.limit("a", a), bench.limit("b", b), bench.limit("c", c)];
        let admitted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (bench, limits, admitted) = (&bench, &limits, &admitted);
                scope.spawn(move || {
                    for turn in 0..40 {
                        // Each thread charges in an order of its own.
                        let charges = [0, 1, 2].map(|i| {
                            let limit = &limits[((i + thread + turn) % 3) as usize];
                            Charge::new(limit, b"shared", Cost::ONE)
                        });
                        if bench.charge(Intent::Take, &charges, at(u64::from(turn))).allowed {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let admitted = admitted.into_inner();
        // A race may deny a charge while another is being handed back, so some tokens may be left.
        assert!(admitted <= 60, "round {round}: {admitted} admitted of 60");
        let rest = bench.drain(&limits[1], b"shared", 100, at(40));
        assert_eq!(admitted + rest, 60, "round {round}: a charge was lost or granted twice");
        assert_eq!(bench.left(&limits[0], b"shared", at(40)), 90 - admitted, "round {round}");
        assert_eq!(bench.left(&limits[2], b"shared", at(40)), 80 - admitted, "round {round}");
    }
}

pub(super) fn same_bucket_twice<H: Harness>(harness: &H) {
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("twice", limit);
        let twice = |cost: u32| {
            let charge = Charge::new(&limit, b"key", Cost::new(cost));
            bench.charge(Intent::Take, &[charge, charge], START).allowed
        };
        assert!(!twice(6), "{limit:?}: twelve of ten");
        assert_eq!(bench.left(&limit, b"key", START), 10, "{limit:?}: half of it was kept");
        assert!(twice(5), "{limit:?}");
        assert_eq!(bench.left(&limit, b"key", START), 0, "{limit:?}");
    }
}

pub(super) fn advisory<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let (binding, shadow) =
        (bench.limit("binding", ten_a_minute()[0]), bench.limit("shadow", bucket(1, Nanos::HOUR, 2)));
    let take = |cost: u32| {
        let charges = [
            Charge::advisory(&shadow, b"key", Cost::new(cost)),
            Charge::new(&binding, b"key", Cost::new(cost)),
        ];
        bench.charge(Intent::Take, &charges, START)
    };
    assert!(take(2).allowed);
    assert_eq!(bench.left(&shadow, b"key", START), 0, "charged, because it admitted");
    let over = take(3);
    assert!(over.allowed && !over.decisions[0].is_allowed(), "an advisory denial refuses nothing");
    assert_eq!(bench.left(&binding, b"key", START), 5);
    let _ = bench.refund(&shadow, b"key", 2, START);
    assert!(!take(6).allowed);
    assert!(!take(9).allowed);
    assert_eq!(bench.left(&shadow, b"key", START), 2, "not charged, because the request was denied");
}
