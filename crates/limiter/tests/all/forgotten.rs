//! When the memory store may forget a bucket, and what the bucket then holds in the numbers of an override.

use tidegate::{
    Carry, Charge, Cost, Intent, LimitRef, LimitVariant, ManualClock, Memory, MemoryOptions, Nanos,
    OverrideNumbers, Quota, Store,
};

/// A store of eight slots, in each of which every key may be stored; and a limit of ten tokens, one a second.
struct Small {
    store: Memory<ManualClock>,
    limit: LimitRef,
}

impl Small {
    fn new() -> Small {
        let options = MemoryOptions { max_keys: 1, ..MemoryOptions::default() };
        let store = Memory::with_clock(options, ManualClock::new(Nanos::ZERO)).unwrap();
        assert_eq!(store.stats().slots, 8);
        let quota = Quota::new(1, Nanos::SECOND, 10).unwrap();
        let limit = store.limit("own", quota.into(), Carry::AsIs, Nanos::ZERO).unwrap();
        Small { store, limit }
    }

    /// Takes tokens of the only key at a second.
    fn takes(&self, limit: &LimitRef, cost: u32, second: u64) -> bool {
        let charge = Charge::new(limit, b"key", Cost::new(cost));
        self.store.charge_now(Intent::Take, &[charge], Nanos::from_secs(second)).allowed
    }

    /// What the only key holds at a second.
    fn holds(&self, limit: &LimitRef, second: u64) -> u32 {
        let charge = Charge::new(limit, b"key", Cost::ONE);
        self.store.charge_now(Intent::Peek, &[charge], Nanos::from_secs(second)).decisions[0].remaining
    }

    /// Eight other keys need a slot, and are then reset, which makes their slots free. Returns for how many there was
    /// none.
    fn crowd(&self, second: u64) -> u64 {
        let now = Nanos::from_secs(second);
        let slow = Quota::new(1, Nanos::DAY, 10).unwrap();
        let crowd = self.store.limit("crowd", slow.into(), Carry::AsIs, now).unwrap();
        let before = self.store.overflows();
        for intent in [Intent::Take, Intent::Reset] {
            for key in 0..8 {
                let _ = self.store.charge_now(intent, &[Charge::new(&crowd, &[key], Cost::ONE)], now);
            }
        }
        self.store.overflows() - before
    }

    /// An override of forty tokens, one a second, is put in force: it takes four times as long to fill.
    fn overridden(&self) -> LimitRef {
        let larger = OverrideNumbers::Fixed { rate: None, capacity: Some(40) };
        self.store.expect_overrides(&self.limit, &[larger]);
        self.store.variant(&self.limit, LimitVariant::from(larger)).unwrap()
    }
}

#[test]
fn a_forgotten_bucket_is_full_in_an_override_that_comes_later() {
    let (kept, forgotten) = (Small::new(), Small::new());
    for small in [&kept, &forgotten] {
        assert!(small.takes(&small.limit, 1, 100), "it is full again a second later");
    }
    assert_eq!(forgotten.crowd(105), 0, "the bucket is full in all numbers so far, and makes way");
    let (larger, larger_forgotten) = (kept.overridden(), forgotten.overridden());
    assert_eq!(kept.holds(&larger, 113), 10 + 12, "it goes on filling up since it was full");
    assert_eq!(forgotten.holds(&larger_forgotten, 113), 40);

    // Over any time no more is admitted than the override's capacity and its rate.
    assert!(forgotten.takes(&larger_forgotten, 40, 113) && !forgotten.takes(&larger_forgotten, 1, 113));
    assert!(forgotten.takes(&larger_forgotten, 1, 114) && !forgotten.takes(&larger_forgotten, 1, 114));
}

#[test]
fn a_bucket_is_kept_until_it_is_full_in_an_override_that_is_in_force() {
    let small = Small::new();
    let larger = small.overridden();
    // It is full again at 101, and kept for the forty seconds that the override takes to fill.
    assert!(small.takes(&small.limit, 1, 100));
    for second in [101, 110, 140] {
        assert_eq!(small.crowd(second), 1, "the bucket keeps its slot");
        assert_eq!(small.holds(&larger, second), (second - 101 + 10).min(40) as u32);
    }
    assert_eq!(small.crowd(141), 0, "it makes way");
    assert_eq!((small.holds(&larger, 141), small.holds(&small.limit, 141)), (40, 10), "and nothing is lost");
}

/// Otherwise one override of one client would fill the table with the buckets of all others.
#[test]
fn an_override_that_has_ended_keeps_no_bucket_that_was_not_charged_in_it() {
    let small = Small::new();
    let larger = small.overridden();
    assert!(small.takes(&small.limit, 1, 100));
    assert_eq!(small.crowd(102), 1, "the bucket is kept for the override");
    small.store.expect_overrides(&small.limit, &[]);
    assert_eq!(small.crowd(102), 0, "it makes way");

    // Charged in the override, it is full at 201, and holds all ten of the limit's own only then.
    assert!(small.takes(&larger, 40, 200));
    for second in [209, 240, 249] {
        assert_eq!(small.crowd(second), 1, "the bucket keeps its slot");
    }
    assert_eq!(small.crowd(250), 0, "full for the ten seconds that the limit takes to fill");
    assert_eq!(small.holds(&small.limit, 250), 10);
}
