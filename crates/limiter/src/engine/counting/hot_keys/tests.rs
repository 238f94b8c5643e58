use std::thread;

use proptest::prelude::*;

use super::*;

fn shown(key: &[u8]) -> String {
    Label::new(key).to_string()
}

#[test]
fn with_room_for_all_counts_are_exact() {
    let hot = HotKeys::new(8);
    for (key, times) in [("a", 3), ("b", 7), ("c", 1)] {
        (0..times).for_each(|_| hot.record(5, key.as_bytes(), 2));
    }
    let top = hot.top(2);
    assert_eq!(top[0], HotKey { limit: 5, key: "b".to_owned(), count: 14, error: 0 });
    assert_eq!(top[1], HotKey { limit: 5, key: "a".to_owned(), count: 6, error: 0 });
    assert_eq!(top.len(), 2);
}

#[test]
fn the_same_key_of_two_limits_is_two_keys() {
    let hot = HotKeys::new(8);
    hot.record(1, b"a", 1);
    hot.record(2, b"a", 1);
    let limits: Vec<u32> = hot.top(10).iter().map(|key| key.limit).collect();
    assert_eq!(limits, [1, 2]);
}

#[test]
fn a_hot_key_survives_a_flood() {
    let hot = HotKeys::new(16);
    for n in 0..20_000_u32 {
        hot.record(0, &n.to_be_bytes(), 1);
        if n % 4 == 0 {
            hot.record(0, b"hot", 1);
        }
    }
    let top = hot.top(1);
    assert_eq!(top[0].key, "hot");
    assert!(top[0].count >= 5_000 && top[0].count - top[0].error <= 5_000);
}

#[test]
fn threads_are_added_up() {
    let hot = HotKeys::new(4);
    thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| (0..500).for_each(|_| hot.record(0, b"shared", 1)));
        }
    });
    assert_eq!(
        hot.top(9),
        [HotKey { limit: 0, key: "shared".to_owned(), count: 1_000 * SHARDS as u64, error: 0 }]
    );
}

#[test]
fn a_new_span_begins_with_nothing() {
    let hot = HotKeys::new(2);
    (0..100_u32).for_each(|n| hot.record(0, &n.to_be_bytes(), 9));
    hot.clear();
    assert_eq!(hot.top(9), []);
    hot.record(0, b"a", 1);
    assert_eq!(hot.top(9), [HotKey { limit: 0, key: "a".to_owned(), count: 1, error: 0 }]);
}

#[test]
fn counts_stop_at_the_top_instead_of_wrapping() {
    let hot = HotKeys::new(1);
    hot.record(0, b"a", u64::MAX);
    hot.record(0, b"a", 5);
    hot.record(0, b"b", 5);
    let top = hot.top(1);
    assert_eq!((top[0].key.as_str(), top[0].count, top[0].error), ("b", u64::MAX, u64::MAX));
}

#[test]
fn labels_are_printable_whatever_the_key() {
    assert_eq!(shown(b"user:42"), "user:42");
    assert_eq!(shown("Zoë \"z\"".as_bytes()), "Zoë \"z\"");
    assert_eq!(shown(b"a\nb\x1b[31m\\\0"), "a\\nb\\u{1b}[31m\\\\\\0");
    assert_eq!(shown("\u{202e}txt".as_bytes()), "\\u{202e}txt");
    assert_eq!(shown(b"\xff\xc3("), "\\xff\\xc3(");
    assert_eq!(shown(b""), "");
}

#[test]
fn long_labels_are_cut_between_characters() {
    assert_eq!(shown(&[b'a'; 48]), "a".repeat(48));
    assert_eq!(shown(&[b'a'; 49]), "a".repeat(48) + "…");
    let snow = "☃".repeat(20);
    assert_eq!(shown(snow.as_bytes()), "☃".repeat(16) + "…");
    assert_eq!(shown(format!("a{snow}").as_bytes()), format!("a{}…", "☃".repeat(15)));
    assert_eq!(shown(&[0x80; 60]), "\\x80".repeat(45) + "…");
}

proptest! {
    #[test]
    fn the_truth_lies_between_count_less_error_and_count(
        records in prop::collection::vec((0..SHARDS, 0_u8..24, 1_u64..9), 0..600),
        k in 1_usize..20,
    ) {
        let hot = HotKeys::new(k);
        let mut exact = HashMap::<String, u64>::new();
        for (shard, key, weight) in records {
            // Few keys are frequent, many are rare.
            let key = (key.saturating_sub(12)).to_string();
            hot.record_in(shard, 0, key.as_bytes(), weight);
            *exact.entry(key).or_default() += weight;
        }
        let top = hot.top(usize::MAX);
        for found in &top {
            let truth = exact[&found.key];
            prop_assert!(found.count - found.error <= truth && truth <= found.count, "{found:?}: {truth}");
        }
        // A key that is missing occurred at most as often as one key may without being tracked.
        let floors: u64 = (0..SHARDS).map(|shard| hot.summary(shard).floor()).sum();
        for (key, truth) in &exact {
            prop_assert!(*truth <= floors || top.iter().any(|found| found.key == *key));
        }
        let total: u64 = exact.values().sum();
        prop_assert!(floors * k as u64 <= total, "the floors are no more than the mean");
    }
}
