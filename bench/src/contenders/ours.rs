//! Tidegate.

use std::hint::black_box;

use tidegate::{Bucket, Clock, Cost, Keyed, MemoryOptions, MonotonicClock, Nanos};

use super::{CacheAligned, CommonQuota, prepare, prepare_keys};
use crate::rounds::{AnswerCounts, Contender, Expected};

pub(crate) const NAME: &str = "tidegate";
pub(crate) const BATCH_NAME: &str = "tidegate, batches";

/// A single bucket.
pub(crate) fn hot(expected: Expected) -> Contender<'static> {
    bucket(NAME, CommonQuota::of_bucket(expected), expected)
}

/// The same at the rate with the most expensive arithmetic.
pub(crate) fn hot_odd(expected: Expected) -> Contender<'static> {
    bucket("tidegate, odd rate", CommonQuota::of_odd_bucket(expected), expected)
}

fn bucket(name: &'static str, limit: CommonQuota, expected: Expected) -> Contender<'static> {
    let bucket = CacheAligned(Bucket::new(quota(limit)));
    prepare(expected, || bucket.0.take(Cost::ONE).is_allowed());
    Contender::new(name, move |share| {
        let bucket = &bucket.0;
        share.each_time(|| black_box(&bucket.take(Cost::ONE)).is_allowed())
    })
}

/// A limiter that is full: it has as many keys as it was created for.
pub(crate) fn full(keys: u32, expected: Expected) -> Keyed<str> {
    let limiter = empty(keys, CommonQuota::of_key(expected), MonotonicClock::new());
    prepare_keys(keys, expected, |key| limiter.take(key, Cost::ONE).is_allowed());
    limiter
}

/// An empty limiter for this number of keys.
pub(crate) fn empty<C: Clock>(keys: u32, limit: CommonQuota, clock: C) -> Keyed<str, C> {
    let options = MemoryOptions { max_keys: keys as usize, ..MemoryOptions::default() };
    Keyed::with(quota(limit), options, clock).expect("the machine has memory for the keys")
}

/// One key at a time.
pub(crate) fn keyed(limiter: &Keyed<str>) -> Contender<'_> {
    Contender::new(NAME, |share| share.each_key(|key| black_box(&limiter.take(key, Cost::ONE)).is_allowed()))
}

/// Keys in batches.
pub(crate) fn batches(limiter: &Keyed<str>) -> Contender<'_> {
    Contender::new(BATCH_NAME, |share| {
        let mut counts = AnswerCounts::default();
        share.each_block(|keys| {
            let requests = keys.iter().map(|key| (key.as_str(), Cost::ONE));
            limiter.take_many(requests, |decision| counts.count(black_box(&decision).is_allowed()));
        });
        counts
    })
}

fn quota(quota: CommonQuota) -> tidegate::Quota {
    let window = Nanos::from_secs(quota.seconds.into());
    tidegate::Quota::new(quota.tokens.into(), window, quota.burst).expect("the quotas here are within range")
}
