//! Those who are measured, each set up as its own documentation recommends.
//!
//! Answers go to `black_box` by reference: they must be complete, but nobody pays for moving them.

pub(crate) mod bare_cas;
pub(crate) mod governor;
pub(crate) mod ours;
pub(crate) mod pingora;
pub(crate) mod ratelimit;
pub(crate) mod throttlecrab;

use crate::keys::KeyBlock;
use crate::rounds::Expected;

/// How often a drained limiter may still admit before it is called broken.
const DRAIN_MAX: u32 = 100;

/// The same limit for everybody, each of whom writes it differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonQuota {
    pub(crate) tokens: u32,
    pub(crate) seconds: u32,
    pub(crate) burst: u32,
}

impl CommonQuota {
    /// More than can be asked for, for a single bucket.
    pub(crate) const GENEROUS: CommonQuota = CommonQuota { tokens: 1_000_000, seconds: 1, burst: u32::MAX };

    /// More than can be asked for, for keys: refilled so slowly that a key which was asked for once is
    /// not forgotten as idle while we measure.
    pub(crate) const GENEROUS_BY_KEY: CommonQuota =
        CommonQuota { tokens: 1, seconds: 600, burst: 10_000_000 };

    /// The same, but a token is no whole number of nanoseconds.
    const GENEROUS_ODD: CommonQuota = CommonQuota { tokens: 999_983, ..CommonQuota::GENEROUS };

    /// Used up at once and for long.
    pub(crate) const SCARCE: CommonQuota = CommonQuota { tokens: 1, seconds: 3_600, burst: 2 };

    /// The same, but a token is no whole number of nanoseconds.
    const SCARCE_ODD: CommonQuota = CommonQuota { tokens: 7, seconds: 25_201, ..CommonQuota::SCARCE };

    pub(crate) fn of_bucket(expected: Expected) -> CommonQuota {
        match expected {
            Expected::Allowing => CommonQuota::GENEROUS,
            Expected::Denying => CommonQuota::SCARCE,
        }
    }

    fn of_odd_bucket(expected: Expected) -> CommonQuota {
        match expected {
            Expected::Allowing => CommonQuota::GENEROUS_ODD,
            Expected::Denying => CommonQuota::SCARCE_ODD,
        }
    }

    pub(crate) fn of_key(expected: Expected) -> CommonQuota {
        match expected {
            Expected::Allowing => CommonQuota::GENEROUS_BY_KEY,
            Expected::Denying => CommonQuota::SCARCE,
        }
    }
}

/// A value on cache lines of its own, so that a hot bucket's speed does not depend on its neighbours.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// Asks once, or until denied if that is what is expected.
fn prepare(expected: Expected, mut ask: impl FnMut() -> bool) {
    if ask() && expected == Expected::Denying {
        let _used_up = (0..DRAIN_MAX).any(|_| !ask());
    }
}

/// Prepares every key below `keys`.
fn prepare_keys(keys: u32, expected: Expected, mut ask: impl FnMut(&String) -> bool) {
    let mut block = KeyBlock::new();
    for index in 0..keys {
        let key = &block.write(&[index])[0];
        prepare(expected, || ask(key));
    }
}
