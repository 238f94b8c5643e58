//! Runs of seeds: the same seed twice, the seeds that failed once, three hundred more, a hundred failovers, a hundred and
//! fifty with bursts, edits and two faults at once, eighty with resets and grants, a hundred with overrides, and a hundred
//! in which a policy is tried out; and worlds with deliberate mistakes, each of which must be noticed.

use std::ops::Range;
use std::path::Path;

use tidegate_sim::{
    FIRST_ACTION_SEED, FIRST_BURST_SEED, FIRST_CANDIDATE_SEED, FIRST_FAILOVER_SEED, FIRST_OVERRIDE_SEED,
    Sabotage, Scenario, SeedOutcome, run_scenario, run_seed,
};

fn assert_well(outcome: &SeedOutcome) {
    assert!(
        outcome.violations.is_empty(),
        "seed {}: {:#?}\nreplay: cargo run --release -p tidegate-sim -- run --seed {} --event-log",
        outcome.seed,
        outcome.violations,
        outcome.seed
    );
}

#[test]
fn a_seed_is_a_world_byte_by_byte() {
    for seed in (0..12)
        .chain(FIRST_FAILOVER_SEED..FIRST_FAILOVER_SEED + 4)
        .chain(FIRST_BURST_SEED..FIRST_BURST_SEED + 4)
        .chain(FIRST_ACTION_SEED..FIRST_ACTION_SEED + 4)
        .chain(FIRST_OVERRIDE_SEED..FIRST_OVERRIDE_SEED + 4)
        .chain(FIRST_CANDIDATE_SEED..FIRST_CANDIDATE_SEED + 4)
    {
        let (one, other) = (run_seed(seed, true).event_log, run_seed(seed, true).event_log);
        assert!(one.lines().count() > 100, "seed {seed}: its log is long enough");
        let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}: the first line that differs");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}

#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/seeds");
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .expect("the seeds are kept in sim/seeds")
        .map(|file| file.expect("a directory can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no file of seeds in {}", dir.display());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of seeds can be read");
        for line in text.lines() {
            let seed = line.split('#').next().unwrap_or_default().trim();
            if !seed.is_empty() {
                let seed = seed.parse().unwrap_or_else(|_| panic!("{}: `{line}`", file.display()));
                assert_well(&run_seed(seed, false));
            }
        }
    }
}

#[test]
fn three_hundred_worlds_keep_every_promise() {
    let outcomes: Vec<SeedOutcome> = (0..300).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.admitted) > 100_000, "requests are admitted");
    assert!(sum(|outcome| outcome.promises) > 1_000, "retry promises were tested");
    assert!(sum(|outcome| outcome.without_store) > 1_000, "the store failed");
    assert!(outcomes.iter().any(|outcome| outcome.excess.0 > 0), "leases were used late");
}

#[test]
fn a_hundred_worlds_of_failovers_keep_every_promise() {
    let outcomes: Vec<SeedOutcome> =
        (FIRST_FAILOVER_SEED..FIRST_FAILOVER_SEED + 100).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let refused: u64 = outcomes.iter().map(|outcome| outcome.requests - outcome.admitted).sum();
    assert!(refused > 10_000, "many requests are refused: {refused}");
    assert!(outcomes.iter().all(|outcome| outcome.admitted > 0), "some requests are admitted");
}

#[test]
fn worlds_of_bursts_edits_and_two_faults_at_once_keep_every_promise() {
    let outcomes: Vec<SeedOutcome> =
        (FIRST_BURST_SEED..FIRST_BURST_SEED + 150).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.escalations) > 150, "users are warned and blocked");
    assert!(sum(|outcome| outcome.penalties_lost) > 0, "a server that loses its writes loses penalties");
    assert!(sum(|outcome| outcome.without_store) > 1_000, "the store failed");
}

#[test]
fn worlds_of_resets_and_grants_admit_no_more_than_these_say() {
    let outcomes: Vec<SeedOutcome> =
        (FIRST_ACTION_SEED..FIRST_ACTION_SEED + 80).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.granted) > 200, "keys are reset and get tokens");
    assert!(sum(|outcome| outcome.without_store) > 1_000, "the store failed");
}

