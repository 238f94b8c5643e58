//! A document as a tree in which every value knows its position in the text.

use crate::text::shorten;
use crate::{Span, Spanned};

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentNode {
    /// Its kind and contents.
    pub kind: ValueKind,
    /// Where it was written.
    pub at: Span,
}

/// The kinds of values. Numbers keep their text, so that nothing is rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`, `~`, or no value at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer or decimal number as written.
    Number(String),
    /// Any other text.
    Text(String),
    /// A list.
    List(Vec<DocumentNode>),
    /// A map, in the order of the text; no key occurs twice.
    Map(Vec<(Spanned<String>, DocumentNode)>),
}

impl DocumentNode {
    /// The value of a member; `None` if there is none, or if this is not a map.
    pub fn get(&self, name: &str) -> Option<&DocumentNode> {
        self.entries().iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// The members of a map; empty for anything else.
    pub fn entries(&self) -> &[(Spanned<String>, DocumentNode)] {
        match &self.kind {
            ValueKind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; empty for anything else.
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

    /// The value as messages quote it: as written and shortened; lists and maps by their kind.
    pub fn quoted(&self) -> String {
        match &self.kind {
            ValueKind::Text(text) => shorten(text),
            ValueKind::Number(text) if text.len() <= 40 => text.clone(),
            ValueKind::Bool(flag) => flag.to_string(),
            _ => self.kind_name().to_owned(),
        }
    }

    /// What kind of value it is, for messages: "a list".
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
