//! Counters and histograms of durations that threads fill without contention. Whatever is measured in a decision or a
//! call to a store is counted with these.

mod durations;
mod totals;

pub use durations::{DurationHistogram, DurationSnapshot};
pub use totals::Totals;
#[cfg(feature = "policy")]
pub(crate) use totals::{SHARDS, WORDS_PER_LINE, shard_of_thread};
