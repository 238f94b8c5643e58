mod suspended;

use std::collections::VecDeque;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::prelude::*;
use tidegate_core::{Carry, Cost, Limit, LogQuota, OverrideNumbers, Quota, WindowQuota};

use super::*;
use crate::{Charge, Intent, LimitRef, ManualClock, MemoryOptions, NamedLimit, Store, Verdict};

type Tested = Memory<ManualClock>;

const START: Nanos = Nanos::from_secs(1_000_000);

fn memory(max_keys: usize, max_log_entries: usize) -> Tested {
    let options = MemoryOptions { max_keys, max_log_entries };
    Memory::with_clock(options, ManualClock::new(START)).unwrap()
}

fn bucket(rate: u64, capacity: u32) -> Limit {
    Quota::new(rate, Nanos::HOUR, capacity).unwrap().into()
}

fn versions(memory: &Tested) -> usize {
    memory.registry.registration().versions()
}

fn sweep_all(memory: &Tested) {
    memory.reclaim_all(&mut memory.registry.registration(), START);
}

fn left(memory: &Tested, limit: &LimitRef, key: &[u8], now: Nanos) -> u32 {
    let charge = Charge::new(limit, key, Cost::ZERO);
    memory.charge_now(Intent::Peek, &[charge], now).decisions[0].remaining
}

