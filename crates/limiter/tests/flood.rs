//! An endless stream of distinct keys into a table of a million: memory stays flat, and no bucket is refilled
//! by it.

use std::sync::{Mutex, PoisonError};

use tidegate::{
    Carry, Charge, Clock, Cost, Intent, Keyed, Limit, LimitDecision, LimitRef, LogQuota, ManualClock, Memory,
    MemoryOptions, Nanos, Quota, Store, WindowQuota,
};

const CAP: usize = 1_000_000;
const FLOOD: u64 = 5_000_000;

/// One flood at a time, because each measures the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// The resident memory of this process, if the system reports it.
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
    let keyed = Keyed::with(quota, options, ManualClock::default()).unwrap();
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
    // Fill the table, so that all its memory is in use, then continue with the rest.
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
    // A token is back after a second and a million keys come per second, so the table is as full of keys in use
    // as it may be.
    let options = MemoryOptions { max_keys: CAP, ..MemoryOptions::default() };
    let quota = Quota::new(1, Nanos::SECOND, 5).unwrap();
    let keyed = Keyed::with(quota, options, ManualClock::default()).unwrap();
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

/// The instant at which the floods below begin: the start of an hour.
const START: Nanos = Nanos::from_secs(1_800_000_000);

fn at(secs: u64) -> Nanos {
    START.saturating_add(Nanos::from_secs(secs))
}

/// A small store with a limit of every algorithm to be flooded, and another of every algorithm beside it.
struct Flooded {
    store: Memory<ManualClock>,
    flooded: Vec<LimitRef>,
    others: Vec<LimitRef>,
}

impl Flooded {
    fn new() -> Flooded {
        let options = MemoryOptions { max_keys: 100, max_log_entries: 1_000 };
        let store = Memory::with_clock(options, ManualClock::default()).unwrap();
        let named = |name: &str, limit: Limit| {
            let name = format!("{name}: {limit}");
            store.limit(&name, limit, Carry::AsIs, START).expect("a new store has room")
        };
        let windows = |limit| WindowQuota::new(limit, Nanos::from_secs(10)).unwrap();
        let all = |limit: u32| {
            [
                Limit::token_bucket(Quota::new(1, Nanos::SECOND, limit).unwrap()),
                Limit::sliding_window(windows(limit)),
                Limit::fixed_window(windows(limit)),
                Limit::sliding_log(LogQuota::new(limit, Nanos::from_secs(10)).unwrap()),
            ]
        };
        let flooded = all(20).map(|limit| named("flooded", limit)).to_vec();
        let others = all(5).map(|limit| named("other", limit)).to_vec();
        Flooded { store, flooded, others }
    }

