//! The `pingora-limits` crate: it estimates how often a key was seen in the current interval, and the
//! caller compares that with the limit.

use std::hint::black_box;
use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{CommonQuota, prepare, prepare_keys};
use crate::keys;
use crate::rounds::{Contender, Expected};

const NAME: &str = "pingora-limits";
/// So long that no interval ends during a measurement.
const INTERVAL: Duration = Duration::from_secs(3_600);

/// A single key.
pub(crate) fn hot(expected: Expected) -> Contender<'static> {
    let (rate, most) = (Rate::new(INTERVAL), most(CommonQuota::of_bucket(expected)));
    let key = keys::key(0);
    prepare(expected, || rate.observe(&key, 1) <= most);
    Contender::new(NAME, move |share| share.each_time(|| black_box(rate.observe(&key, 1)) <= most))
}

/// Many keys. They share fewer counters, so the decisions are estimates.
pub(crate) fn keyed(keys: u32, expected: Expected) -> Contender<'static> {
    let (rate, most) = (Rate::new(INTERVAL), most(CommonQuota::of_key(expected)));
    prepare_keys(keys, expected, |key| rate.observe(key, 1) <= most);
    let run =
        Contender::new(NAME, move |share| share.each_key(|key| black_box(rate.observe(key, 1)) <= most));
    run.estimating()
}

fn most(quota: CommonQuota) -> isize {
    isize::try_from(quota.burst).unwrap_or(isize::MAX)
}
