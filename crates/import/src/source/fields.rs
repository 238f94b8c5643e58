//! A map that remembers which of its members were read, so that the others can be noted.

use super::{DocumentNode, SourceValue, Spanned, ValueKind};
use crate::log::ImportLog;

/// A map of a foreign document, and the names of the members that were read.
#[derive(Debug)]
pub(crate) struct SourceFields<'a> {
    pub(crate) item: SourceValue<'a>,
    taken: Vec<String>,
}

impl<'a> SourceFields<'a> {
    /// Opens a map; anything else is a problem.
    pub(crate) fn open(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<SourceFields<'a>> {
        if !item.is_map() {
            log.problem(item, format!("this is {}", item.node.kind_name()), "a map");
            return None;
        }
        Some(SourceFields { item: item.clone(), taken: Vec::new() })
    }

    /// A member, and marks it as read; `None` if it is absent or null.
    pub(crate) fn take(&mut self, name: &str) -> Option<SourceValue<'a>> {
        self.taken.push(name.to_owned());
        let (key, node) = self.item.node.entries().iter().find(|(key, _)| key.value == name)?;
        let path = joined(&self.item.path, name);
        (node.kind != ValueKind::Null).then_some(SourceValue { node, at: key.at, path })
    }

    /// The first of several members that is present.
    pub(crate) fn take_any(&mut self, names: &[&str]) -> Option<SourceValue<'a>> {
        let found = names.iter().find(|name| self.item.has(name))?;
        self.take(found)
    }

    /// A member that must be present; otherwise a problem.
    pub(crate) fn need(&mut self, name: &str, want: &str, log: &mut ImportLog) -> Option<SourceValue<'a>> {
        let member = self.take(name);
        if member.is_none() {
            log.problem(&self.item, format!("`{name}` is missing"), want);
        }
        member
    }

    /// A member as text.
    pub(crate) fn text(&mut self, name: &str, log: &mut ImportLog) -> Option<String> {
        self.take(name)?.text(log)
    }

    /// A member as true or false.
    pub(crate) fn flag(&mut self, name: &str, log: &mut ImportLog) -> Option<bool> {
        self.take(name)?.flag(log)
    }

    /// Notes a member that a policy has no counterpart for, if it is present.
    pub(crate) fn leave_out(&mut self, name: &str, why: &str, log: &mut ImportLog) {
        if let Some(member) = self.take(name) {
            log.note(&member, format!("`{name}` is left out"), why);
        }
    }

    /// Every member by its name, as in a map whose names are of the user's choice.
    pub(crate) fn entries(&self) -> Vec<(String, SourceValue<'a>)> {
        let member = |(key, node): &'a (Spanned<String>, DocumentNode)| {
            let path = joined(&self.item.path, &key.value);
            (key.value.clone(), SourceValue { node, at: key.at, path })
        };
        self.item.node.entries().iter().map(member).collect()
    }

    /// The members that were not read, by name.
    fn rest(&self) -> Vec<(String, SourceValue<'a>)> {
        let is_unread = |name: &str| !self.taken.iter().any(|taken| taken == name);
        self.entries().into_iter().filter(|(name, _)| is_unread(name)).collect()
    }

    /// Notes every member that was not read.
    pub(crate) fn finish(self, log: &mut ImportLog) {
        for (name, member) in self.rest() {
            log.note(&member, format!("`{name}` is left out"), "a policy has no such setting");
        }
    }

    /// The same with a single note for all maps that have the member: the columns of a table.
    pub(crate) fn finish_once(self, log: &mut ImportLog) {
        for (name, member) in self.rest() {
            log.note_once(&member, format!("`{name}` is left out"), "a policy has no such setting");
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
