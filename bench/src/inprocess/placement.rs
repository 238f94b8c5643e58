//! How many keys find no place in a table that is full, but not overfull.

use tidegate::{Cost, Keyed, ManualClock, Nanos};

use super::setup::Setup;
use super::{bars, progress};
use crate::contenders::{CommonQuota, ours};
use crate::keys::{KEYS_MAX, KeyBlock};
use crate::report::Report;

/// Keys stay in use for as long as a table takes to fill.
const QUOTA: CommonQuota = CommonQuota { tokens: 1, seconds: 1, burst: KEYS_MAX };
/// After this long nobody has used anything, not even all keys together.
const ALL_IDLE: Nanos = Nanos::from_secs((QUOTA.burst * QUOTA.seconds) as u64);

/// Fills tables, fresh and used, and counts who was left out.
pub(crate) fn run(setup: &Setup, report: &mut Report) {
    progress(&format!("placement of {} keys", setup.keys));
    let clock = ManualClock::default();
    let fresh = ours::empty(setup.keys, QUOTA, clock.clone());
    report.bars.push(bars::placement("a fresh table", left_out(&fresh, 0, setup.keys)));

    let used = ours::empty(setup.keys, QUOTA, clock.clone());
    left_out(&used, 0, 2 * setup.keys);
    clock.advance(ALL_IDLE);
    report
        .bars
        .push(bars::placement("a table full of idle keys", left_out(&used, 2 * setup.keys, 3 * setup.keys)));
}

/// Per cent of the keys in a range that had to share.
fn left_out(limiter: &Keyed<str, ManualClock>, from: u32, to: u32) -> f64 {
    let before = limiter.stats().overflows;
    let mut block = KeyBlock::new();
    for index in from..to {
        let _ = limiter.take(&block.write(&[index])[0], Cost::ONE);
    }
    (limiter.stats().overflows - before) as f64 * 100.0 / f64::from(to - from)
}
