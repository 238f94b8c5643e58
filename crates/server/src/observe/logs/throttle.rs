//! A rate limit for log lines, so that clients cannot flood the log.
//!
//! Each call site that logs, ours or a library's, may write a few lines at once and then one per second. Suppressed
//! lines are counted, and the next line of that call site reports the count. A few lines at once are enough for
//! everything an operator causes, such as reloading files, so no call site is exempt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use tidegate::{Clock, Nanos};
use tracing::Metadata;
use tracing::callsite::Identifier;

/// Lines that one call site may write at once.
const LINES_AT_ONCE: u64 = 5;
/// After them it may write one line per interval.
const LINE_INTERVAL: Nanos = Nanos::SECOND;

/// The throttle of all call sites.
#[derive(Debug)]
pub(crate) struct LogThrottle<C> {
    clock: C,
    sites: RwLock<HashMap<Identifier, CallSite>>,
}

impl<C: Clock> LogThrottle<C> {
    pub(crate) fn new(clock: C) -> LogThrottle<C> {
        LogThrottle { clock, sites: RwLock::default() }
    }

    /// `None` if this call site must not write now; otherwise how many lines it has suppressed since its last one.
    pub(crate) fn due(&self, of: &Metadata<'_>) -> Option<u64> {
        let (site, now) = (of.callsite(), self.clock.now());
        if let Some(known) = self.sites.read().unwrap_or_else(PoisonError::into_inner).get(&site) {
            return known.due(now);
        }
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        sites.entry(site).or_default().due(now)
    }
}

/// One call site, as a token bucket that is full again at `full_at`.
#[derive(Debug, Default)]
struct CallSite {
    full_at: AtomicU64,
    left_out: AtomicU64,
}

impl CallSite {
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
        let site = CallSite::default();
        let at = |millis| Nanos::from_secs(1_800_000_000).saturating_add(Nanos::from_millis(millis));
        let first: Vec<_> = (0..100).map(|n| site.due(at(n))).collect();
        assert_eq!(first.iter().flatten().count(), 5);
        assert_eq!(site.due(at(999)), None);
        assert_eq!(site.due(at(1_000)), Some(96));
        assert_eq!(site.due(at(1_001)), None);
        // The same holds over a long time.
        let lines: Vec<u64> = (2_000..62_000).filter_map(|millis| site.due(at(millis))).collect();
        assert_eq!(lines.len(), 60);
        let reported = lines.iter().sum::<u64>() + site.due(at(100_000)).unwrap();
        assert_eq!(reported, 1 + 60_000 - 60, "what was left out is never lost");
    }
}