fn take(memory: &Tested, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> Verdict {
    memory.charge_now(Intent::Take, &[Charge::new(limit, key, Cost::new(cost))], now)
}

#[test]
fn two_million_edits_take_few_numbers_and_no_tokens() {
    const NAMES: u32 = 1_000;
    let memory = memory(1_000, 1_000);
    let names: Vec<String> = (0..NAMES).map(|index| index.to_string()).collect();
    let mut in_progress = VecDeque::new();
    for policy in 0..2_000_u32 {
        let limit = bucket(1, 100 + policy % 7);
        let named = |name| NamedLimit { name, limit, carry: Carry::AsIs, trusted: false };
        let gone = format!("gone {policy}");
        let limits: Vec<NamedLimit<'_>> = names.iter().chain([&gone]).map(|name| named(name)).collect();
        let limits = memory.limits(&limits, START).unwrap();
        if policy == 0 {
            for limit in &limits {
                assert!(take(&memory, limit, b"drained", 60, START).allowed);
            }
        }
        in_progress.push_back(limits);
        if in_progress.len() > 3 {
            in_progress.pop_front();
        }
        let versions = versions(&memory);
        // Those in use, those that the sweep under way removes, and those made meanwhile.
        assert!(versions < 12 * NAMES as usize, "{versions} versions after {policy} policies");
    }
    for limit in &in_progress.back().unwrap()[..NAMES as usize] {
        assert_eq!(left(&memory, limit, b"drained", START), 40);
    }
}

#[test]
fn an_idle_name_is_removed_and_one_that_counts_stays() {
    let memory = memory(100, 1_000);
    let window = LogQuota::new(10, Nanos::HOUR).unwrap();
    for limit in [bucket(10, 10), window.into()] {
        let name = |name| memory.limit(name, limit, Carry::AsIs, START).unwrap();
        assert!(take(&memory, &name("idle"), b"key", 1, START.saturating_sub(Nanos::HOUR)).allowed);
        assert!(take(&memory, &name("counting"), b"key", 4, START).allowed);
        sweep_all(&memory);
        assert_eq!((versions(&memory), memory.stats().keys), (1, 1));
        assert_eq!(left(&memory, &name("counting"), b"key", START), 6);
        assert_eq!(left(&memory, &name("idle"), b"key", START), 10);
        memory.reclaim_all(&mut memory.registry.registration(), START.saturating_add(Nanos::HOUR));
        assert_eq!((versions(&memory), memory.stats().keys), (0, 0));
    }
}

#[test]
fn a_name_that_is_registered_again_during_a_sweep_keeps_its_states() {
    for steps in 0..80 {
        let memory = memory(100, 1_000);
        let name = || memory.limit("a", bucket(1, 10), Carry::AsIs, START).unwrap();
        drop(name());
        memory.sweep_steps(steps, START);
        assert!(take(&memory, &name(), b"key", 4, START).allowed);
        memory.sweep_steps(200, START);
        assert_eq!(left(&memory, &name(), b"key", START), 6, "after {steps} steps");
    }
}

#[test]
fn an_overflow_bucket_that_was_swept_is_used_again() {
    let memory = memory(0, 0);
    let fill = memory.limit("fill", bucket(1, 10), Carry::AsIs, START).unwrap();
    let slots = memory.stats().slots;
    for key in 0..slots as u32 {
        assert!(take(&memory, &fill, &key.to_le_bytes(), 10, START).allowed);
    }
    let name = |rate| memory.limit("a", bucket(rate, 10), Carry::AsIs, START).unwrap();
    assert!(take(&memory, &name(1), b"one", 1, START).allowed);
    let later = START.saturating_add(Nanos::HOUR);
    assert!(!memory.charge_now(Intent::Take, &[Charge::new(&fill, &[0; 4], Cost::new(2))], later).allowed);
    // It is full again, but the table is still in use.
    memory.sweep_steps(1, later);
    assert_eq!(left(&memory, &name(1), b"one", later), 10);
    assert!(take(&memory, &name(2), b"two", 3, later).allowed);
    memory.sweep_steps(200, later);
    assert_eq!(left(&memory, &name(2), b"two", later), 7);
    assert_eq!(memory.stats().overflows, 2);
}

#[test]
fn a_generation_without_a_number_for_its_states_waits() {
    let memory = memory(100, 1_000);
    let edit = |capacity| memory.limit("a", bucket(1, capacity), Carry::AsIs, START).unwrap();
    let trusted = memory.variant(&edit(10), LimitVariant::at_trust(50)).unwrap();
    assert!(take(&memory, &trusted, b"key", 8, START).allowed);
    drop(trusted);
    let newest = edit(20);
    memory.registry.leave_numbers(0);
    sweep_all(&memory);
    let trusted = |limit| memory.variant(limit, LimitVariant::at_trust(50));
    assert_eq!(left(&memory, &newest, b"key", START), 7, "nothing was lost");
    assert!(trusted(&newest).is_err(), "no number is free");
    memory.registry.leave_numbers(1);
    sweep_all(&memory);
    assert_eq!(left(&memory, &trusted(&newest).unwrap(), b"key", START), 7);
    sweep_all(&memory);
    assert_eq!(memory.registry.registration().generations("a").count(), 1, "it was removed later");
}

#[test]
fn a_generation_that_has_no_version_for_the_trust_of_a_state_waits_too() {
    let memory = memory(100, 1_000);
    let edit = |limit| memory.limit("a", limit, Carry::AsIs, START).unwrap();
    let trusted = |limit: &LimitRef| memory.variant(limit, LimitVariant::at_trust(100)).unwrap();
    assert!(take(&memory, &trusted(&edit(bucket(1, 10))), b"key", 1, START).allowed);
    let _too_large_for_trust = edit(bucket(1 << 32, u32::MAX));
    sweep_all(&memory);
    assert_eq!(memory.registry.registration().generations("a").count(), 2);
    let newest = edit(bucket(1, 10));
    assert_eq!(left(&memory, &trusted(&newest), b"key", START), 19);
    sweep_all(&memory);
    assert_eq!(left(&memory, &trusted(&newest), b"key", START), 19);
}

#[test]
fn a_request_from_before_an_edit_to_a_log_still_finds_the_bucket() {
    let memory = memory(100, 1_000);
    let edit = |limit| memory.limit("a", limit, Carry::AsIs, START).unwrap();
    let oldest = edit(bucket(1, 10));
    assert!(take(&memory, &edit(bucket(2, 10)), b"key", 4, START).allowed);
    let newest = edit(LogQuota::new(10, Nanos::HOUR).unwrap().into());
    sweep_all(&memory);
    assert_eq!(left(&memory, &oldest, b"key", START), 6);
    drop(oldest);
    sweep_all(&memory);
    assert_eq!((versions(&memory), memory.stats().keys), (1, 0));
    assert_eq!(left(&memory, &newest, b"key", START), 10);
}

#[test]
#[should_panic(expected = "a limit is used with the store in which it was registered")]
fn a_limit_of_another_store_is_not_mistaken_for_one_of_this() {
    let stores = [(); 2].map(|()| memory(100, 0));
    let [limit, _] =
        stores.each_ref().map(|store| store.limit("a", bucket(1, 1), Carry::AsIs, START).unwrap());
    let _ = take(&stores[1], &limit, b"key", 1, START);
}

/// One step of a random run.
#[derive(Clone, Copy, Debug)]
enum Act {
    Edit { name: usize, limit: usize, carry: Carry, keeps_old: bool },
    Remove { name: usize },
    Charge { name: usize, key: u8, cost: u32, variant: LimitVariant, old: bool, intent: Intent },
    Wait { millis: u64 },
    Sweep { steps: usize },
}

fn limits() -> Vec<Limit> {
    let quota = |rate, capacity| Limit::from(Quota::new(rate, Nanos::SECOND, capacity).unwrap());
    let window = |limit| WindowQuota::new(limit, Nanos::SECOND).unwrap();
    let log = |limit| Limit::from(LogQuota::new(limit, Nanos::SECOND).unwrap());
    vec![
        quota(1, 10),
        quota(3, 10),
        quota(2, 25),
        quota(7, 5),
        // At full trust it is out of range.
        quota(1, u32::MAX / 2 + 5),
        Limit::sliding_window(window(10)),
        Limit::sliding_window(window(4)),
        Limit::fixed_window(window(10)),
        log(10),
        log(6),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let carry = prop_oneof![Just(Carry::AsIs), Just(Carry::Proportional), Just(Carry::Reset)];
    let intent = prop_oneof![5 => Just(Intent::Take), 1 => Just(Intent::Peek), 1 => Just(Intent::Refund)];
    let trust = prop_oneof![Just(0), Just(0), Just(30), Just(100)];
    let numbers = prop_oneof![
        3 => Just(None),
        1 => prop_oneof![Just(50), Just(300)].prop_map(|times| Some(OverrideNumbers::Times(times))),
        1 => Just(Some(OverrideNumbers::Fixed { rate: None, capacity: Some(15) })),
    ];
    let variant = (numbers, trust).prop_map(|(numbers, trust)| LimitVariant { numbers, trust });
    prop_oneof![
        3 => (0..3_usize, 0..limits().len(), carry, any::<bool>())
            .prop_map(|(name, limit, carry, keeps_old)| Act::Edit { name, limit, carry, keeps_old }),
        1 => (0..3_usize).prop_map(|name| Act::Remove { name }),
        8 => (0..3_usize, 0..6_u8, 0..9_u32, variant, any::<bool>(), intent).prop_map(
            |(name, key, cost, variant, old, intent)| Act::Charge { name, key, cost, variant, old, intent }
        ),
        2 => (0..1_500_u64).prop_map(|millis| Act::Wait { millis }),
        4 => prop_oneof![Just(1), Just(3), Just(30), Just(200)].prop_map(|steps| Act::Sweep { steps }),
    ]
}

/// A store and the references that a node would hold.
struct Node {
    memory: Tested,
    /// Of each name: the one in force, and the one before, which requests in progress hold.
    held: [(Option<LimitRef>, Option<LimitRef>); 3],
    sweeps: bool,
}

impl Node {
    fn new(max_keys: usize, max_log_entries: usize, sweeps: bool) -> Node {
        Node { memory: memory(max_keys, max_log_entries), held: Default::default(), sweeps }
    }

    fn act(&mut self, act: Act, now: Nanos) -> Option<Verdict> {
        self.memory.clock().set(now);
        match act {
            Act::Edit { name, limit, carry, keeps_old } => {
                let limit = limits()[limit];
                let new = self.memory.limit(&name.to_string(), limit, carry, now).unwrap();
                let (newest, old) = &mut self.held[name];
                *old = newest.replace(new).filter(|_| keeps_old);
            }
            Act::Remove { name } => self.held[name] = (None, None),
            Act::Charge { name, key, cost, variant, old, intent } => {
                let (newest, before) = &self.held[name];
                let limit = before.as_ref().filter(|_| old).or(newest.as_ref())?;
                let variant = self.memory.variant(limit, variant).ok();
                let limit = variant.as_ref().unwrap_or(limit);
                let key = [key];
                let charge = Charge::new(limit, &key, Cost::new(cost));
                return Some(self.memory.charge_now(intent, &[charge], now));
            }
            Act::Sweep { steps } if self.sweeps => self.memory.sweep_steps(steps, now),
            Act::Sweep { .. } | Act::Wait { .. } => {}
        }
        None
    }
}

/// Does the same in a store that sweeps and in one that does not. If `until_evicted`, only until a charge evicts a key.
fn run_both(
    mut nodes: [Node; 2],
    acts: impl Iterator<Item = Act>,
    until_evicted: bool,
) -> Result<(), TestCaseError> {
    let mut now = START;
    for act in acts {
        if let Act::Wait { millis } = act {
            now = now.saturating_add(Nanos::from_millis(millis));
        }
        let evictions = |nodes: &[Node; 2]| nodes.each_ref().map(|node| node.memory.stats().evictions);
        let before = evictions(&nodes);
        let [expected, swept] = nodes.each_mut().map(|node| node.act(act, now));
        if until_evicted && matches!(act, Act::Charge { .. }) && evictions(&nodes) != before {
            break;
        }
        prop_assert_eq!(expected, swept, "{:?}", act);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// In one pair of lines, so that keys are evicted all the time and their hashes do not matter. Which idle key is
    /// evicted depends on the order of the slots, which a sweep changes. So there are only charges for which a key that
    /// was idle before an edit is like a new one: by the newest reference, and without trust or override.
    #[test]
    fn a_store_that_sweeps_decides_like_one_that_does_not(
        acts in proptest::collection::vec(act(), 1..120),
        max_log_entries in prop_oneof![Just(0_usize), Just(100_000)],
    ) {
        let plain = |act| match act {
            Act::Charge { name, key, cost, intent, .. } => {
                Act::Charge { name, key, cost, variant: LimitVariant::PLAIN, old: false, intent }
            }
            other => other,
        };
        let nodes = [false, true].map(|sweeps| Node::new(5, max_log_entries, sweeps));
        run_both(nodes, acts.into_iter().map(plain), false)?;
    }

    /// In every variant, and by references from before an edit, in a table with so much space that hardly any key is
    /// evicted. No name is removed, since that evicts its idle keys too.
    #[test]
    fn requests_from_before_an_edit_are_decided_as_without_sweeps(
        acts in proptest::collection::vec(act(), 1..120),
        max_log_entries in prop_oneof![Just(0_usize), Just(100_000)],
    ) {
        let acts = acts.into_iter().filter(|act| !matches!(act, Act::Remove { .. }));
        run_both([false, true].map(|sweeps| Node::new(2_000, max_log_entries, sweeps)), acts, true)?;
    }
}

/// Threads charge while another one edits and sweeps, with so few numbers that they are reused at once.
fn charge_while_editing(memory: &Tested, limits: [Limit; 2], keys: u8) -> Vec<u32> {
    let edit = |round: usize| memory.limit("a", limits[round % 2], Carry::AsIs, START).unwrap();
    let in_force = RwLock::new(edit(0));
    memory.registry.leave_numbers(12);
    let (ended, granted) = (AtomicBool::new(false), (0..keys).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (in_force, ended, granted) = (&in_force, &ended, &granted);
            scope.spawn(move || {
                let mut round = 0_usize;
                while !ended.load(Ordering::Relaxed) {
                    let limit = in_force.read().unwrap().clone();
                    for step in 0..20 {
                        round += 1;
                        let key = (round * 7 + step + thread) % usize::from(keys);
                        let taken = take(memory, &limit, &[key as u8], 1, START).allowed;
                        granted[key].fetch_add(u32::from(taken), Ordering::Relaxed);
                        if taken && round.is_multiple_of(3) {
                            let key = [key as u8];
                            let back = [Charge::new(&limit, &key, Cost::ONE)];
                            let _ = memory.charge_now(Intent::HandBack, &back, START);
                            granted[usize::from(key[0])].fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        for round in 1..300 {
            *in_force.write().unwrap() = edit(round);
            memory.sweep_steps([1, 2, 200][round % 3], START);
        }
        ended.store(true, Ordering::Relaxed);
    });
    let limit = in_force.into_inner().unwrap();
    for (key, granted) in granted.iter().enumerate() {
        while take(memory, &limit, &[key as u8], 1, START).allowed {
            granted.fetch_add(1, Ordering::Relaxed);
        }
    }
    sweep_all(memory);
    assert_eq!(memory.registry.registration().generations("a").count(), 1);
    granted.into_iter().map(AtomicU32::into_inner).collect()
}

#[test]
fn tokens_are_conserved_while_numbers_are_reused() {
    let granted = charge_while_editing(&memory(100, 0), [bucket(1, 5_000), bucket(2, 5_000)], 16);
    assert_eq!(granted, [5_000; 16]);
}

#[test]
fn tokens_of_logs_are_conserved_while_numbers_are_reused() {
    let log = |limit| Limit::from(LogQuota::new(limit, Nanos::HOUR).unwrap());
    let granted = charge_while_editing(&memory(0, 100_000), [log(5_000), log(4_999)], 16);
    assert!(granted.iter().all(|granted| (4_999..=5_000).contains(granted)), "{granted:?}");
}

#[test]
fn tokens_of_overflow_buckets_are_conserved_while_numbers_are_reused() {
    let memory = memory(0, 0);
    let fill = memory.limit("fill", bucket(1, 10), Carry::AsIs, START).unwrap();
    for key in 0..memory.stats().slots as u32 {
        assert!(take(&memory, &fill, &key.to_le_bytes(), 10, START).allowed);
    }
    let granted = charge_while_editing(&memory, [bucket(1, 50_000), bucket(2, 50_000)], 16);
    assert_eq!(granted.iter().sum::<u32>(), 50_000);
}
