//! What is counted about decisions: counters, durations, the busiest keys.

pub mod counters;
pub mod durations;
pub mod hot_keys;
pub(super) mod rules_in_force;
pub(super) mod stats;
