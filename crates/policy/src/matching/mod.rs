//! Finds the entries of a policy that match a request.
//!
//! The index stores every entry under the one of its conditions that the fewest other entries share. A request looks up
//! its own values there, and checks the remaining conditions of the entries that it finds. The cost depends on how many
//! entries nearly match, not on how many there are.

mod condition;
mod host;
mod index;
mod path_tree;
mod text_map;

pub use condition::Condition;
pub(crate) use host::HostIndex;
pub use host::{HostError, HostPattern};
pub(crate) use index::Index;
pub(crate) use path_tree::PathTree;
use text_map::TextMap;

use smallvec::SmallVec;

/// Numbers of entries that may match.
pub(crate) type Candidates = SmallVec<[u32; 32]>;
