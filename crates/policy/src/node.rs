//! A document as a tree in which everything knows where it stands.

use crate::{Span, Spanned};

pub use crate::text::{DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX, parse};

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it stands.
    pub at: Span,
}

/// What a value is. Scalars keep their text, so that nothing is rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer or decimal number as written.
    Number(String),
    /// Any other text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the document; no key twice.
    Map(Vec<(Spanned<String>, Node)>),
}

impl Node {
    /// The member of a map.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries().iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// The members of a map; nothing for anything else.
    pub fn entries(&self) -> &[(Spanned<String>, Node)] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; nothing for anything else.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar as written; `None` for null, lists and maps.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Bool(true) => Some("true"),
            Kind::Bool(false) => Some("false"),
            Kind::Number(text) | Kind::Text(text) => Some(text),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What kind of value it is, for people: "a list".
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}
