//! Keys that take the slots of idle ones, so that the memory store forgets all that it may.

use tidegate::{
    Carry, Charge, Cost, Intent, LimitError, LimitRef, ManualClock, Memory, MemoryOptions, Nanos, Quota,
    Store,
};

/// A table of forty slots, in each of which every key may be stored.
pub(crate) const SMALL_TABLE: MemoryOptions = MemoryOptions { max_keys: 28, max_log_entries: 1_000_000 };

/// A limit of which nothing comes back while a trace runs.
pub(crate) struct Crowd(LimitRef);

impl Crowd {
    pub(crate) fn new(store: &Memory<ManualClock>) -> Result<Crowd, LimitError> {
        let quota = Quota::new(1, Nanos::DAY, 1_000)?;
        store.limit("crowd", quota.into(), Carry::AsIs, Nanos::ZERO).map(Crowd)
    }

    /// Puts new keys into a [`SMALL_TABLE`] until there is no slot for another: then each other key in it is in use.
    /// Afterwards all slots that these keys have taken are free again.
    pub(crate) fn evict_idle_keys(&self, store: &Memory<ManualClock>, now: Nanos) {
        let overflows = store.overflows();
        let charge = |intent: Intent, key: usize| {
            store.charge_now(intent, &[Charge::new(&self.0, &key.to_be_bytes(), Cost::ONE)], now)
        };
        let took = (0..=store.stats().slots).take_while(|&key| {
            let _ = charge(Intent::Take, key);
            store.overflows() == overflows
        });
        let last = took.last().map_or(0, |last| last + 1);
        (0..=last).for_each(|key| _ = charge(Intent::Reset, key));
    }
}
