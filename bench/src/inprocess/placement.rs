//! How many keys find no slot in a table that is full, but has a slot for each.

use tidegate::{Cost, Keyed, ManualClock, Nanos};

use super::setup::Setup;
use super::{bars, progress};
use crate::contenders::{CommonQuota, ours};
use crate::keys::{KEYS_MAX, KeyBlock};
use crate::report::Report;

/// Keys stay in use while a table is filled.
const QUOTA: CommonQuota = CommonQuota { tokens: 1, seconds: 1, burst: KEYS_MAX };
/// After this time every key is idle, even if all charges had gone to one key.
const ALL_IDLE: Nanos = Nanos::from_secs((QUOTA.burst * QUOTA.seconds) as u64);

/// Fills fresh and used tables, and counts the keys without a slot.
pub(crate) fn run(setup: &Setup, report: &mut Report) {
    progress(&format!("placement of {} keys", setup.keys));
    let clock = ManualClock::default();
    let fresh = ours::empty(setup.keys, QUOTA, clock.clone());
    report.bars.push(bars::placement("a fresh table", percent_without_slot(&fresh, 0, setup.keys)));

    let used = ours::empty(setup.keys, QUOTA, clock.clone());
    percent_without_slot(&used, 0, 2 * setup.keys);
    clock.advance(ALL_IDLE);
    report.bars.push(bars::placement(
        "a table full of idle keys",
        percent_without_slot(&used, 2 * setup.keys, 3 * setup.keys),
    ));
}

/// The percentage of the keys in a range that had to share the overflow bucket.
fn percent_without_slot(limiter: &Keyed<str, ManualClock>, from: u32, to: u32) -> f64 {
    let before = limiter.stats().overflows;
    let mut block = KeyBlock::new();
    for index in from..to {
        let _ = limiter.take(&block.write(&[index])[0], Cost::ONE);
    }
    (limiter.stats().overflows - before) as f64 * 100.0 / f64::from(to - from)
}
