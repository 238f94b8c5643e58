//! Statistics of decisions. [`counters`] and [`hot_keys`] are the data structures, with
//! [`measure`](crate::measure); `stats` fills them once per decision, and `limiter_stats` reads them.

pub mod counters;
pub mod hot_keys;
pub(super) mod limiter_stats;
pub(super) mod routes;
pub(super) mod stats;
pub(super) mod unlimited;
