//! Which of the two times a limit goes by: buckets by the steady clock, windows
//! by the wall clock.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Meter, Nanos, WindowQuota};

use crate::Clock;

/// When an act takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargeTime {
    /// By the steady clock.
    pub(crate) now: Nanos,
    /// By the wall clock no earlier than that.
    pub(crate) wall_from: Nanos,
}

/// How far the wall clock may run ahead of what is noted of it.
const NOTED_EVERY: Nanos = Nanos::SECOND;

/// The time of windows. Most of them recognise any step back of the wall clock by
/// themselves; those whose window number wraps recognise a minute, so for
/// these the clock stands still until it is there again.
#[derive(Debug, Default)]
pub(crate) struct WindowTime {
    /// About the latest that the wall clock has shown to such windows.
    latest: AtomicU64,
}

impl WindowTime {
    /// The instant `now` as a meter sees it.
    #[inline(always)]
    pub(crate) fn of<C: Clock + ?Sized>(&self, meter: &Meter, clock: &C, now: Nanos) -> Nanos {
        match meter.windows() {
            None => now,
            Some(quota) => self.wall(quota, clock, now),
        }
    }

    /// Apart from token buckets, which are faster on their own.
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

/// When a charge was made, as its meter sees it. The clock does not stand still here as it may for the present: a
/// charge that was counted later than this, because the clock had stepped back, is not found there and stays charged.
pub(crate) fn charged_at<C: Clock + ?Sized>(meter: &Meter, clock: &C, at: Nanos) -> Nanos {
    if meter.windows().is_some() { clock.wall_at(at) } else { at }
}

#[cfg(test)]
mod tests;
