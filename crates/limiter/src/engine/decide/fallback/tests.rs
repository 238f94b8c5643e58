//! What happens when the fallback memory has no version numbers left.

use std::sync::Arc;

use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Policy, RuleSet};

use super::*;
use crate::ManualClock;

const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 100, max_log_entries: 100 };

fn rules(capacity: u32) -> RuleSet {
    let limit = |name: &str| {
        format!(
            "- {{ name: {name}, key: [user], sustained: {{ rate: 1 }}, burst: {{ capacity: {capacity} }} }}\n"
        )
    };
    let text = format!("version: 1\nlimits:\n{}{}", limit("a"), limit("b"));
    Policy::parse(&text).unwrap_or_else(|error| panic!("{error}")).into()
}

fn take(share: &NodeShare, cost: u32) -> Vec<u32> {
    let charge = |limit| Charge::new(limit, b"key", Cost::new(cost));
    let limits = share.limits.iter().map(|handle| handle.at(LimitVariant::PLAIN, &*share.memory));
    let charges: Charges<'_> = limits.map(charge).collect();
    let verdict = share.memory.charge_now(Intent::Take, &charges, Nanos::SECOND);
    verdict.decisions.iter().map(|decision| decision.remaining).collect()
}

#[test]
fn a_count_of_nodes_is_an_edit_while_numbers_last() {
    let local = FallbackMemory::new(OPTIONS).unwrap();
    let first = local.bind(&rules(10), 1, (Nanos::ZERO, Nanos::ZERO), ShareBinder::Request).unwrap();
    assert_eq!(take(&first, 9), [1, 1]);
    local.memory.load().leave_numbers(2);
    let second = local.bind(&rules(10), 2, (Nanos::SECOND, Nanos::SECOND), ShareBinder::Request).unwrap();
    assert!(Arc::ptr_eq(&first.memory, &second.memory));
    assert_eq!(take(&second, 0), [1, 1], "what was used stays used");

    let third = local.bind(&rules(10), 5, (Nanos::SECOND, Nanos::SECOND), ShareBinder::Request).unwrap();
    assert!(!Arc::ptr_eq(&second.memory, &third.memory), "there are no version numbers left");
    assert!(Arc::ptr_eq(&third.memory, &local.memory.load()));
    assert_eq!(take(&third, 1), [1, 1], "the new one starts full");
    assert_eq!(take(&second, 1), [0, 0], "requests in progress keep the old memory");
    let fourth = local.bind(&rules(10), 1, (Nanos::SECOND, Nanos::SECOND), ShareBinder::Request).unwrap();
    assert!(Arc::ptr_eq(&third.memory, &fourth.memory), "the new memory has version numbers left");
}

#[test]
fn a_swap_does_not_fail_for_want_of_numbers_to_fall_back_on() {
    let clock = ManualClock::default();
    let limiter = Limiter::in_memory(rules(10), OPTIONS, clock).unwrap().with_fallback(OPTIONS).unwrap();
    let memory = || limiter.fallback.local.as_ref().unwrap().memory.load_full();
    let old = memory();
    old.leave_numbers(1);
    assert_eq!(limiter.swap(rules(20)).unwrap(), 2);
    assert!(!Arc::ptr_eq(&old, &memory()));
    let share = limiter.active.load().share.load_full().unwrap();
    assert_eq!(take(&share, 1), [19, 19], "the share is that of the new policy");
}

#[test]
fn a_policy_that_cannot_be_named_leaves_the_old_one_and_its_share() {
    let clock = ManualClock::default();
    let limiter = Limiter::in_memory(rules(10), OPTIONS, clock).unwrap().with_fallback(OPTIONS).unwrap();
    let request = tidegate_policy::Request::new().user("1");
    let remaining =
        || limiter.peek(&request).limits().map(|standing| standing.decision.remaining).collect::<Vec<_>>();
    let share = limiter.active.load().share.load_full().unwrap();
    limiter.store.leave_numbers(1);
    assert!(matches!(limiter.swap(rules(20)), Err(LimitError::TooMany { .. })));
    assert_eq!((limiter.version(), remaining()), (1, vec![10, 10]), "not even the first is edited");
    let held = limiter.active.load().share.load_full().unwrap();
    assert!(Arc::ptr_eq(&share, &held));
    assert_eq!(take(&held, 1), [9, 9]);
}

#[test]
fn without_the_memory_local_limits_are_closed_and_say_so() {
    let clock = ManualClock::default();
    let mut limiter = Limiter::in_memory(rules(10), OPTIONS, clock).unwrap().with_fallback(OPTIONS).unwrap();
    assert_eq!(limiter.closed_limits(), [""; 0]);
    let local = limiter.fallback.local.as_mut().unwrap();
    local.options.max_keys = usize::MAX >> 8;
    local.memory.load().leave_numbers(0);
    limiter.swap(rules(20)).unwrap();
    assert!(limiter.active.load().share.load().is_none());
    assert_eq!(limiter.closed_limits(), ["a", "b"]);
}

#[test]
fn windows_go_by_the_wall_clock_without_the_store_too() {
    let text = "version: 1\nlimits:\n\
                - { name: a, key: [user], algorithm: fixed_window, sustained: { rate: 4, window: hour } }\n";
    let rules: RuleSet = Policy::parse(text).unwrap_or_else(|error| panic!("{error}")).into();
    let clock = ManualClock::default();
    let limiter = Limiter::in_memory(rules, OPTIONS, clock.clone()).unwrap().with_fallback(OPTIONS).unwrap();
    let set = limiter.active.load_full();
    let allowed = || {
        let charges = [Charge::new(set.bound[0].limit(), b"key", Cost::new(4))];
        let without =
            limiter.fall_back(&set, |_| (0, LimitVariant::PLAIN), &charges, Intent::Take, clock.now());
        without.verdict.allowed
    };
    assert!(allowed() && !allowed());
    clock.set_wall(clock.wall().saturating_add(Nanos::HOUR));
    assert!(allowed() && !allowed(), "another hour has begun");
}
