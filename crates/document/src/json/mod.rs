//! Trees as JSON values: their text, their equality, and merge patches.

mod merge;
mod number;

pub use merge::merge_patch;
pub(crate) use number::{json_number, same_number};

use std::fmt::{self, Write};

use crate::{DocumentNode, JsonText, Span, ValueKind};

impl DocumentNode {
    /// A value that was not written in a text.
    pub fn new(kind: ValueKind) -> DocumentNode {
        DocumentNode { kind, at: Span::default() }
    }

    /// Are these the same JSON value? Positions, the order of members, and the spelling of numbers do not matter.
    ///
    /// ```
    /// use tidegate_document::parse;
    ///
    /// let yaml = parse("b: 0x10\na: [x]\n").expect("it is valid");
    /// assert!(yaml.same_value(&parse(r#"{"a": ["x"], "b": 16}"#).expect("it is valid")));
    /// ```
    pub fn same_value(&self, other: &DocumentNode) -> bool {
        match (&self.kind, &other.kind) {
            (ValueKind::Number(a), ValueKind::Number(b)) => same_number(a, b),
            (ValueKind::List(a), ValueKind::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_value(b))
            }
            (ValueKind::Map(a), ValueKind::Map(b)) => {
                // Members mostly have the same order; then no member is searched.
                let same = |(index, (key, value)): (usize, &(crate::Spanned<String>, DocumentNode))| {
                    let (at_index, found) = &b[index];
                    let found = if at_index.value == key.value { Some(found) } else { other.get(&key.value) };
                    found.is_some_and(|found| value.same_value(found))
                };
                a.len() == b.len() && a.iter().enumerate().all(same)
            }
            (a, b) => a == b,
        }
    }

    /// The value as compact JSON, members in the order of the text. Numbers that JSON lacks are written as text.
    ///
    /// ```
    /// let node = tidegate_document::parse("a: {b: 0x1F, c: .inf}").expect("it is valid");
    /// assert_eq!(node.to_json(), r#"{"a":{"b":31,"c":".inf"}}"#);
    /// ```
    pub fn to_json(&self) -> String {
        self.json(false)
    }

    /// Like [`DocumentNode::to_json`], with members sorted by name: the same text for every spelling of a value.
    pub fn to_canonical_json(&self) -> String {
        self.json(true)
    }

    fn json(&self, sorted: bool) -> String {
        let mut json = String::new();
        self.write_json(&mut json, sorted).expect("writing to a String does not fail");
        json
    }

    fn write_json(&self, out: &mut String, sorted: bool) -> fmt::Result {
        match &self.kind {
            ValueKind::Null => out.write_str("null"),
            ValueKind::Bool(flag) => write!(out, "{flag}"),
            ValueKind::Number(text) => match json_number(text) {
                Some(number) => out.write_str(&number),
                None => JsonText::new(text).write_to(out),
            },
            ValueKind::Text(text) => JsonText::new(text).write_to(out),
            ValueKind::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_json(out, sorted)?;
                }
                out.write_char(']')
            }
            ValueKind::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if sorted {
                    members.sort_by(|a, b| a.0.value.cmp(&b.0.value));
                }
                out.push('{');
                for (index, (key, value)) in members.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    JsonText::new(&key.value).write_to(out)?;
                    out.push(':');
                    value.write_json(out, sorted)?;
                }
                out.write_char('}')
            }
        }
    }
}
