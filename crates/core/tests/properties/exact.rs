//! Exact numbers: nothing is rounded except where a function says so.

use num_bigint::BigInt;
use num_rational::Ratio;
use num_traits::{Signed, ToPrimitive};
use tidegate_core::Nanos;

pub(crate) type Exact = Ratio<BigInt>;

pub(crate) fn whole(number: impl Into<BigInt>) -> Exact {
    Exact::from_integer(number.into())
}

pub(crate) fn ratio(num: impl Into<BigInt>, den: impl Into<BigInt>) -> Exact {
    Exact::new(num.into(), den.into())
}

/// A span as it is reported: whole nanoseconds, rounded up, at most [`Nanos::MAX`].
pub(crate) fn told(span: &Exact) -> Nanos {
    assert!(!span.is_negative(), "a span of {span} ns");
    Nanos::new(span.ceil().to_integer().to_u64().unwrap_or(u64::MAX))
}

/// Whole tokens, rounded down; none if the level is below zero.
pub(crate) fn whole_tokens(level: &Exact) -> u32 {
    let tokens = level.floor().to_integer();
    if tokens.is_negative() { 0 } else { tokens.to_u32().expect("a level is at most the capacity") }
}

/// The largest multiple of `unit` that is at most `number`.
pub(crate) fn round_down(number: &Exact, unit: &Exact) -> Exact {
    (number / unit).floor() * unit
}

/// An instant as every algorithm reads it: later than the end is the end.
pub(crate) fn read(now: Nanos) -> u64 {
    now.min(Nanos::END).get()
}
