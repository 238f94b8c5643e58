//! Seeds lead to worlds that are whole, and the same each time.

use super::*;

#[test]
fn a_seed_says_everything() {
    for seed in 0..50 {
        assert_eq!(format!("{:?}", Scenario::of(seed)), format!("{:?}", Scenario::of(seed)));
    }
}

#[test]
fn seeds_lead_to_worlds_of_every_kind() {
    let worlds: Vec<Scenario> = (0..500).map(Scenario::of).collect();
    assert!((1..=5).all(|nodes| worlds.iter().any(|world| world.nodes == nodes)));
    assert!(worlds.iter().any(|world| world.mode == StoreMode::Strict && !world.is_calm()));
    assert!(worlds.iter().any(|world| world.mode != StoreMode::Strict && world.is_calm()));
    assert!(worlds.iter().any(|world| world.has_slots && world.limits.len() > 1));
    for kind in crate::scenario::faults::KINDS {
        assert!(worlds.iter().any(|w| w.faults.iter().any(|f| f.what.kind() == *kind)), "{kind}");
    }
}

#[test]
fn servers_are_replaced_in_every_way() {
    let worlds: Vec<Scenario> = (0..100).map(|seed| Scenario::of(FIRST_FAILOVER_SEED + seed)).collect();
    for kind in ["restart", "failover", "two-masters"] {
        assert!(worlds.iter().any(|w| w.faults.iter().any(|f| f.what.kind() == kind)), "{kind}");
    }
    assert!(worlds.iter().any(|world| world.mode == StoreMode::Strict));
    assert!(worlds.iter().all(|world| world.healed < world.end));
}

#[test]
fn the_policy_has_the_numbers_of_the_limits() {
    for scenario in (0..200).chain(FIRST_FAILOVER_SEED..FIRST_FAILOVER_SEED + 50).map(Scenario::of) {
        let policy = tidegate::engine::Policy::parse(&scenario.policy()).expect("it is a policy");
        let numbers: Vec<Limit> = policy.rules.rules().iter().map(|rule| rule.limit).collect();
        let wanted: Vec<Limit> = scenario.limits.iter().map(|spec| spec.limit).collect();
        assert_eq!(numbers, wanted, "{}", scenario.policy());
    }
}

#[test]
fn buckets_are_numbered_limit_by_limit() {
    let world = (0..).map(Scenario::of).find(|world| world.limits.len() == 3).expect("some seed has three");
    let buckets = world.buckets();
    for (limit, spec) in world.limits.iter().enumerate() {
        for key in 0..=spec.keys {
            assert_eq!(buckets[world.bucket(limit, key)], limit);
        }
    }
}
