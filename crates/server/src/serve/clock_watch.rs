//! Is the wall clock where the steady one says it should be? Somebody may set it, and the two drift.

use tidegate::{Clock, Nanos};

use crate::node::Node;

/// A change of at least that is told.
const FAR: i64 = Nanos::SECOND.get() as i64;

/// What was seen of the wall clock, and what was told of it.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// By how many nanoseconds it was ahead when it was looked at last.
    seen: i64,
    /// The same when it was told last.
    told: i64,
}

impl ClockWatch {
    /// Looks at it; warns and counts if it is somewhere else.
    pub(super) fn look(&mut self, node: &Node) {
        let now = node.clock().now();
        let wall = node.clock().wall_at(now);
        let Some(moved) = self.moved(now, wall) else { return };
        node.metrics().clock_moved();
        let (moved_s, offset_s) = (seconds(moved), seconds(self.told));
        tracing::warn!(
            moved_s,
            offset_s,
            "the wall clock was set, or has drifted: tokens, dates, `until` and windows follow it, buckets do not; \
             after a step back, windows that were counted in stay as they are until it is there again"
        );
    }

    /// By how much it has moved, if that is to be told. A step always is. Drift is told when it comes to a second and
    /// then each time that it has grown by half, for it never ends.
    fn moved(&mut self, now: Nanos, wall: Nanos) -> Option<i64> {
        let offset = wall.get().wrapping_sub(now.get()) as i64;
        let step = offset.saturating_sub(std::mem::replace(&mut self.seen, offset));
        let moved = offset.saturating_sub(self.told);
        let drift_max = FAR.max(self.told.saturating_abs() / 2);
        if step.saturating_abs() < FAR && moved.saturating_abs() < drift_max {
            return None;
        }
        self.told = offset;
        Some(moved)
    }
}

/// In whole seconds and thousandths, with a sign.
pub(crate) fn seconds(nanos: i64) -> String {
    let (sign, millis) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs() / 1_000_000);
    format!("{sign}{}.{:03}", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    /// What is told, in milliseconds, of a wall clock that is so many milliseconds ahead at each look.
    fn told(offsets: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut watch = ClockWatch::default();
        let looks = offsets.into_iter().zip(0..).map(|(offset, look)| {
            let now = NOW + look * 250;
            watch.moved(Nanos::from_millis(now), Nanos::from_millis(now.saturating_add_signed(offset)))
        });
        looks.flatten().map(|moved| moved / 1_000_000).collect()
    }

    #[test]
    fn a_step_is_told_once_each_time() {
        assert_eq!(told([0, 1, 2, 3_600_000, 3_600_001, 3_600_000]), [3_600_000]);
        assert_eq!(told([0, -5_000, -5_000, -6_000, 0, 0]), [-5_000, -1_000, 6_000]);
        assert_eq!(told([0, 999, 0, -999]), [0_i64; 0]);
    }

    #[test]
    fn drift_is_told_ever_more_seldom() {
        // Twenty millionths, for fifty days, looked at every hour.
        let drift = told((0..1_200).map(|hour| hour * 72));
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
