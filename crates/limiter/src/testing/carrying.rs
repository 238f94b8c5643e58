//! Editing a limit in use.

use super::Harness;
use super::bench::{Bench, START, at, bucket, fixed_window, sliding_log, sliding_window};
use crate::{Carry, Limit, Nanos};

/// The same edit of each algorithm, and what is left of 10 when 7 are used and the limit becomes 20, or 5: a
/// bucket keeps its tokens, a window its counts.
type Edit = (fn(u32) -> Limit, [(Carry, u32, u32); 3]);

fn edits_of_each() -> [Edit; 4] {
    let window = [(Carry::AsIs, 13, 0), (Carry::Proportional, 6, 1), (Carry::Reset, 20, 5)];
    [
        (
            |n| bucket(1, Nanos::HOUR, n),
            [(Carry::AsIs, 3, 3), (Carry::Proportional, 6, 1), (Carry::Reset, 20, 5)],
        ),
        (|n| sliding_window(n, Nanos::HOUR), window),
        (|n| fixed_window(n, Nanos::HOUR), window),
        (|n| sliding_log(n, Nanos::HOUR), window),
    ]
}

pub(super) fn edits<H: Harness>(harness: &H) {
    for (make, cases) in edits_of_each() {
        for (carry, raised, lowered) in cases {
            for (size, expected) in [(20, raised), (5, lowered)] {
                let bench = Bench::new(harness);
                let old = bench.limit("edited", make(10));
                let _ = bench.take(&old, b"key", 7, START);
                let new = bench.edit("edited", make(size), carry, START);
                assert_eq!(bench.left(&new, b"key", START), expected, "{old:?} to {new:?}, {carry:?}");
                assert_eq!(bench.drain(&new, b"key", 50, START), expected, "{old:?} to {new:?}, {carry:?}");
            }
        }
    }
}

pub(super) fn edits_at_their_time<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let fast = bucket(100, Nanos::SECOND, 1_000);
    let slow = bucket(1, Nanos::SECOND, 1_000);
    let limit = bench.limit("edited", fast);
    let _ = bench.take(&limit, b"key", 1_000, START);
    // One second at the fast rate; the key is used again only much later.
    bench.edit("edited", slow, Carry::AsIs, at(1_000));
    let back_to_fast = bench.edit("edited", fast, Carry::AsIs, at(11_000));
    assert_eq!(bench.left(&back_to_fast, b"key", at(12_000)), 100 + 10 + 100);
}

pub(super) fn old_handle<H: Harness>(harness: &H) {
    for (make, _) in edits_of_each() {
        let bench = Bench::new(harness);
        let old = bench.limit("edited", make(10));
        let _ = bench.take(&old, b"key", 2, START);
        let new = bench.edit("edited", make(5), Carry::AsIs, START);
        let _ = bench.take(&new, b"key", 1, START);
        let left = bench.left(&new, b"key", START);
        // A request that began before the edit ends after it.
        let late = bench.take(&old, b"key", 1, START);
        assert!(late.is_allowed() && late.limit == 5, "{old:?}: decided by the old numbers");
        assert_eq!(bench.left(&new, b"key", START), left - 1, "{new:?}");
    }
}

pub(super) fn full_stays_full<H: Harness>(harness: &H) {
    for (make, _) in edits_of_each() {
        for carry in [Carry::AsIs, Carry::Proportional, Carry::Reset] {
            let bench = Bench::new(harness);
            let old = bench.limit("edited", make(10));
            let _ = bench.take(&old, b"key", 1, START);
            let _ = bench.refund(&old, b"key", 1, START);
            let new = bench.edit("edited", make(20), carry, START);
            for key in [b"key".as_slice(), b"unseen"] {
                assert_eq!(bench.left(&new, key, START), 20, "{new:?}, {carry:?}");
            }
            assert_eq!(bench.edit("edited", make(20), carry, START).id(), new.id(), "nothing was edited");
        }
    }
}