    fn take(&self, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> LimitDecision {
        let charge = Charge::new(limit, key, Cost::new(cost));
        self.store.charge_now(Intent::Take, &[charge], now).decisions[0]
    }

    /// Charges more keys than there are slots, so that some share the overflow bucket; returns those that were
    /// admitted without a slot.
    fn flood(&self, limit: &LimitRef, now: Nanos) -> Vec<Vec<u8>> {
        let keys = (0..2_000_u32).map(|key| [b"flood".as_slice(), &key.to_le_bytes()].concat());
        let shares = |key: &Vec<u8>| {
            let before = self.store.overflows();
            self.take(limit, key, 1, now).is_allowed() && self.store.overflows() > before
        };
        keys.filter(shares).collect()
    }

    /// The decisions for 60 new keys, eight each.
    fn fresh(&self, limit: &LimitRef, now: Nanos) -> Vec<LimitDecision> {
        let told = |key: u32| (0..8).map(move |_| self.take(limit, &key.to_be_bytes(), 1, now));
        (0..60).flat_map(told).collect()
    }
}

/// Debts under one limit do not affect another: keys of other limits that have their own slots get the same
/// decisions as without the flood.
#[test]
fn a_flood_of_one_limit_leaves_fresh_keys_of_others_as_they_were() {
    for flooded in 0..4 {
        for other in 0..4 {
            let (calm, wet) = (Flooded::new(), Flooded::new());
            let debtors = wet.flood(&wet.flooded[flooded], START);
            assert_eq!(debtors.len(), 20, "{:?}: the shared bucket is drawn on", wet.flooded[flooded]);
            // If the flood uses the slots that others need, its keys can be evicted once they are idle, which
            // is before the overflow bucket is full. That does not hold for windows and logs, whose keys become
            // idle at the same time.
            let same_room = (flooded == 3) == (other == 3);
            let now = match (same_room, flooded) {
                (false, _) => START,
                (true, 0) => at(2),
                (true, 1) => at(20),
                (true, _) => at(10),
            };
            let (before, after) = (calm.fresh(&calm.others[other], now), wet.fresh(&wet.others[other], now));
            let differing = before.iter().zip(&after).find(|(before, after)| before != after);
            let (limit, by) = (&wet.others[other], &wet.flooded[flooded]);
            assert_eq!(differing, None, "{limit:?} after a flood of {by:?}");
        }
    }
}

/// After a flood, new keys of the same limit start full, and those that charged the overflow bucket start with
/// what is left of it.
#[test]
fn after_a_flood_only_debtors_have_less() {
    let wet = Flooded::new();
    let bucket = &wet.flooded[0];
    let debtors = wet.flood(bucket, START);
    // The keys with a slot are full after one second, the overflow bucket after twenty.
    let calm = Flooded::new();
    assert!(calm.fresh(&calm.flooded[0], at(5)) == wet.fresh(bucket, at(5)), "fresh keys of the same limit");
    let admitted =
        |key: &Vec<u8>, now| (0..30).take_while(|_| wet.take(bucket, key, 1, now).is_allowed()).count();
    assert_eq!(admitted(&debtors[0], at(5)), 20, "it drew on a full bucket, which has refilled that since");
    assert_eq!(admitted(&debtors[19], at(5)), 5, "as empty as the overflow bucket");
    assert_eq!(admitted(&debtors[19], at(7)), 2, "from then on a bucket of its own");
    assert_eq!(admitted(&debtors[18], at(8)), 8);
    assert_eq!(admitted(&debtors[17], at(20)), 20, "made good");
}

/// A key that shares an overflow bucket is reset with it, and one that has a slot is reset alone.
#[test]
fn a_reset_reaches_keys_that_have_found_no_room() {
    for which in 0..4 {
        let wet = Flooded::new();
        let limit = &wet.flooded[which];
        let debtors = wet.flood(limit, START);
        let reset = |key: &[u8]| {
            let charge = Charge::new(limit, key, Cost::ONE);
            wet.store.charge_now(Intent::Reset, &[charge], START).decisions[0].remaining
        };
        let drained = |key: &[u8]| (0..30).filter(|_| wet.take(limit, key, 1, START).is_allowed()).count();
        assert_eq!(drained(&debtors[0]), 0, "{limit:?}: the shared bucket is empty");
        // The first keys of the flood have found room.
        let housed = [b"flood".as_slice(), &0_u32.to_le_bytes()].concat();
        assert_eq!((reset(&housed), drained(&housed)), (20, 20), "{limit:?}");
        assert_eq!(drained(&debtors[0]), 0, "{limit:?}: it has nothing of that");
        assert_eq!((reset(&debtors[0]), drained(&debtors[0])), (20, 20), "{limit:?}");
        assert_eq!(drained(&debtors[1]), 0, "{limit:?}: not one more than the bucket holds");
    }
}

/// A key that charged an overflow log gets one of its own as soon as there is space, and no longer shares,
/// however busy it is.
#[test]
fn after_a_flood_of_logs_everybody_has_a_log_again() {
    let wet = Flooded::new();
    let log = &wet.flooded[3];
    // Exactly as many as there is space for.
    let mut strangers = 0_u32..;
    while wet.store.overflows() == 0 {
        let key = [b"flood".as_slice(), &strangers.next().unwrap().to_le_bytes()].concat();
        assert!(wet.take(log, &key, 1, START).is_allowed());
    }
    let debtors = [b"a", b"b", b"c"];
    for key in debtors {
        assert!(wet.take(log, key, 2, at(5)).is_allowed());
    }
    let shared = wet.store.overflows();
    assert_eq!(shared, 4, "there is no space for their logs");
    // From ten seconds on there is; what they drew counts until fifteen.
    for second in 11..60 {
        for key in debtors {
            assert!(wet.take(log, key, 2, at(second)).is_allowed(), "second {second}: shared with others");
            let left = wet.store.charge_now(Intent::Peek, &[Charge::new(log, key, Cost::ONE)], at(second));
            let own = 2 * (second - 10).min(10) as u32;
            let drawn = if second < 15 { 6 } else { 0 };
            assert_eq!(left.decisions[0].remaining, 20 - own - drawn, "second {second}");
        }
    }
    assert_eq!(wet.store.overflows(), shared, "no key shares a log");
}
