//! A document as a tree in which everything knows where it stands.

use crate::{Span, Spanned};

pub use crate::text::{DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX, parse};

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentNode {
    /// What it is.
    pub kind: ValueKind,
    /// Where it stands.
    pub at: Span,
}

/// What a value is. Scalars keep their text, so that nothing is rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer or decimal number as written.
    Number(String),
    /// Any other text.
    Text(String),
    /// A list.
    List(Vec<DocumentNode>),
    /// A map in the order of the document; no key twice.
    Map(Vec<(Spanned<String>, DocumentNode)>),
}

impl DocumentNode {
    /// The member of a map.
    pub fn get(&self, name: &str) -> Option<&DocumentNode> {
        self.entries().iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// The members of a map; nothing for anything else.
    pub fn entries(&self) -> &[(Spanned<String>, DocumentNode)] {
        match &self.kind {
            ValueKind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; nothing for anything else.
    pub fn items(&self) -> &[DocumentNode] {
        match &self.kind {
            ValueKind::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar as written; `None` for null, lists and maps.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            ValueKind::Bool(true) => Some("true"),
            ValueKind::Bool(false) => Some("false"),
            ValueKind::Number(text) | ValueKind::Text(text) => Some(text),
            ValueKind::Null | ValueKind::List(_) | ValueKind::Map(_) => None,
        }
    }

    /// What kind of value it is, for people: "a list".
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ValueKind::Null => "nothing",
            ValueKind::Bool(_) => "true or false",
            ValueKind::Number(_) => "a number",
            ValueKind::Text(_) => "text",
            ValueKind::List(_) => "a list",
            ValueKind::Map(_) => "a map",
        }
    }
}
