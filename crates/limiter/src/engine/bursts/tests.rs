use std::collections::HashMap;
use std::thread;

use proptest::prelude::*;

use super::*;

const DETECTOR: BurstDetector =
    BurstDetector { id: 1, window: Nanos::from_secs(10), threshold: 3, penalty: Nanos::from_secs(300) };

fn at(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

fn quiet() -> BurstVerdict {
    BurstVerdict::default()
}

fn blocked(until: u64) -> BurstVerdict {
    BurstVerdict { blocked_until: Some(at(until)), action: None }
}

/// Sends requests up to the one that crosses the threshold, and returns its result.
fn burst(watch: &BurstWatch, key: &[u8], secs: u64) -> BurstVerdict {
    for _ in 0..DETECTOR.threshold {
        assert_eq!(watch.watch(&DETECTOR, key, true, at(secs)).action, None);
    }
    watch.watch(&DETECTOR, key, true, at(secs))
}

#[test]
fn a_first_offence_warns_and_one_while_warned_blocks() {
    let watch = BurstWatch::new(10);
    assert_eq!(burst(&watch, b"k", 100), BurstVerdict { action: Some(BurstAction::Warned), ..quiet() });
    let second = burst(&watch, b"k", 115);
    assert_eq!(second, BurstVerdict { blocked_until: Some(at(715)), action: Some(BurstAction::Blocked) });
    assert_eq!(watch.watch(&DETECTOR, b"k", false, at(714)), blocked(715));
    assert_eq!(watch.watch(&DETECTOR, b"k", false, at(715)), quiet());
    assert_eq!(
        burst(&watch, b"k", 720).action,
        Some(BurstAction::Warned),
        "after the block, a first burst only warns again"
    );
}

#[test]
fn one_window_escalates_once() {
    let watch = BurstWatch::new(10);
    assert_eq!(burst(&watch, b"k", 100).action, Some(BurstAction::Warned));
    for _ in 0..1_000 {
        assert_eq!(watch.watch(&DETECTOR, b"k", true, at(109)), quiet());
    }
}

#[test]
fn a_warning_that_has_ended_is_forgotten() {
    let watch = BurstWatch::new(10);
    burst(&watch, b"k", 100);
    assert_eq!(burst(&watch, b"k", 400).action, Some(BurstAction::Warned), "it lasted until 400, excluded");
    assert_eq!(burst(&watch, b"k", 699).action, Some(BurstAction::Blocked));
}

#[test]
fn a_block_is_neither_longer_nor_shorter_for_more_bursts() {
    let watch = BurstWatch::new(10);
    burst(&watch, b"k", 100);
    burst(&watch, b"k", 110);
    assert_eq!(burst(&watch, b"k", 120), blocked(710));
    assert_eq!(burst(&watch, b"k", 705), blocked(710));
    assert_eq!(watch.watch(&DETECTOR, b"k", true, at(710)), quiet());
}

#[test]
fn windows_are_aligned_and_start_anew() {
    let watch = BurstWatch::new(10);
    for secs in [107, 108, 109, 110, 111, 112] {
        assert_eq!(watch.watch(&DETECTOR, b"k", true, at(secs)), quiet(), "three in each of two windows");
    }
    assert_eq!(watch.watch(&DETECTOR, b"k", true, at(113)).action, Some(BurstAction::Warned));
}

#[test]
fn looking_does_not_count() {
    let watch = BurstWatch::new(1);
    for _ in 0..100 {
        assert_eq!(watch.watch(&DETECTOR, b"other", false, at(100)), quiet());
    }
    assert_eq!(burst(&watch, b"k", 100).action, Some(BurstAction::Warned), "a look takes no entry");
    assert_eq!(watch.untracked(), 0);
}

#[test]
fn detectors_and_keys_are_apart() {
    let watch = BurstWatch::new(10);
    burst(&watch, b"k", 100);
    assert_eq!(burst(&watch, b"l", 110).action, Some(BurstAction::Warned));
    let other = BurstDetector { id: 2, ..DETECTOR };
    for _ in 0..DETECTOR.threshold {
        watch.watch(&other, b"k", true, at(110));
    }
    assert_eq!(watch.watch(&other, b"k", true, at(110)).action, Some(BurstAction::Warned));
}

#[test]
fn an_edit_keeps_penalties_and_escalates_once() {
    let watch = BurstWatch::new(10);
    watch.watch(&DETECTOR, b"k", true, at(100));
    watch.watch(&DETECTOR, b"k", true, at(100));
    let stricter = BurstDetector { threshold: 1, ..DETECTOR };
    assert_eq!(watch.watch(&stricter, b"k", true, at(101)).action, Some(BurstAction::Warned));
    assert_eq!(watch.watch(&DETECTOR, b"k", true, at(102)), quiet(), "crossed already");
    let longer = BurstDetector { window: Nanos::MINUTE, threshold: 1, ..DETECTOR };
    assert_eq!(watch.watch(&longer, b"k", true, at(103)), quiet());
    assert_eq!(watch.watch(&longer, b"k", true, at(104)).action, Some(BurstAction::Blocked));
}

#[test]
fn a_clock_that_steps_back_neither_unblocks_nor_escalates() {
    let watch = BurstWatch::new(10);
    burst(&watch, b"k", 100);
    for _ in 0..100 {
        assert_eq!(watch.watch(&DETECTOR, b"k", true, at(50)), quiet());
    }
    assert_eq!(
        watch.watch(&DETECTOR, b"k", true, at(105)),
        quiet(),
        "still the window whose threshold was crossed"
    );
    burst(&watch, b"k", 110);
    assert_eq!(watch.watch(&DETECTOR, b"k", true, at(0)), blocked(710));
}

#[test]
fn a_flood_of_keys_lifts_no_block_and_takes_no_more_room() {
    let watch = BurstWatch::new(64);
    burst(&watch, b"bad", 100);
    burst(&watch, b"bad", 110);
    for n in 0..10_000_u32 {
        watch.watch(&DETECTOR, &n.to_be_bytes(), true, at(111));
    }
    assert_eq!(watch.untracked(), 10_000 - 63);
    assert_eq!(watch.watch(&DETECTOR, b"bad", false, at(112)), blocked(710));
    for n in 0..63_u32 {
        watch.watch(&DETECTOR, &(n + 20_000).to_be_bytes(), true, at(120));
    }
    assert_eq!(watch.untracked(), 10_000 - 63, "expired entries are reused");
    assert_eq!(watch.watch(&DETECTOR, b"bad", false, at(709)), blocked(710));
}

#[test]
fn every_size_is_kept_to() {
    for max_keys in [0, 1, 3, 1_023, 3_000, 5_000] {
        let watch = BurstWatch::new(max_keys);
        for n in 0..20_000_u32 {
            watch.watch(&DETECTOR, &n.to_be_bytes(), true, at(1));
        }
        let tracked = 20_000 - watch.untracked() as usize;
        assert!(tracked <= max_keys && tracked + 4 > max_keys, "{tracked} of {max_keys}");
        let allocated: usize =
            watch.shards.iter().map(|shard| shard.0.lock().unwrap().slots.capacity()).sum();
        assert!(allocated <= max_keys);
    }
}

#[test]
fn odd_detectors_do_no_harm() {
    let watch = BurstWatch::new(10);
    let instant = BurstDetector { window: Nanos::ZERO, threshold: 0, penalty: Nanos::ZERO, ..DETECTOR };
    assert_eq!(
        watch.watch(&instant, b"k", true, at(1)),
        BurstVerdict { action: Some(BurstAction::Warned), ..quiet() }
    );
    let endless = BurstDetector { id: 2, window: Nanos::MAX, threshold: 0, penalty: Nanos::MAX };
    assert_eq!(watch.watch(&endless, b"k", true, Nanos::MAX).action, Some(BurstAction::Warned));
    let unreachable = BurstDetector { id: 3, threshold: u32::MAX, ..DETECTOR };
    assert_eq!(watch.watch(&unreachable, b"k", true, at(1)), quiet());
}

#[test]
fn threads_escalate_once_between_them() {
    let watch = BurstWatch::new(10);
    let warned = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let action = watch.watch(&DETECTOR, b"k", true, at(100)).action;
                    assert_ne!(action, Some(BurstAction::Blocked));
                    warned.fetch_add(u64::from(action.is_some()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(warned.into_inner(), 1);
}

/// The rules once more, in the simplest way: every counted request is kept, and nothing is dropped except by
/// time.
#[derive(Default)]
struct Model {
    keys: HashMap<(u64, u8), Kept>,
}

#[derive(Default)]
struct Kept {
    requests: Vec<(u64, Nanos)>,
    warned_until: Nanos,
    blocked_until: Nanos,
}

impl Model {
    fn carries(kept: &Kept, detector: &BurstDetector, now: Nanos) -> bool {
        let last = kept.requests.iter().map(|(window, _)| *window).max();
        let counted = last.is_some_and(|last| (last + 1) * detector.window.get() > now.get());
        counted || kept.warned_until > now || kept.blocked_until > now
    }

    fn watch(
        &mut self,
        detectors: &[BurstDetector],
        which: usize,
        key: u8,
        count: bool,
        now: Nanos,
        room: usize,
    ) -> BurstVerdict {
        let detector = &detectors[which];
        let by_id = |id: u64| detectors.iter().find(|d| d.id == id).unwrap();
        if !self.keys.contains_key(&(detector.id, key)) {
            if !count {
                return quiet();
            }
            if self.keys.len() == room {
                self.keys.retain(|(id, _), kept| Model::carries(kept, by_id(*id), now));
            }
            if self.keys.len() == room {
                return quiet();
            }
        }
        let kept = self.keys.entry((detector.id, key)).or_default();
        let mut action = None;
        let window = now.get() / detector.window.get();
        if count && kept.requests.iter().all(|(seen, _)| *seen <= window) {
            kept.requests.push((window, now));
            let counted = kept.requests.iter().filter(|(seen, _)| *seen == window).count();
            if counted == detector.threshold as usize + 1 && kept.blocked_until <= now {
                if kept.warned_until > now {
                    kept.blocked_until = Nanos::new(now.get() + 2 * detector.penalty.get());
                    kept.warned_until = Nanos::ZERO;
                    action = Some(BurstAction::Blocked);
                } else {
                    kept.warned_until = Nanos::new(now.get() + detector.penalty.get());
                    kept.blocked_until = Nanos::ZERO;
                    action = Some(BurstAction::Warned);
                }
            }
        }
        let blocked_until = (kept.blocked_until > now).then_some(kept.blocked_until);
        BurstVerdict { blocked_until, action }
    }
}

#[test]
fn lifting_ends_a_penalty_and_the_window_does_not_escalate_again() {
    let watch = BurstWatch::new(16);
    burst(&watch, b"a", 0);
    assert_eq!(burst(&watch, b"a", 10).action, Some(BurstAction::Blocked));
    watch.lift(watch.hash(DETECTOR.id, b"a"));
    watch.lift(watch.hash(DETECTOR.id, b"unknown"));
    assert_eq!(burst(&watch, b"a", 15), quiet(), "the window has escalated");
    assert_eq!(burst(&watch, b"a", 20).action, Some(BurstAction::Warned), "a first offence again");
}

#[test]
fn the_list_of_penalties_is_bounded() {
    let list = PenaltyList::default();
    let penalty = |id: u128, until: u64| BurstPenalty {
        id,
        detector: "d".into(),
        key: Box::default(),
        kind: BurstAction::Warned,
        until: at(until),
        origin: PenaltyOrigin::ThisNode,
    };
    let page = |after, most, secs| list.page(after, most, None, at(secs));
    let most = PENALTIES_LISTED_MAX as u128;
    (0..most).for_each(|id| list.add(penalty(id, if id % 2 == 0 { 10 } else { 20 }), 0, at(0)));
    list.add(penalty(most, 30), 0, at(5));
    assert_eq!(
        (page(None, PENALTIES_LISTED_MAX, 5).penalties.len(), list.unlisted()),
        (PENALTIES_LISTED_MAX, 1)
    );
    list.add(penalty(7, 40), 0, at(5));
    let seventh = BurstPenaltyPage { penalties: vec![penalty(7, 40)], next: Some(7) };
    assert_eq!(page(Some(6), 1, 5), seventh, "a known one is replaced");
    list.add(penalty(most, 30), 0, at(15));
    let left = page(None, PENALTIES_LISTED_MAX, 15).penalties;
    assert_eq!((left.len(), left.last()), (PENALTIES_LISTED_MAX / 2 + 1, Some(&penalty(most, 30))));
    assert_eq!(page(Some(most), 5, 15), BurstPenaltyPage::default());
    assert_eq!(list.page(None, 5, Some(PenaltyOrigin::SharedStore), at(15)), BurstPenaltyPage::default());
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(
        steps in prop::collection::vec((0_usize..2, 0_u8..8, prop::bool::weighted(0.9), -4_i64..12), 1..400),
        room in 1_usize..12,
    ) {
        let detectors = [
            BurstDetector { id: 1, window: Nanos::new(20), threshold: 2, penalty: Nanos::new(100) },
            BurstDetector { id: 2, window: Nanos::new(30), threshold: 0, penalty: Nanos::new(45) },
        ];
        let watch = BurstWatch::new(room);
        let mut model = Model::default();
        let mut now = 1_000_i64;
        for (which, key, count, passed) in steps {
            now += passed;
            let now = Nanos::new(now as u64);
            let real = watch.watch(&detectors[which], &[key], count, now);
            prop_assert_eq!(real, model.watch(&detectors, which, key, count, now, room));
        }
    }
}
