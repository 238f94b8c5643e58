//! Which of the two times a limit uses: buckets the monotonic clock, windows the wall clock.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Meter, Nanos, WindowQuota};

use crate::Clock;

/// The time of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargeTime {
    /// On the monotonic clock.
    pub(crate) now: Nanos,
    /// The wall time is not before this.
    pub(crate) wall_from: Nanos,
}

/// How far the wall clock may be ahead of the recorded `latest`.
const NOTED_EVERY: Nanos = Nanos::SECOND;

/// The time that windows use. Most window quotas recognise any step back of the wall clock by themselves; those
/// whose window number wraps recognise a minute, so for these the time stands still until the clock has caught
/// up.
#[derive(Debug, Default)]
pub(crate) struct WindowTime {
    /// Approximately the latest wall time that such windows have seen.
    latest: AtomicU64,
}

impl WindowTime {
    /// The instant `now` on the clock that a meter uses.
    #[inline(always)]
    pub(crate) fn of<C: Clock + ?Sized>(&self, meter: &Meter, clock: &C, now: Nanos) -> Nanos {
        match meter.windows() {
            None => now,
            Some(quota) => self.wall(quota, clock, now),
        }
    }

    /// Kept out of line, because token buckets are faster without this code beside them.
    #[inline(never)]
    fn wall<C: Clock + ?Sized>(&self, quota: &WindowQuota, clock: &C, now: Nanos) -> Nanos {
        let wall = clock.wall_at(now);
        if quota.recognises_any_step_back() {
            return wall;
        }
        let latest = Nanos::new(self.latest.load(Ordering::Relaxed));
        if wall > latest.saturating_add(NOTED_EVERY) {
            self.latest.fetch_max(wall.get(), Ordering::Relaxed);
        }
        wall.max(latest)
    }
}

/// The instant of a charge on the clock that its meter uses. Unlike [`WindowTime::of`], the time does not stand
/// still here: a charge that was counted later than this, because the clock had stepped back, is not found and
/// stays charged.
pub(crate) fn charged_at<C: Clock + ?Sized>(meter: &Meter, clock: &C, at: Nanos) -> Nanos {
    if meter.windows().is_some() { clock.wall_at(at) } else { at }
}

#[cfg(test)]
mod tests;
