//! The slot protocol under every interleaving that loom can find.
//!
//! Small windows, buckets of one token, and the real protocol and arithmetic. After each run: no key has two
//! holders, no charge is lost, and no token is granted twice.

use std::sync::Arc;

use loom::thread;
use tidegate_core::{Cost, LimitDecision, Meter, Nanos, Quota};

use super::probe::{Probe, SlotRules, SlotWindow, TableCounters, TableFull};
use super::slot::model::SmallSlot;
use super::slot::{Slot, SlotEntry, Tag};
use super::window_time::ChargeTime;
use crate::charge::all_or_nothing;

/// The instant at which the models begin; these buckets are full again 1,000 ns after a take.
const NOW: Nanos = Nanos::new(10_000);
const LATER: Nanos = Nanos::new(10_500);

struct OneLine<'a>(&'a [SmallSlot]);

impl SlotWindow for OneLine<'_> {
    type Slot = SmallSlot;

    fn line(&self, index: usize) -> Option<&[SmallSlot]> {
        (index == 0).then_some(self.0)
    }
}

struct World {
    slots: Vec<SmallSlot>,
    meter: Meter,
    counters: TableCounters,
}

struct Single<'a> {
    meter: &'a Meter,
    now: Nanos,
}

impl SlotRules for Single<'_> {
    fn is_idle(&self, entry: SlotEntry) -> bool {
        self.meter.is_idle(entry.state, self.now)
    }

    fn migrate(&self, entry: SlotEntry, _: Tag) -> SlotEntry {
        entry
    }

    fn first(&self, tag: Tag) -> SlotEntry {
        SlotEntry { tag, state: 0 }
    }

    fn wall(&self) -> Nanos {
        self.now
    }
}

fn tag(key: u64) -> Tag {
    Tag::new(key, 1)
}

/// A key whose bucket is full again at `full_at`.
fn held(key: u64, full_at: u64) -> SlotEntry {
    SlotEntry { tag: tag(key), state: full_at }
}

impl World {
    fn new(capacity: u32, slots: &[SlotEntry]) -> Arc<World> {
        let quota = Quota::new(1, Nanos::new(1_000), capacity).expect("the models' quotas are in range");
        Arc::new(World {
            slots: slots.iter().map(|&entry| SmallSlot::new(entry)).collect(),
            meter: Meter::TokenBucket(quota),
            counters: TableCounters::default(),
        })
    }

    fn probe<T>(&self, key: u64, now: Nanos, act: impl FnOnce(Probe<'_, OneLine<'_>, Single<'_>>) -> T) -> T {
        let rules = Single { meter: &self.meter, now };
        act(Probe {
            window: OneLine(&self.slots),
            tag: tag(key),
            now,
            rules: &rules,
            counters: &self.counters,
        })
    }

    fn take(&self, key: u64, now: Nanos) -> Result<LimitDecision, TableFull> {
        let charge = |_, state, when: ChargeTime| self.meter.charge(state, Cost::ONE, when.now);
        let updated = self.probe(key, now, |probe| probe.update(charge))?;
        Ok(self.meter.decision(updated.state, Cost::ONE, updated.when.now))
    }

    fn takes(&self, key: u64, now: Nanos) -> bool {
        self.take(key, now).expect("the window has room").is_allowed()
    }

    fn amend(&self, key: u64, act: impl Fn(u64) -> u64) -> bool {
        self.probe(key, NOW, |probe| probe.amend(|_, state, _| act(state)))
    }

    fn holders(&self, key: u64) -> Vec<SlotEntry> {
        let entries = self.slots.iter().map(Slot::get);
        entries.filter(|entry| entry.is_of(tag(key)) && !entry.is_claim()).collect()
    }

    /// The tokens left for the key, which must not have two holders.
    fn left(&self, key: u64, now: Nanos) -> u32 {
        let holders = self.holders(key);
        assert!(holders.len() <= 1, "two holders of key {key}: {holders:?}");
        let state = holders.first().map_or(0, |entry| entry.state);
        self.meter.peek(state, Cost::ONE, now).remaining
    }
}

/// Runs `threads` closures on a fresh world each time, then `check`.
fn explore<T: 'static>(
    preemptions: Option<usize>,
    world: impl Fn() -> Arc<World> + Sync + Send + 'static,
    threads: &'static [fn(&World) -> T],
    check: impl Fn(&World, Vec<T>) + Sync + Send + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let world = world();
        let spawn = |act: &'static fn(&World) -> T| {
            let world = world.clone();
            thread::spawn(move || act(&world))
        };
        let (first, others) = threads.split_first().expect("a model has a thread");
        let others: Vec<_> = others.iter().map(spawn).collect();
        let mut answers = vec![first(&world)];
        answers.extend(others.into_iter().map(|thread| thread.join().expect("a model's thread ends")));
        check(&world, answers);
    });
}

