//! Paths through a document.

use std::fmt;

use crate::text::join;

/// Where a value is in the document: `limits[3].key[0]`. It borrows its parents, so that nothing is allocated until it
/// is printed.
#[derive(Clone, Copy, Debug)]
pub enum DocumentPath<'a> {
    /// The whole document.
    Root,
    /// A member of a map.
    Member(&'a DocumentPath<'a>, &'a str),
    /// An item of a list.
    Item(&'a DocumentPath<'a>, usize),
}

impl<'a> DocumentPath<'a> {
    /// The path of a member of the map at this path.
    #[must_use]
    pub fn member(&'a self, name: &'a str) -> DocumentPath<'a> {
        DocumentPath::Member(self, name)
    }

    /// The path of an item of the list at this path.
    #[must_use]
    pub fn item(&'a self, index: usize) -> DocumentPath<'a> {
        DocumentPath::Item(self, index)
    }

    /// The name of the field at this path; empty for an item and for the whole document.
    pub fn name(&self) -> &str {
        match self {
            DocumentPath::Root | DocumentPath::Item(..) => "",
            DocumentPath::Member(_, name) => name,
        }
    }
}

impl fmt::Display for DocumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentPath::Root => Ok(()),
            DocumentPath::Member(parent, name) => f.write_str(&join(&parent.to_string(), name)),
            DocumentPath::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
