//! The `governor` crate, with its default clock and its default map of keys.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::middleware::StateInformationMiddleware;
use governor::{DefaultKeyedRateLimiter, RateLimiter};

use super::{CacheAligned, CommonQuota, prepare, prepare_keys};
use crate::rounds::{Contender, Expected};

pub(crate) const NAME: &str = "governor";

/// A single bucket that returns yes, or the time until which it denies.
pub(crate) fn hot(expected: Expected) -> Contender<'static> {
    let limiter = CacheAligned(RateLimiter::direct(quota(CommonQuota::of_bucket(expected))));
    prepare(expected, || limiter.0.check().is_ok());
    Contender::new(NAME, move |share| {
        let limiter = &limiter.0;
        share.each_time(|| black_box(&limiter.check()).is_ok())
    })
}

/// The same with the remaining tokens, or the instant of the next possible request: closer to
/// Tidegate's decision.
pub(crate) fn hot_with_state(expected: Expected) -> Contender<'static> {
    let limiter = RateLimiter::direct(quota(CommonQuota::of_bucket(expected)));
    let limiter = CacheAligned(limiter.with_middleware::<StateInformationMiddleware>());
    prepare(expected, || limiter.0.check().is_ok());
    Contender::new("governor, with state", move |share| {
        let limiter = &limiter.0;
        share.each_time(|| match limiter.check() {
            Ok(state) => {
                black_box(state.remaining_burst_capacity());
                true
            }
            Err(until) => {
                black_box(until.earliest_possible());
                false
            }
        })
    })
}

/// A limiter that already has every key below `keys`.
pub(crate) fn full(keys: u32, expected: Expected) -> DefaultKeyedRateLimiter<String> {
    let limiter = RateLimiter::keyed(quota(CommonQuota::of_key(expected)));
    prepare_keys(keys, expected, |key| limiter.check_key(key).is_ok());
    limiter
}

/// One key at a time.
pub(crate) fn keyed(limiter: &DefaultKeyedRateLimiter<String>) -> Contender<'_> {
    Contender::new(NAME, |share| share.each_key(|key| black_box(&limiter.check_key(key)).is_ok()))
}

fn quota(quota: CommonQuota) -> governor::Quota {
    let period = Duration::from_secs(quota.seconds.into()) / quota.tokens;
    let burst = NonZeroU32::new(quota.burst).expect("the quotas here have a burst");
    governor::Quota::with_period(period).expect("the quotas here refill").allow_burst(burst)
}
