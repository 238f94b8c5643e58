//! No line of the log can be written as often as clients like.
//!
//! Every place in the code that logs, ours or a library's, may write a few lines at once, and then one a second; what
//! is left out is counted, and told by the next line of that place. The few lines at once are enough for whatever an
//! operator causes, such as reloading files, so there are no exceptions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use tidegate::{Clock, Nanos};
use tracing::Metadata;
use tracing::callsite::Identifier;

/// Lines of one place at once.
const LINES_AT_ONCE: u64 = 5;
/// Then it may write one more each.
const LINE_INTERVAL: Nanos = Nanos::SECOND;

/// What each place has written.
#[derive(Debug)]
pub(crate) struct LogThrottle<C> {
    clock: C,
    places: RwLock<HashMap<Identifier, Place>>,
}

impl<C: Clock> LogThrottle<C> {
    pub(crate) fn new(clock: C) -> LogThrottle<C> {
        LogThrottle { clock, places: RwLock::default() }
    }

    /// May this place write a line? Then how many it did not write since its last.
    pub(crate) fn due(&self, of: &Metadata<'_>) -> Option<u64> {
        let (place, now) = (of.callsite(), self.clock.now());
        if let Some(known) = self.places.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return known.due(now);
        }
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        places.entry(place).or_default().due(now)
    }
}

/// One place, as a bucket that is full again at an instant.
#[derive(Debug, Default)]
struct Place {
    full_at: AtomicU64,
    left_out: AtomicU64,
}

impl Place {
    fn due(&self, now: Nanos) -> Option<u64> {
        let (now, line) = (now.get(), LINE_INTERVAL.get());
        let latest = now.saturating_add(line.saturating_mul(LINES_AT_ONCE));
        let written =
            |full_at: u64| Some(full_at.max(now).saturating_add(line)).filter(|next| *next <= latest);
        if self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, written).is_ok() {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_then_one_a_second_with_the_number_of_the_others() {
        let place = Place::default();
        let at = |millis| Nanos::from_secs(1_800_000_000).saturating_add(Nanos::from_millis(millis));
        let first: Vec<_> = (0..100).map(|n| place.due(at(n))).collect();
        assert_eq!(first.iter().flatten().count(), 5);
        assert_eq!(place.due(at(999)), None);
        assert_eq!(place.due(at(1_000)), Some(96));
        assert_eq!(place.due(at(1_001)), None);
        // However long it lasts.
        let lines: Vec<u64> = (2_000..62_000).filter_map(|millis| place.due(at(millis))).collect();
        assert_eq!(lines.len(), 60);
        let told = lines.iter().sum::<u64>() + place.due(at(100_000)).unwrap();
        assert_eq!(told, 1 + 60_000 - 60, "what was left out is never lost");
    }
}
