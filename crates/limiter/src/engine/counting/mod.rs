//! Statistics of decisions. [`counters`], [`durations`] and [`hot_keys`] are the data structures,
//! `stats` fills them once per decision, and `limiter_stats` reads them.

pub mod counters;
pub mod durations;
pub mod hot_keys;
pub(super) mod limiter_stats;
pub(super) mod stats;
pub(super) mod unlimited;
