//! Warns when the wall clock moves against the steady clock, because it was set or has drifted.

use tidegate::{Clock, Nanos};

use crate::node::Node;

/// The smallest step that is reported, in nanoseconds.
const REPORTED_STEP_MIN: i64 = Nanos::SECOND.get() as i64;

/// The last observed and the last reported offset of the wall clock.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// By how many nanoseconds the wall clock was ahead at the last check.
    seen: i64,
    /// The same at the last report.
    reported: i64,
}

impl ClockWatch {
    /// Compares the clocks; warns and counts if the wall clock has moved.
    pub(super) fn check(&mut self, node: &Node) {
        let now = node.clock().now();
        let wall = node.clock().wall_at(now);
        let Some(moved) = self.moved(now, wall) else { return };
        node.metrics().clock_moved();
        let (moved_s, offset_s) = (seconds(moved), seconds(self.reported));
        tracing::warn!(
            moved_s,
            offset_s,
            "the wall clock was set or has drifted: dates, `until`, windows and the expiry of tokens follow it, \
             buckets do not; after a step back, windows in use stay current until the clock reaches them again"
        );
    }

    /// By how much the wall clock has moved since the last report, if that is to be reported. A step always is. Drift
    /// never ends, so it is reported at one second, and then each time it has grown by half.
    fn moved(&mut self, now: Nanos, wall: Nanos) -> Option<i64> {
        let offset = wall.get().wrapping_sub(now.get()) as i64;
        let step = offset.saturating_sub(std::mem::replace(&mut self.seen, offset));
        let moved = offset.saturating_sub(self.reported);
        let drift_max = REPORTED_STEP_MIN.max(self.reported.saturating_abs() / 2);
        if step.saturating_abs() < REPORTED_STEP_MIN && moved.saturating_abs() < drift_max {
            return None;
        }
        self.reported = offset;
        Some(moved)
    }
}

/// Nanoseconds as seconds with three decimals and a sign.
pub(crate) fn seconds(nanos: i64) -> String {
    let (sign, millis) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs() / 1_000_000);
    format!("{sign}{}.{:03}", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    /// The reports, in milliseconds, for a wall clock that is this many milliseconds ahead at each check.
    fn reported(offsets: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut watch = ClockWatch::default();
        let looks = offsets.into_iter().zip(0..).map(|(offset, check)| {
            let now = NOW + check * 250;
            watch.moved(Nanos::from_millis(now), Nanos::from_millis(now.saturating_add_signed(offset)))
        });
        looks.flatten().map(|moved| moved / 1_000_000).collect()
    }

    #[test]
    fn a_step_is_told_once_each_time() {
        assert_eq!(reported([0, 1, 2, 3_600_000, 3_600_001, 3_600_000]), [3_600_000]);
        assert_eq!(reported([0, -5_000, -5_000, -6_000, 0, 0]), [-5_000, -1_000, 6_000]);
        assert_eq!(reported([0, 999, 0, -999]), [0_i64; 0]);
    }

    #[test]
    fn drift_is_told_ever_more_seldom() {
        // A drift of 20 ppm, for fifty days, checked every hour.
        let drift = reported((0..1_200).map(|hour| hour * 72));
        assert_eq!(drift.len(), 11, "{drift:?}");
        assert!(drift.iter().sum::<i64>() > 50_000, "{drift:?}");
    }

    #[test]
    fn seconds_have_a_sign_and_thousandths() {
        assert_eq!(
            [0, 1_500_000_000, -7_042_000_000, -1].map(seconds),
            ["0.000", "1.500", "-7.042", "-0.000"]
        );
    }
}