#[test]
fn a_hundred_worlds_of_overrides_keep_every_promise() {
    let outcomes: Vec<SeedOutcome> =
        (FIRST_OVERRIDE_SEED..FIRST_OVERRIDE_SEED + 100).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.admitted) > 20_000, "requests are admitted");
    assert!(sum(|outcome| outcome.requests - outcome.admitted) > 20_000, "and refused");
    assert!(sum(|outcome| outcome.without_store) > 500, "the store failed");
}

#[test]
fn a_policy_that_is_tried_out_breaks_no_promise_of_the_one_in_force() {
    let outcomes: Vec<SeedOutcome> =
        (FIRST_CANDIDATE_SEED..FIRST_CANDIDATE_SEED + 100).map(|seed| run_seed(seed, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.compared) > 10_000, "the two decide otherwise");
    assert!(sum(|outcome| outcome.promises) > 300, "retry promises were tested");
}

/// With a store that is asked in every decision, and with leases.
#[test]
fn a_policy_that_is_tried_out_and_refused_fails_no_decision_of_the_one_in_force() {
    let worlds = (FIRST_CANDIDATE_SEED..FIRST_CANDIDATE_SEED + 60).map(Scenario::of);
    let outcomes: Vec<SeedOutcome> =
        worlds.map(|world| run_scenario(Scenario { refuses_candidate: true, ..world }, false)).collect();
    outcomes.iter().for_each(assert_well);
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.admitted) > 5_000, "requests are admitted");
}

/// Asserts that worlds of these seeds notice a mistake, with each of these messages.
fn assert_noticed(sabotage: Sabotage, messages: &[&str], seeds: Range<u64>) {
    let mut missing = messages.to_vec();
    for scenario in seeds.map(Scenario::of) {
        let outcome = run_scenario(Scenario { sabotage: Some(sabotage), ..scenario }, false);
        let is_missing = |message: &&str| !outcome.violations.iter().any(|told| told.contains(*message));
        missing.retain(is_missing);
        if missing.is_empty() {
            return;
        }
    }
    panic!("{sabotage:?} is not noticed: {missing:?}");
}

/// The oracle is only worth something if it notices mistakes.
#[test]
fn mistakes_of_burst_detectors_are_noticed() {
    for (sabotage, noticed) in [
        (Sabotage::CountsTwice, "without too many requests in a window"),
        (Sabotage::SendsTwice, "requests of user"),
        (Sabotage::ForgetsOnRestart, "the server forgot a penalty"),
        (Sabotage::IgnoresBlocks, "whose block it knew"),
    ] {
        assert_noticed(sabotage, &[noticed], FIRST_BURST_SEED..FIRST_BURST_SEED + 150);
    }
}

/// What is given beyond an action is noticed in what the server gives and in what clients spend, of buckets and in windows.
#[test]
fn a_reset_or_a_grant_that_gives_more_than_it_says_is_noticed() {
    let (given, spent, counted) = ("more than it held", "tokens above B + R·t", "are allowed");
    for (sabotage, noticed) in [
        (Sabotage::GrantsDouble, [given, spent, counted]),
        (Sabotage::ResetsAgain, [given, spent, counted]),
        (Sabotage::ActsTwice, ["a reset or a grant once more", spent, counted]),
    ] {
        assert_noticed(sabotage, &noticed, FIRST_ACTION_SEED..FIRST_ACTION_SEED + 80);
    }
}

#[test]
fn an_override_that_makes_or_loses_tokens_is_noticed() {
    for (sabotage, noticed) in [
        (Sabotage::OverridesTooHigh, "which are not in force"),
        (Sabotage::OverridesStay, "which are not in force"),
        (Sabotage::RenumbersToFull, "more than it held"),
        (Sabotage::TakesTwice, "are refused, although they are there"),
    ] {
        assert_noticed(sabotage, &[noticed], FIRST_OVERRIDE_SEED..FIRST_OVERRIDE_SEED + 100);
    }
}

#[test]
fn a_policy_that_is_tried_out_and_charges_other_buckets_is_noticed() {
    for (sabotage, noticed) in [
        (Sabotage::CandidateChargesLive, "which are not in force"),
        (Sabotage::CandidateUnheard, "of a candidate, and right is"),
    ] {
        assert_noticed(sabotage, &[noticed], FIRST_CANDIDATE_SEED..FIRST_CANDIDATE_SEED + 100);
    }
}