fn admitted(answers: &[bool]) -> usize {
    answers.iter().filter(|&&allowed| allowed).count()
}

#[test]
fn model_one_new_key_from_two_threads() {
    explore(
        None,
        || World::new(1, &[SlotEntry::EMPTY, SlotEntry::EMPTY]),
        &[|w| w.takes(1, NOW), |w| w.takes(1, NOW)],
        |world, answers| {
            assert_eq!(admitted(&answers), 1);
            assert_eq!(world.left(1, NOW), 0);
        },
    );
}

#[test]
fn model_one_new_key_where_the_threads_see_different_slots_idle() {
    // At NOW only the second slot is free, at LATER also the first.
    explore(
        None,
        || World::new(1, &[held(2, 10_400), held(3, 9_000)]),
        &[|w| w.takes(1, NOW), |w| w.takes(1, LATER)],
        |world, answers| {
            assert_eq!(admitted(&answers), 1);
            assert_eq!(world.left(1, LATER), 0);
        },
    );
}

#[test]
fn model_one_new_key_from_three_threads() {
    explore(
        Some(2),
        || World::new(1, &[held(2, 10_400), held(3, 9_000), SlotEntry::EMPTY]),
        &[|w| w.takes(1, NOW), |w| w.takes(1, LATER), |w| w.takes(1, NOW)],
        |world, answers| {
            assert_eq!(admitted(&answers), 1);
            assert_eq!(world.left(1, LATER), 0);
        },
    );
}

#[test]
fn model_two_new_keys_in_one_window() {
    explore(
        None,
        || World::new(1, &[held(3, 9_000), SlotEntry::EMPTY]),
        &[|w| w.takes(1, NOW), |w| w.takes(2, NOW)],
        |world, answers| {
            assert_eq!(admitted(&answers), 2);
            assert_eq!((world.left(1, NOW), world.left(2, NOW)), (0, 0));
        },
    );
}

#[test]
fn model_a_held_key_is_charged_while_its_neighbour_makes_way() {
    explore(
        None,
        || World::new(2, &[held(1, 11_000), held(2, 9_000)]),
        &[|w| w.takes(1, NOW), |w| w.takes(3, NOW)],
        |world, answers| {
            assert_eq!(admitted(&answers), 2);
            assert_eq!((world.left(1, NOW), world.left(3, NOW)), (0, 1));
        },
    );
}

#[test]
fn model_an_idle_key_returns_while_it_makes_way() {
    // One slot for two keys: the one that loses finds no slot and gets `TableFull`.
    explore(
        None,
        || World::new(1, &[held(1, 9_000)]),
        &[|w| w.take(1, NOW).is_ok(), |w| w.take(2, NOW).is_ok()],
        |world, answers| {
            let drained = [world.left(1, NOW) == 0, world.left(2, NOW) == 0];
            assert_eq!(drained.as_slice(), answers, "a charge was lost");
            assert_eq!(admitted(&answers), 1);
        },
    );
}

#[test]
fn model_a_refund_meets_a_take() {
    explore(
        None,
        || World::new(1, &[held(1, 11_000)]),
        &[|w| w.amend(1, |state| w.meter.refund(state, Cost::ONE, NOW)), |w| w.takes(1, NOW)],
        |world, answers| {
            assert!(answers[0], "the key is there to be refunded");
            assert_eq!(world.left(1, NOW), u32::from(!answers[1]));
        },
    );
}

fn take_both(world: &World, keys: [u64; 2]) -> bool {
    let peek = |i: usize| {
        let entry = world.probe(keys[i], NOW, |probe| probe.peek());
        world.meter.peek(entry.map_or(0, |entry| entry.state), Cost::ONE, NOW)
    };
    let take = |i: usize| world.take(keys[i], NOW).expect("the window has room");
    let hand_back = |i: usize| {
        let back = world.amend(keys[i], |state| world.meter.hand_back(state, Cost::ONE, NOW, NOW));
        assert!(back, "what was taken is there to be handed back");
    };
    all_or_nothing(2, Nanos::ZERO, |_| true, peek, take, hand_back).allowed
}

#[test]
fn model_two_takes_over_two_keys_in_opposite_order() {
    explore(
        Some(3),
        || World::new(1, &[SlotEntry::EMPTY, SlotEntry::EMPTY]),
        &[|w| take_both(w, [1, 2]), |w| take_both(w, [2, 1])],
        |world, answers| {
            let granted = admitted(&answers);
            assert!(granted <= 1, "both were admitted");
            // A race may deny both; then nothing may have been charged.
            let expected = u32::from(granted == 0);
            assert_eq!([world.left(1, NOW), world.left(2, NOW)], [expected; 2]);
        },
    );
}
