//! Saying something that happens often only now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::Nanos;

/// Lets one in a second through and counts the others, for log lines that clients can provoke.
#[derive(Debug, Default)]
pub struct Seldom {
    /// The earliest instant for the next, in nanoseconds.
    next: AtomicU64,
    kept_quiet: AtomicU64,
}

impl Seldom {
    /// How far apart they are.
    const APART: Nanos = Nanos::SECOND;

    /// Nothing said yet.
    pub const fn new() -> Seldom {
        Seldom { next: AtomicU64::new(0), kept_quiet: AtomicU64::new(0) }
    }

    /// Is it time to say it again? Then how many times it was not said since.
    pub fn due(&self, now: Nanos) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let later = now.saturating_add(Seldom::APART).get();
        let is_mine = now.get() >= next
            && self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            return Some(self.kept_quiet.swap(0, Ordering::Relaxed));
        }
        self.kept_quiet.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_second_with_the_number_of_the_others() {
        let seldom = Seldom::new();
        let at = |millis| Nanos::from_secs(1_800_000_000).saturating_add(Nanos::from_millis(millis));
        assert_eq!(seldom.due(at(0)), Some(0));
        assert_eq!([seldom.due(at(1)), seldom.due(at(999))], [None, None]);
        assert_eq!(seldom.due(at(1_000)), Some(2));
        assert_eq!(seldom.due(at(1_001)), None);
        assert_eq!(seldom.due(at(5_000)), Some(1));
    }
}
