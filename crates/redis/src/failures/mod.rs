//! The errors of a store and their counts, and the circuit breakers that stop calls to a failing server.

pub(crate) mod breaker;
pub(crate) mod breaker_set;
mod errors;

pub(crate) use errors::ErrorTracker;
pub use errors::{ErrorCounts, Health, StoreError};
