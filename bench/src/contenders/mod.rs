//! The limiters that are measured, each set up as its own documentation recommends.
//!
//! Decisions go to `black_box` by reference: they must be computed, but need not be moved.

pub(crate) mod bare_cas;
pub(crate) mod governor;
pub(crate) mod ours;
pub(crate) mod pingora;
pub(crate) mod ratelimit;
pub(crate) mod throttlecrab;

use crate::keys::KeyBlock;
use crate::rounds::Expected;

/// How often a limiter may still admit before the benchmark reports that it cannot be drained.
const DRAIN_MAX: u32 = 100;

/// The same limit for all contenders, converted to the type of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonQuota {
    pub(crate) tokens: u32,
    pub(crate) seconds: u32,
    pub(crate) burst: u32,
}

impl CommonQuota {
    /// A single bucket that never denies during a measurement.
    pub(crate) const GENEROUS: CommonQuota = CommonQuota { tokens: 1_000_000, seconds: 1, burst: u32::MAX };

    /// Keys that are never denied during a measurement: they refill so slowly that a used key does not
    /// become idle, and so is not evicted.
    pub(crate) const GENEROUS_BY_KEY: CommonQuota =
        CommonQuota { tokens: 1, seconds: 600, burst: 10_000_000 };

    /// The same, but the time per token is not a whole number of nanoseconds.
    const GENEROUS_ODD: CommonQuota = CommonQuota { tokens: 999_983, ..CommonQuota::GENEROUS };

    /// Used up at once, and empty for the whole measurement.
    pub(crate) const SCARCE: CommonQuota = CommonQuota { tokens: 1, seconds: 3_600, burst: 2 };

    /// The same, but the time per token is not a whole number of nanoseconds.
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

/// A value on its own cache lines, so that false sharing does not slow a hot bucket down.
#[derive(Debug)]
#[repr(align(128))]
struct CacheAligned<T>(T);

/// Calls the limiter once, or until it denies if denials are expected.
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
