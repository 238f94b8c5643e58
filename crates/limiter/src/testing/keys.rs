//! Many keys, strange keys, too many keys.

use super::Harness;
use super::bench::{Bench, START, at, bucket, fixed_window, sliding_log, sliding_window, ten_a_minute};
use crate::Nanos;

pub(super) fn hostile_keys<H: Harness>(harness: &H) {
    let long = vec![b'x'; 64 * 1_024];
    let longer = vec![b'x'; 64 * 1_024 + 1];
    let keys: [&[u8]; 16] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"A",
        b"a\0",
        b"a\0b",
        b"a:b",
        b"a::b",
        b"{x}",
        b"{x}y",
        b"\r\nSET a b\r\n",
        "\u{202e}é".as_bytes(),
        b"\xff\xfe",
        &long,
        &longer,
    ];
    for limit in ten_a_minute() {
        let bench = Bench::new(harness);
        let limit = bench.limit("hostile", limit);
        for (used, key) in keys.iter().enumerate() {
            let _ = bench.take(&limit, key, used as u32 % 10, START);
        }
        for (used, key) in keys.iter().enumerate() {
            let left = bench.left(&limit, key, START);
            assert_eq!(left, 10 - used as u32 % 10, "{limit:?}: key {used} shares with another");
        }
    }
}

pub(super) fn limits_apart<H: Harness>(harness: &H) {
    let bench = Bench::new(harness);
    let [a, b] = ["a", "b"].map(|name| bench.limit(name, ten_a_minute()[0]));
    let _ = bench.take(&a, b"key", 10, START);
    assert_eq!(bench.left(&b, b"key", START), 10, "two limits of equal numbers share a bucket");
    assert_eq!(bench.limit("a", ten_a_minute()[0]).id(), a.id());
}

pub(super) fn flood_refills_nobody<H: Harness>(harness: &H) {
    let limits = [
        bucket(1, Nanos::HOUR, 5),
        sliding_window(5, Nanos::HOUR),
        fixed_window(5, Nanos::HOUR),
        sliding_log(5, Nanos::HOUR),
    ];
    for limit in limits {
        let bench = Bench::with_keys(harness, 100);
        let limit = bench.limit("flooded", limit);
        assert_eq!(bench.drain(&limit, b"victim", 10, START), 5);
        for stranger in 0..2_000_u32 {
            let _ = bench.take(&limit, &stranger.to_le_bytes(), 1, at(u64::from(stranger)));
            if stranger % 100 == 0 {
                let now = at(u64::from(stranger));
                assert_eq!(bench.drain(&limit, b"victim", 10, now), 0, "{limit:?}: refilled by other keys");
            }
        }
    }
}

/// A key that first went to the overflow bucket and then got a slot has one budget, not two.
pub(super) fn overflow_is_not_granted_twice<H: Harness>(harness: &H) {
    let bench = Bench::with_keys(harness, 1);
    let brief = bench.limit("brief", bucket(1, Nanos::SECOND, 1));
    let limit = bench.limit("limit", bucket(1, Nanos::HOUR, 5));
    // Use every slot for a second, then charge a key of the slow limit.
    for stranger in 0..500_u32 {
        let _ = bench.take(&brief, &stranger.to_le_bytes(), 1, START);
    }
    let before = bench.drain(&limit, b"key", 10, START);
    assert!(before <= 5);
    // Now there are free slots again.
    let after = bench.drain(&limit, b"key", 10, at(2_000));
    assert_eq!(before + after, 5, "granted twice");
}
