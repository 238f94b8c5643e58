//! The guarantees of each algorithm, written as naively and exactly as possible.

mod bucket;
mod log;
mod window;

use tidegate_core::{Cost, LimitDecision, Nanos};

pub(crate) use bucket::Bucket;
pub(crate) use log::Log;
pub(crate) use window::{Kind, Windows};

/// The operations on a limit, the real one or its model.
pub(crate) trait Limiter {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision;
    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision;
    fn refund(&mut self, cost: Cost, now: Nanos);
    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, now: Nanos);
    fn is_idle(&self, now: Nanos) -> bool;
}

/// A model, which also knows its clock.
pub(crate) trait Model: Limiter {
    /// Would a charge at `now` be counted at `now`? If the clock has stepped back, windows and logs count it
    /// later.
    fn is_on_time(&self, now: Nanos) -> bool;

    /// By how many nanoseconds a retry must be early to fail for certain.
    fn retry_slack(&self) -> u64 {
        1
    }
}
