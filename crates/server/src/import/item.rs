//! A foreign document, read member by member, so that nothing in it is overlooked.

use tidegate_document::{DocumentNode, Span, ValueKind};

use super::decimal::Decimal;
use super::log::ImportLog;

/// How much of a value is shown in a message.
const SHOWN_CHARS: usize = 60;

/// The longest list that is read: as many limits as a policy is made for.
const LIST_MAX: usize = 10_000;

/// A value of the document, and the way to it.
#[derive(Clone, Debug)]
pub(super) struct SourceValue<'a> {
    pub(super) node: &'a DocumentNode,
    /// Where to point: the name of a member rather than its value.
    pub(super) at: Span,
    pub(super) path: String,
}

impl<'a> SourceValue<'a> {
    /// The whole document.
    pub(super) fn root(node: &'a DocumentNode) -> SourceValue<'a> {
        SourceValue { node, at: node.at, path: String::new() }
    }

    /// The items of a list; a problem if it is none, or too long.
    pub(super) fn list(&self, log: &mut ImportLog) -> Vec<SourceValue<'a>> {
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

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.kind, ValueKind::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.kind, ValueKind::List(_))
    }

    /// Is it a map with this member?
    pub(super) fn has(&self, name: &str) -> bool {
        self.node.get(name).is_some_and(|node| node.kind != ValueKind::Null)
    }

    /// A scalar as text.
    pub(super) fn text(&self, log: &mut ImportLog) -> Option<String> {
        let text = self.node.scalar();
        if text.is_none() {
            log.problem(self, format!("this is {}", self.node.kind_name()), "a text");
        }
        text.map(str::to_owned)
    }

    /// A scalar, or a list of them.
    pub(super) fn texts(&self, log: &mut ImportLog) -> Vec<String> {
        if self.is_list() {
            return self.list(log).iter().filter_map(|item| item.text(log)).collect();
        }
        self.text(log).into_iter().collect()
    }

    /// A number above zero, exactly as written.
    pub(super) fn positive(&self, log: &mut ImportLog) -> Option<Decimal> {
        let number = self.node.scalar().and_then(Decimal::parse).filter(|number| !number.is_zero());
        if number.is_none() {
            log.problem(self, "this is no number above zero", "a number such as 10 or 0.5");
        }
        number
    }

    /// A whole number, zero included.
    pub(super) fn whole(&self, log: &mut ImportLog) -> Option<u64> {
        let number = self.node.scalar().and_then(Decimal::parse).and_then(|number| number.whole());
        if number.is_none() {
            log.problem(self, "this is no whole number", "a whole number such as 10");
        }
        number
    }

    /// True or false, in the words of YAML, JSON and SQL.
    pub(super) fn flag(&self, log: &mut ImportLog) -> Option<bool> {
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

    /// What stands there, shortened.
    pub(super) fn shown(&self) -> String {
        let Some(text) = self.node.scalar() else {
            return self.node.kind_name().to_owned();
        };
        let short: String = text.chars().take(SHOWN_CHARS).collect();
        if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
    }
}

/// A map of which it is known which members have been looked at.
#[derive(Debug)]
pub(super) struct SourceFields<'a> {
    pub(super) item: SourceValue<'a>,
    taken: Vec<String>,
}

impl<'a> SourceFields<'a> {
    /// A map; anything else is a problem.
    pub(super) fn open(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<SourceFields<'a>> {
        if !item.is_map() {
            log.problem(item, format!("this is {}", item.node.kind_name()), "a map");
            return None;
        }
        Some(SourceFields { item: item.clone(), taken: Vec::new() })
    }

    /// A member; one that is null is as good as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<SourceValue<'a>> {
        self.taken.push(name.to_owned());
        let (key, node) = self.item.node.entries().iter().find(|(key, _)| key.value == name)?;
        let path = joined(&self.item.path, name);
        (node.kind != ValueKind::Null).then_some(SourceValue { node, at: key.at, path })
    }

    /// The first of several names that is there.
    pub(super) fn take_any(&mut self, names: &[&str]) -> Option<SourceValue<'a>> {
        let found = names.iter().find(|name| self.item.has(name))?;
        self.take(found)
    }

    /// A member that must be there.
    pub(super) fn need(&mut self, name: &str, want: &str, log: &mut ImportLog) -> Option<SourceValue<'a>> {
        let member = self.take(name);
        if member.is_none() {
            log.problem(&self.item, format!("`{name}` is missing"), want);
        }
        member
    }

    /// A member as text.
    pub(super) fn text(&mut self, name: &str, log: &mut ImportLog) -> Option<String> {
        self.take(name)?.text(log)
    }

    /// A member as true or false.
    pub(super) fn flag(&mut self, name: &str, log: &mut ImportLog) -> Option<bool> {
        self.take(name)?.flag(log)
    }

    /// Notes a member that has no counterpart, wherever it is found.
    pub(super) fn leave(&mut self, name: &str, why: &str, log: &mut ImportLog) {
        if let Some(member) = self.take(name) {
            log.note(&member, format!("`{name}` is left out"), why);
        }
    }

    /// The members that nobody has looked at.
    pub(super) fn rest(&self) -> Vec<SourceValue<'a>> {
        let fresh = |name: &str| !self.taken.iter().any(|taken| taken == name);
        let entries = self.item.node.entries().iter().filter(|(key, _)| fresh(&key.value));
        entries
            .map(|(key, node)| SourceValue { node, at: key.at, path: joined(&self.item.path, &key.value) })
            .collect()
    }

    /// Notes every member that nobody has looked at.
    pub(super) fn finish(self, log: &mut ImportLog) {
        for member in self.rest() {
            let name =
                member.path.strip_prefix(&self.item.path).unwrap_or(&member.path).trim_start_matches('.');
            log.note(&member, format!("`{name}` is left out"), "a policy has no counterpart for it");
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
