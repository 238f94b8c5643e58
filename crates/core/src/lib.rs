//! The arithmetic of Tidegate: what a limit is and how it decides, exactly.
//!
//! Nothing here reads a clock, waits, does IO, or allocates while deciding (except a sliding log that grows).
//! Each algorithm is a set of pure functions of its state, its quota, a [`Cost`] and `now`; stores and servers
//! are built around them. To limit something, start with the crate `tidegate`; use this crate to look up the
//! exact guarantees, or to build a store of your own.
//!
//! ```
//! use core::time::Duration;
//! use tidegate_core::{Cost, Nanos, Quota, RetryAfter, token_bucket};
//!
//! // 10 per second, bursts of 50.
//! let quota = Quota::new(10, Duration::from_secs(1), 50)?;
//! let now = Nanos::from_secs(1_800_000_000);
//!
//! // An untouched bucket is the word zero, and full.
//! let (decision, next) = token_bucket::take(0, &quota, Cost::new(50), now);
//! assert!(decision.is_allowed());
//!
//! // Now the bucket is empty; the next token arrives in 100 ms.
//! let state = next.expect("an admitted cost changes the state");
//! let (decision, next) = token_bucket::take(state, &quota, Cost::ONE, now);
//! assert_eq!(decision.retry_after(), RetryAfter::Wait(Duration::from_millis(100)));
//! assert_eq!(next, None, "a denial changes nothing");
//! # Ok::<(), tidegate_core::QuotaError>(())
//! ```
//!
//! # Guarantees
//!
//! With capacity *B* and rate *R*, on a clock rounded down to the quota's own tick (see [`Quota`]):
//!
//! - over any time span *t* the admitted cost is at most *B + R·t*, and a cost that the bucket holds is never
//!   denied;
//! - a denial changes nothing, and the number of tokens never drops below zero;
//! - after waiting exactly [`LimitDecision::retry_after`], with no other charge meanwhile, the cost is
//!   admitted; a cost above the capacity is answered with [`RetryAfter::Never`] instead of a wait;
//! - a clock that steps back never refills anything.

#![no_std]

extern crate alloc;

mod ahead;
mod cost;
mod decision;
mod error;
pub mod fixed_window;
mod limit;
mod quota;
mod rate;
mod reciprocal;
pub mod sliding_log;
pub mod sliding_window;
mod time;
pub mod token_bucket;
mod trust;
mod variant;
mod window;

pub use cost::Cost;
pub use decision::{LimitDecision, Outcome, RetryAfter, tightest};
pub use error::QuotaError;
pub use limit::{Algorithm, Carry, Limit, Meter};
pub use quota::{Quota, Ticks};
pub use rate::Rate;
pub use sliding_log::LogQuota;
pub use time::Nanos;
pub use variant::{LimitVariant, OverrideNumbers};
pub use window::WindowQuota;

/// Runs the README's example as a doc test.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
