//! The `throttlecrab` crate, with its adaptive store and the wall clock, as in its documentation.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use throttlecrab::{AdaptiveStore, RateLimiter};

use super::{CommonQuota, prepare, prepare_keys};
use crate::keys;
use crate::rounds::{Contender, Expected};
use crate::stopwatch::wall_clock;

pub(crate) const NAME: &str = "throttlecrab";

/// Its limiter needs exclusive access. A single thread takes the lock once for all its work.
pub(crate) struct ThrottlecrabLimiter {
    limiter: Mutex<RateLimiter<AdaptiveStore>>,
    quota: CommonQuota,
}

/// A single key.
pub(crate) fn hot(expected: Expected) -> Contender<'static> {
    let limiter = ThrottlecrabLimiter::new(1, CommonQuota::of_bucket(expected));
    let key = keys::key(0);
    prepare(expected, || limiter.is_allowed(&mut limiter.lock(), &key));
    Contender::new(NAME, move |share| {
        if share.alone {
            let mut locked = limiter.lock();
            share.each_time(|| limiter.is_allowed(&mut locked, &key))
        } else {
            share.each_time(|| limiter.is_allowed(&mut limiter.lock(), &key))
        }
    })
}

/// A limiter that already has every key below `keys`.
pub(crate) fn full(keys: u32, expected: Expected) -> ThrottlecrabLimiter {
    let limiter = ThrottlecrabLimiter::new(keys, CommonQuota::of_key(expected));
    let mut locked = limiter.lock();
    prepare_keys(keys, expected, |key| limiter.is_allowed(&mut locked, key));
    drop(locked);
    limiter
}

/// One key at a time.
pub(crate) fn keyed(limiter: &ThrottlecrabLimiter) -> Contender<'_> {
    Contender::new(NAME, |share| {
        if share.alone {
            let mut locked = limiter.lock();
            share.each_key(|key| limiter.is_allowed(&mut locked, key))
        } else {
            share.each_key(|key| limiter.is_allowed(&mut limiter.lock(), key))
        }
    })
}

impl ThrottlecrabLimiter {
    fn new(keys: u32, quota: CommonQuota) -> ThrottlecrabLimiter {
        let store = AdaptiveStore::builder().capacity(keys as usize).build();
        ThrottlecrabLimiter { limiter: Mutex::new(RateLimiter::new(store)), quota }
    }

    fn lock(&self) -> MutexGuard<'_, RateLimiter<AdaptiveStore>> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_allowed(&self, limiter: &mut RateLimiter<AdaptiveStore>, key: &str) -> bool {
        let CommonQuota { tokens, seconds, burst } = self.quota;
        let answer = limiter.rate_limit(key, burst.into(), tokens.into(), seconds.into(), 1, wall_clock());
        black_box(&answer).as_ref().expect("the quotas here are within range").0
    }
}
