//! A value of a foreign document, with its position.

use super::{DocumentNode, Span, ValueKind};
use crate::log::ImportLog;
use crate::terms::Decimal;

/// The most characters of a value in a message.
const EXCERPT_CHARS: usize = 60;

/// The longest list that is read; policies are designed for as many limits.
const LIST_MAX: usize = 10_000;

/// A value of the document and its path.
#[derive(Clone, Debug)]
pub(crate) struct SourceValue<'a> {
    pub(crate) node: &'a DocumentNode,
    /// The position for messages: that of a member's name rather than its value.
    pub(crate) at: Span,
    pub(crate) path: String,
}

impl<'a> SourceValue<'a> {
    /// The whole document.
    pub(crate) fn root(node: &'a DocumentNode) -> SourceValue<'a> {
        SourceValue { node, at: node.at, path: String::new() }
    }

    /// The items of a list; a problem if this is not a list, or too long.
    pub(crate) fn list(&self, log: &mut ImportLog) -> Vec<SourceValue<'a>> {
        if !matches!(self.node.kind, ValueKind::List(_)) {
            log.problem(self, format!("this is {}", self.node.kind_name()), "a list");
        }
        let length = self.node.items().len();
        if length > LIST_MAX {
            log.problem(self, format!("this list has {length} entries"), "at most 10000");
            return Vec::new();
        }
        let item = |(index, node): (usize, &'a DocumentNode)| {
            let path = format!("{}[{index}]", self.path);
            SourceValue { node, at: node.at, path }
        };
        self.node.items().iter().enumerate().map(item).collect()
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node.kind, ValueKind::Map(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.kind, ValueKind::List(_))
    }

    /// Is it a map with this member, and the member not null?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.node.get(name).is_some_and(|node| node.kind != ValueKind::Null)
    }

    /// A scalar as text.
    pub(crate) fn text(&self, log: &mut ImportLog) -> Option<String> {
        let text = self.node.scalar();
        if text.is_none() {
            log.problem(self, format!("this is {}", self.node.kind_name()), "a text");
        }
        text.map(str::to_owned)
    }

    /// A scalar as text, or a list of them.
    pub(crate) fn texts(&self, log: &mut ImportLog) -> Vec<String> {
        if self.is_list() {
            return self.list(log).iter().filter_map(|item| item.text(log)).collect();
        }
        self.text(log).into_iter().collect()
    }

    /// A number above zero, exactly as written.
    pub(crate) fn positive(&self, log: &mut ImportLog) -> Option<Decimal> {
        let number = self.node.scalar().and_then(Decimal::parse).filter(|number| !number.is_zero());
        if number.is_none() {
            log.problem(self, "this is not a number above zero", "a number such as 10 or 0.5");
        }
        number
    }

    /// A whole number, zero included.
    pub(crate) fn whole(&self, log: &mut ImportLog) -> Option<u64> {
        let number = self.node.scalar().and_then(Decimal::parse).and_then(|number| number.whole());
        if number.is_none() {
            log.problem(self, "this is not a whole number", "a whole number such as 10");
        }
        number
    }

    /// True or false, as written in YAML, JSON and SQL.
    pub(crate) fn flag(&self, log: &mut ImportLog) -> Option<bool> {
        let word = self.node.scalar().unwrap_or_default().to_ascii_lowercase();
        match word.as_str() {
            "true" | "t" | "1" | "yes" => Some(true),
            "false" | "f" | "0" | "no" => Some(false),
            _ => {
                log.problem(self, "this is neither true nor false", "true or false");
                None
            }
        }
    }

    /// The value for a message, shortened.
    pub(crate) fn excerpt(&self) -> String {
        let Some(text) = self.node.scalar() else {
            return self.node.kind_name().to_owned();
        };
        let short: String = text.chars().take(EXCERPT_CHARS).collect();
        if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
    }
}
