//! A map of a document that is built field by field.

use std::time::{Duration, SystemTime};

use tidegate_document::{DocumentNode, ValueKind};

use crate::{Problem, Span, Spanned};

/// A map under construction, and what could not be put into it.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    fields: Vec<(Spanned<String>, DocumentNode)>,
    /// Values that have no form in a document, with their paths from here.
    faults: Vec<Problem>,
}

impl Entry {
    /// Sets a field; a later call replaces it.
    pub(super) fn set(&mut self, name: &str, value: DocumentNode) {
        self.remove(name);
        self.add(name, value);
    }

    /// Adds a field, even if there is one of that name already: reading the document reports that.
    pub(super) fn add(&mut self, name: &str, value: DocumentNode) {
        self.fields.push((Spanned::new(name.to_owned(), Span::default()), value));
    }

    /// Removes a field, and what was wrong with its value.
    pub(super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| known.value != name);
        let is_within = |path: &str| {
            path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.faults.retain(|fault| !is_within(&fault.path));
    }

    /// The value of a field.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut DocumentNode> {
        self.fields.iter_mut().find(|(known, _)| known.value == name).map(|(_, value)| value)
    }

    /// Sets a field to a map.
    pub(super) fn set_map(&mut self, name: &str, map: Entry) {
        self.remove(name);
        let value = self.adopt(name, map);
        self.add(name, value);
    }

    /// Sets a field to a list of maps.
    pub(super) fn set_list(&mut self, name: &str, maps: Vec<Entry>) {
        self.remove(name);
        let adopt = |(index, map)| self.adopt(&format!("{name}[{index}]"), map);
        let items = maps.into_iter().enumerate().map(adopt).collect();
        self.add(name, list(items));
    }

    /// Adds a condition to a field such as `match`, whose conditions must all hold.
    pub(super) fn add_condition(&mut self, field: &str, descriptor: String, values: DocumentNode) {
        let condition = (Spanned::new(descriptor, Span::default()), values);
        match self.get_mut(field) {
            Some(DocumentNode { kind: ValueKind::Map(conditions), .. }) => conditions.push(condition),
            _ => self.set(field, node(ValueKind::Map(vec![condition]))),
        }
    }

    /// Sets `absorbs`.
    pub(super) fn set_absorbs(&mut self, rate: u64, burst: u64) {
        let mut absorbs = Entry::default();
        absorbs.set("rate", number(rate));
        absorbs.set("burst", number(burst));
        self.set_map("absorbs", absorbs);
    }

    /// Sets a field to a duration.
    pub(super) fn set_duration(&mut self, name: &str, span: Duration) {
        if span.subsec_nanos().is_multiple_of(1_000_000) {
            return self.set(name, text(format!("{}ms", span.as_millis())));
        }
        let problem = Problem::error(Span::default(), name, "not a whole number of milliseconds");
        self.refuse(name, problem.saw(format!("{span:?}")).want("a duration in whole milliseconds"));
    }

    /// Sets a field to a point in time.
    pub(super) fn set_instant(&mut self, name: &str, at: SystemTime) {
        match jiff::Timestamp::try_from(at) {
            Ok(stamp) => self.set(name, text(stamp.to_string())),
            Err(_) => {
                let problem = Problem::error(Span::default(), name, "too far from today");
                self.refuse(name, problem.want("a point in time from 1970 to 2554"));
            }
        }
    }

    fn refuse(&mut self, name: &str, problem: Problem) {
        self.remove(name);
        self.faults.push(problem);
    }

    /// A map as a value, with its faults moved here. `path` is where it will be.
    fn adopt(&mut self, path: &str, map: Entry) -> DocumentNode {
        let moved = map.faults.into_iter().map(|fault| {
            let path = format!("{path}.{}", fault.path);
            Problem { path, ..fault }
        });
        self.faults.extend(moved);
        node(ValueKind::Map(map.fields))
    }

    /// The map and its faults.
    pub(super) fn finish(self) -> (DocumentNode, Vec<Problem>) {
        (node(ValueKind::Map(self.fields)), self.faults)
    }
}

/// A value that was not written in a text.
pub(super) fn node(kind: ValueKind) -> DocumentNode {
    DocumentNode { kind, at: Span::default() }
}

pub(super) fn text(text: impl Into<String>) -> DocumentNode {
    node(ValueKind::Text(text.into()))
}

pub(super) fn number(number: impl ToString) -> DocumentNode {
    node(ValueKind::Number(number.to_string()))
}

/// A percentage as a decimal number: 25 is 0.25.
pub(super) fn percent(percent: u32) -> DocumentNode {
    number(format!("{}.{:02}", percent / 100, percent % 100))
}

pub(super) fn flag(flag: bool) -> DocumentNode {
    node(ValueKind::Bool(flag))
}

pub(super) fn list(items: Vec<DocumentNode>) -> DocumentNode {
    node(ValueKind::List(items))
}

pub(super) fn texts<V: Into<String>>(values: impl IntoIterator<Item = V>) -> DocumentNode {
    list(values.into_iter().map(text).collect())
}
