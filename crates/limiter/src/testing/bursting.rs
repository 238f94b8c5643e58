//! Burst detectors: on a store that shares them, its own; otherwise those of the engine.

use super::bench::{ROOMY, at};
use super::{Harness, Store};
#[cfg(feature = "policy")]
use crate::engine::bursts::BurstWatch;
use crate::{BurstAction, BurstCount, BurstDetector, BurstVerdict, Nanos, SharedBursts, SharedPenalty};

/// More than three requests in ten seconds are a burst.
const DETECTOR: BurstDetector =
    BurstDetector { id: 1, window: Nanos::from_secs(10), threshold: 3, penalty: Nanos::from_secs(300) };

const WARNED: BurstVerdict = BurstVerdict { blocked_until: None, action: Some(BurstAction::Warned) };
const QUIET: BurstVerdict = BurstVerdict { blocked_until: None, action: None };

/// Counts a request of a key at `now`, and returns what the detector says.
type CountOne<'a> = dyn Fn(&BurstDetector, &[u8], Nanos) -> BurstVerdict + 'a;

/// Runs a check with the detectors of a new store, and, where they exist, with those of the engine.
fn with_detectors<H: Harness>(harness: &H, check: impl Fn(&CountOne<'_>)) {
    let store = harness.store(ROOMY);
    if let Some(shared) = store.shared_bursts() {
        check(&|detector, key, now| {
            let count = BurstCount { detector: *detector, key: shared.key(detector, key) };
            assert!(harness.run(shared.ask([count].into_iter().collect(), now)), "the server answers");
            shared.known(&count, true, now).verdict
        });
        return;
    }
    #[cfg(feature = "policy")]
    {
        let watch = BurstWatch::new(ROOMY);
        check(&|detector, key, now| watch.watch(detector, key, true, now));
    }
    #[cfg(not(feature = "policy"))]
    let _ = check;
}

/// Sends requests up to the one that crosses the threshold, and returns what it is told.
fn burst(count: &CountOne<'_>, key: &[u8], millis: u64) -> BurstVerdict {
    for _ in 0..DETECTOR.threshold {
        assert_eq!(count(&DETECTOR, key, at(millis)).action, None, "below the threshold");
    }
    count(&DETECTOR, key, at(millis))
}

pub(super) fn escalates<H: Harness>(harness: &H) {
    with_detectors(harness, |count| {
        assert_eq!(burst(count, b"key", 1_000), WARNED);
        for _ in 0..20 {
            assert_eq!(count(&DETECTOR, b"key", at(9_999)), QUIET, "once a window");
        }
        let blocked = burst(count, b"key", 10_000);
        let until = Some(at(610_000));
        assert_eq!(blocked, BurstVerdict { blocked_until: until, action: Some(BurstAction::Blocked) });
        for millis in [10_000, 20_000, 609_999] {
            let still = count(&DETECTOR, b"key", at(millis));
            assert_eq!(still, BurstVerdict { blocked_until: until, action: None }, "at {millis} ms");
        }
        assert_eq!(burst(count, b"key", 620_000), WARNED, "after the block, a first offence again");
    });
}

pub(super) fn windows_are_aligned<H: Harness>(harness: &H) {
    with_detectors(harness, |count| {
        for millis in [7_000, 8_000, 9_999, 10_000, 11_000, 12_000] {
            assert_eq!(count(&DETECTOR, b"key", at(millis)), QUIET, "three in each of two windows");
        }
        assert_eq!(count(&DETECTOR, b"key", at(13_000)), WARNED);
        assert_eq!(count(&DETECTOR, b"other", at(13_000)), QUIET, "keys are apart");
        let other = BurstDetector { id: 2, ..DETECTOR };
        assert_eq!(count(&other, b"key", at(13_000)), QUIET, "and so are detectors");
        // The warning ends at 313 seconds, excluded.
        assert_eq!(burst(count, b"key", 313_000), WARNED);
    });
}

pub(super) fn edits_keep_penalties<H: Harness>(harness: &H) {
    with_detectors(harness, |count| {
        assert_eq!(burst(count, b"key", 1_000), WARNED);
        let stricter = BurstDetector { threshold: 1, ..DETECTOR };
        assert_eq!(count(&stricter, b"key", at(2_000)), QUIET, "crossed already");
        let longer = BurstDetector { window: Nanos::MINUTE, threshold: 1, ..DETECTOR };
        assert_eq!(count(&longer, b"key", at(3_000)), QUIET, "another length counts anew");
        let action = count(&longer, b"key", at(4_000)).action;
        assert_eq!(action, Some(BurstAction::Blocked), "the warning has stayed");
    });
}

/// Only where detectors are shared.
pub(super) fn penalties_are_listed_and_lifted<H: Harness>(harness: &H) {
    let store = harness.store(ROOMY);
    let Some(shared) = store.shared_bursts() else { return };
    let ids = |shared: &dyn SharedBursts, after, most| {
        let page = harness.run(shared.listed(after, most)).expect("the server answers");
        (page.penalties.iter().map(|penalty| (penalty.key, penalty.kind)).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(ids(shared, None, 10), (Vec::new(), None));
    let mut keys: Vec<u128> = Vec::new();
    for name in [b"a", b"b", b"c"] {
        let count = BurstCount { detector: DETECTOR, key: shared.key(&DETECTOR, name) };
        for _ in 0..=DETECTOR.threshold {
            assert!(harness.run(shared.ask([count].into_iter().collect(), at(1_000))), "the server answers");
        }
        shared.list(SharedPenalty {
            key: count.key,
            detector: "detector".into(),
            shown: "…".into(),
            kind: BurstAction::Warned,
            left: DETECTOR.penalty,
        });
        keys.push(count.key);
    }
    keys.sort_unstable();
    let warned = |keys: &[u128]| keys.iter().map(|&key| (key, BurstAction::Warned)).collect::<Vec<_>>();
    assert_eq!(ids(shared, None, 10), (warned(&keys), None));
    assert_eq!(ids(shared, None, 2), (warned(&keys[..2]), Some(keys[1])));
    assert_eq!(ids(shared, Some(keys[1]), 2), (warned(&keys[2..]), None));
    assert!(harness.run(shared.lift(keys[1])), "the server answers");
    assert_eq!(ids(shared, None, 10).0, warned(&[keys[0], keys[2]]));
}
