//! Distinct keys without end into a table of a million: memory stays flat, and
//! nobody's bucket is refilled by it.

use std::sync::{Mutex, PoisonError};

use tidegate::{Clock, Cost, Keyed, ManualClock, MemoryOptions, Nanos, Quota};

const CAP: usize = 1_000_000;
const FLOOD: u64 = 5_000_000;

/// One flood at a time, or each would see the other's memory.
static ALONE: Mutex<()> = Mutex::new(());

/// This process's resident memory, where the system tells.
fn resident_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4_096)
}

fn flood(keyed: &Keyed<u64, ManualClock>, strangers: std::ops::Range<u64>, pace: Nanos) -> u64 {
    let clock = keyed.clock().clone();
    let mut admitted = 0;
    for stranger in strangers {
        admitted += u64::from(keyed.take(&(stranger | 1 << 63), Cost::ONE).is_allowed());
        clock.advance(pace);
        if stranger % 50_000 == 0 {
            for victim in 0..100 {
                assert!(!keyed.take(&victim, Cost::ONE).is_allowed(), "victim {victim} was refilled");
            }
        }
    }
    admitted
}

fn flooded(quota: Quota) -> Keyed<u64, ManualClock> {
    let options = MemoryOptions { max_keys: CAP, ..MemoryOptions::default() };
    let keyed = Keyed::with(quota, options, ManualClock::default());
    for victim in 0..100 {
        assert!(keyed.take(&victim, Cost::new(5)).is_allowed());
    }
    keyed
}

#[test]
fn a_flood_of_keys_that_all_stay_in_use_shares_one_bucket() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let keyed = flooded(Quota::new(1, Nanos::DAY, 5).unwrap());
    let before_first = keyed.clock().now();
    // Fill it, so that all its memory is in use, then go on for the rest.
    let mut admitted = flood(&keyed, 0..2 * CAP as u64, Nanos::new(1));
    let full = resident_bytes();
    admitted += flood(&keyed, 2 * CAP as u64..FLOOD, Nanos::new(1));
    if let (Some(full), Some(now)) = (full, resident_bytes()) {
        assert!(now < full + 4 * 1_024 * 1_024, "memory grew from {full} to {now} bytes");
    }
    let stats = keyed.stats();
    assert!(stats.bytes <= CAP * 24, "{stats:?}");
    assert_eq!(stats.evictions, 0, "nobody was idle: {stats:?}");
    assert_eq!(stats.keys, stats.slots as u64, "every slot is in use: {stats:?}");
    assert_eq!(admitted, stats.keys - 100 + 5, "the shared bucket has five tokens: {stats:?}");
    assert!(keyed.clock().now() < before_first.saturating_add(Nanos::SECOND), "nothing refilled meanwhile");
}

#[test]
fn a_flood_of_keys_that_go_idle_makes_way_for_itself() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // A token is back after a second and the strangers come at a million a
    // second, so that the table is as full of keys in use as it is meant to be.
    let options = MemoryOptions { max_keys: CAP, ..MemoryOptions::default() };
    let quota = Quota::new(1, Nanos::SECOND, 5).unwrap();
    let keyed = Keyed::with(quota, options, ManualClock::default());
    let admitted = flood_one_second_apart(&keyed);
    let stats = keyed.stats();
    assert!(stats.evictions > FLOOD / 2, "{stats:?}");
    let misplaced = stats.overflows.max(FLOOD - admitted);
    println!("{misplaced} of {FLOOD} found no slot");
    assert!(misplaced <= FLOOD / 500, "{misplaced} of {FLOOD} found no slot: {stats:?}");
}

fn flood_one_second_apart(keyed: &Keyed<u64, ManualClock>) -> u64 {
    let clock = keyed.clock().clone();
    let mut admitted = 0;
    for stranger in 0..FLOOD {
        admitted += u64::from(keyed.take(&(stranger | 1 << 63), Cost::ONE).is_allowed());
        clock.advance(Nanos::new(1_000));
    }
    admitted
}
