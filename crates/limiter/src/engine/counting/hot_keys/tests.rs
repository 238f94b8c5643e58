use std::thread;

use proptest::prelude::*;

use super::*;

fn shown(key: &[u8]) -> String {
    Label::new(key).to_string()
}

fn hot_key(limit: u32, key: &str, count: u64) -> HotKey {
    let (recorded, parts) = (key.as_bytes().to_vec(), vec![key.to_owned()]);
    HotKey { limit, key: key.to_owned(), parts, recorded, is_cut: false, count, error: 0 }
}

#[test]
fn with_room_for_all_counts_are_exact() {
    let hot = HotKeys::new(8);
    for (key, times) in [("a", 3), ("b", 7), ("c", 1)] {
        (0..times).for_each(|_| hot.record(5, key.as_bytes(), 2));
    }
    let top = hot.top(2).keys;
    assert_eq!(top[0], hot_key(5, "b", 14));
    assert_eq!(top[1], hot_key(5, "a", 6));
    assert_eq!(top.len(), 2);
}

#[test]
fn the_same_key_of_two_limits_is_two_keys() {
    let hot = HotKeys::new(8);
    hot.record(1, b"a", 1);
    hot.record(2, b"a", 1);
    let limits: Vec<u32> = hot.top(10).keys.iter().map(|key| key.limit).collect();
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
    let top = hot.top(1).keys;
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
    assert_eq!(hot.top(9).keys, [hot_key(0, "shared", 1_000 * SHARDS as u64)]);
}

#[test]
fn a_span_counts_until_the_end_of_the_next() {
    let hot = HotKeys::new(2);
    let counts = || hot.top(9).keys.into_iter().map(|key| (key.key, key.count)).collect::<Vec<_>>();
    let key = |key: &str, count| (key.to_owned(), count);
    hot.record(0, b"a", 4);
    hot.start_span();
    hot.record(0, b"a", 1);
    hot.record(0, b"b", 3);
    assert_eq!(counts(), [key("a", 5), key("b", 3)], "both spans");
    hot.start_span();
    assert_eq!(counts(), [key("b", 3), key("a", 1)], "what is older is forgotten");
    hot.start_span();
    assert_eq!(counts(), []);
}

#[test]
fn what_is_not_listed_is_no_more_than_is_said() {
    let hot = HotKeys::new(4);
    for (key, weight) in [("a", 9), ("b", 5), ("c", 2)] {
        hot.record(0, key.as_bytes(), weight);
    }
    assert_eq!([0, 1, 2, 3].map(|n| hot.top(n).others_at_most), [9, 5, 2, 0]);
    hot.record(0, b"d", 7);
    assert_eq!(hot.top(4).others_at_most, 2, "a fifth key would take the place of c");
}

#[test]
fn keys_of_other_limits_take_no_places() {
    let hot = HotKeys::new(8);
    for (limit, key, weight) in [(1, "a", 9), (2, "b", 8), (2, "c", 7), (1, "d", 3), (1, "e", 2)] {
        hot.record(limit, key.as_bytes(), weight);
    }
    let top = hot.top_of(2, |limit| limit == 1);
    assert_eq!(top, TopKeys { keys: vec![hot_key(1, "a", 9), hot_key(1, "d", 3)], others_at_most: 2 });
}

#[test]
fn counts_stop_at_the_top_instead_of_wrapping() {
    let hot = HotKeys::new(1);
    hot.record(0, b"a", u64::MAX);
    hot.record(0, b"a", 5);
    hot.record(0, b"b", 5);
    let top = hot.top(1).keys;
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
fn a_client_cannot_forge_parts_of_a_key() {
    let parts = |key: &[u8]| Label::new(key).parts();
    assert_eq!(parts(b"ann\x1fget\x1f"), ["ann", "get"]);
    assert_eq!(parts(b"ann\\u{1f}get\x1f/\x1f"), ["ann\\\\u{1f}get", "/"], "it looks like a separator");
    assert_eq!(parts(b"ann"), ["ann"]);
    assert_eq!(parts(b"\x1fann\x1f\x1f"), ["", "ann", ""]);
    let long = "x".repeat(45);
    assert_eq!(parts(format!("a\x1f{long}\x1f").as_bytes()), ["a", &long]);
    assert_eq!(parts(format!("a\x1f{long}\x1fb\x1f").as_bytes()), ["a", &long, "…"]);
    assert_eq!(parts(format!("a\x1f{long}xb\x1f").as_bytes()), ["a", &format!("{long}x…")]);
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
        turn in 0_usize..600,
    ) {
        let hot = HotKeys::new(k);
        let mut exact = HashMap::<String, u64>::new();
        for (place, (shard, key, weight)) in records.into_iter().enumerate() {
            if place == turn {
                hot.start_span();
            }
            // Few keys are frequent, many are rare.
            let key = (key.saturating_sub(12)).to_string();
            hot.record_in(shard, 0, key.as_bytes(), weight);
            *exact.entry(key).or_default() += weight;
        }
        let TopKeys { keys: top, others_at_most } = hot.top(usize::MAX);
        for found in &top {
            let truth = exact[&found.key];
            prop_assert!(found.count - found.error <= truth && truth <= found.count, "{found:?}: {truth}");
        }
        // A key that is missing occurred at most as often as one key may without being tracked.
        for (key, truth) in &exact {
            prop_assert!(*truth <= others_at_most || top.iter().any(|found| found.key == *key));
        }
        let total: u64 = exact.values().sum();
        prop_assert!(others_at_most * k as u64 <= total, "that is no more than the mean");
    }
}
