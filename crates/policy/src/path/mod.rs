//! Paths of requests: their normal form, and the patterns that match them.

mod pattern;
mod spelling;

pub use pattern::{Pattern, PatternError, Segment};
pub use spelling::{PathSpelling, normalise};
