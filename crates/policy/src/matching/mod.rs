//! Which entries of a policy a request meets.
//!
//! Every entry is filed under the one of its conditions that the fewest others
//! share; a request then looks only at what is filed under its own values, and
//! checks the rest of the conditions there. The cost of that is in the number of
//! entries that nearly match, not in the number of entries.

mod condition;
mod index;
mod path_tree;
mod text_map;

pub use condition::Condition;
pub(crate) use index::Index;
pub(crate) use path_tree::PathTree;
use text_map::TextMap;

use smallvec::SmallVec;

/// Numbers of entries that may match.
pub(crate) type Candidates = SmallVec<[u32; 32]>;
