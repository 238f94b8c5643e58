//! The policy: a document, checked and compiled to an immutable rule set.

mod descriptor;
pub mod document;
pub mod node;
mod path;
mod problem;
mod span;

pub use descriptor::Descriptor;
pub use path::{Pattern, PatternError, Segment, normalise};
pub use problem::{Problem, Severity};
pub use span::{Span, Spanned};
