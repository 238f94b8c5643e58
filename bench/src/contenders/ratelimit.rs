//! The `ratelimit` crate: a single bucket; it does not support keys.

use std::hint::black_box;
use std::time::Duration;

use ratelimit::Ratelimiter;

use super::{CacheAligned, CommonQuota, prepare};
use crate::rounds::{Contender, Expected};

/// A single bucket.
pub(crate) fn hot(expected: Expected) -> Contender<'static> {
    let quota = CommonQuota::of_bucket(expected);
    let limiter = Ratelimiter::builder(quota.tokens.into())
        .period(Duration::from_secs(quota.seconds.into()))
        .max_tokens(quota.burst.into())
        .initial_available(quota.burst.into())
        .build()
        .expect("the quotas here are within range");
    let limiter = CacheAligned(limiter);
    prepare(expected, || limiter.0.try_wait().is_ok());
    Contender::new("ratelimit", move |share| {
        let limiter = &limiter.0;
        share.each_time(|| black_box(&limiter.try_wait()).is_ok())
    })
}
