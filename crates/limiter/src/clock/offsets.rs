//! The offset between two clocks, and its history.
//!
//! A charge that is handed back must be looked up in the window in which it was counted. So the wall clock's
//! time at a past instant must still be known after the wall clock was set. Such steps are rare, so a short
//! history is enough.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use portable_atomic::{AtomicU128, Ordering};
use tidegate_core::Nanos;

/// The number of steps that are stored; for anything older, the oldest of them is used.
const STEPS_MAX: usize = 64;

/// The offsets; the latest one can be read without a lock.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// The instant from which it applies (upper half) and the offset (lower half).
    latest: AtomicU128,
    /// Earlier offsets, oldest first.
    earlier: Mutex<VecDeque<(Nanos, i64)>>,
}

impl Offsets {
    /// The current offset.
    pub(super) fn latest(&self) -> i64 {
        unpack(self.latest.load(Ordering::Acquire)).1
    }

    /// The time of the other clock at an instant of this one.
    #[inline]
    pub(super) fn at(&self, now: Nanos) -> Nanos {
        let (since, offset) = unpack(self.latest.load(Ordering::Acquire));
        let offset = if now >= since { offset } else { self.before(now, offset) };
        Nanos::new(now.get().saturating_add_signed(offset))
    }

    /// Sets the offset that applies from `since` on.
    pub(super) fn set(&self, since: Nanos, offset: i64) {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        earlier.push_back(unpack(self.latest.load(Ordering::Acquire)));
        if earlier.len() > STEPS_MAX {
            earlier.pop_front();
        }
        self.latest.store(pack(since, offset), Ordering::Release);
    }

    #[cold]
    fn before(&self, now: Nanos, latest: i64) -> i64 {
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let held = earlier.iter().rev().find(|(since, _)| *since <= now).or(earlier.front());
        held.map_or(latest, |&(_, offset)| offset)
    }
}

fn pack(since: Nanos, offset: i64) -> u128 {
    u128::from(since.get()) << 64 | u128::from(offset as u64)
}

fn unpack(packed: u128) -> (Nanos, i64) {
    (Nanos::new((packed >> 64) as u64), packed as u64 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_keeps_the_offset_it_had() {
        let (offsets, at) = (Offsets::default(), Nanos::from_secs);
        offsets.set(at(100), 7_000_000_000);
        offsets.set(at(200), -50_000_000_000);
        let shown = [at(99), at(100), at(199), at(200), at(300)].map(|now| offsets.at(now));
        assert_eq!(shown, [at(99), at(107), at(206), at(150), at(250)]);
        assert_eq!(offsets.latest(), -50_000_000_000);
        assert_eq!(Offsets::default().at(at(5)), at(5));
    }

    #[test]
    fn the_history_is_short() {
        let offsets = Offsets::default();
        for step in 0..1_000_i64 {
            offsets.set(Nanos::from_secs(1_000 + step as u64), step);
        }
        assert_eq!(offsets.earlier.lock().unwrap().len(), STEPS_MAX);
        assert_eq!(offsets.at(Nanos::from_secs(1)).get() % 1_000_000_000, 999 - STEPS_MAX as u64);
    }
}
