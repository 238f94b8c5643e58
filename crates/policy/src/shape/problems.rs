//! Where a check stands in the document, and what it has found.

use std::collections::HashSet;
use std::fmt;

use crate::node::{DocumentNode, ValueKind};
use crate::text::{join, shorten};
use crate::{Problem, Span};

/// How many errors, and how many warnings, of one document are told; more
/// would not be read.
pub(crate) const PROBLEMS_MAX: usize = 1_000;

/// A path through the document that costs nothing until it is printed.
#[derive(Clone, Copy)]
pub(crate) enum DocumentPath<'a> {
    /// The document.
    Root,
    /// A member of a map.
    Member(&'a DocumentPath<'a>, &'a str),
    /// An item of a list.
    Item(&'a DocumentPath<'a>, usize),
}

impl<'a> DocumentPath<'a> {
    /// A member of the map here.
    pub(crate) fn member(&'a self, name: &'a str) -> DocumentPath<'a> {
        DocumentPath::Member(self, name)
    }

    /// The name of the field here; empty for items and the document.
    pub(crate) fn name(&self) -> &str {
        match self {
            DocumentPath::Root | DocumentPath::Item(..) => "",
            DocumentPath::Member(_, name) => name,
        }
    }

    /// An item of the list here.
    pub(crate) fn item(&'a self, index: usize) -> DocumentPath<'a> {
        DocumentPath::Item(self, index)
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

/// What has been found.
#[derive(Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    /// What reading the text has refused; to complain again would be noise.
    refused: HashSet<Span>,
    /// Counted apart, so that many warnings cannot hide an error.
    errors: usize,
    warnings: usize,
}

impl Problems {
    /// Starts with what reading the text has found.
    pub(crate) fn new(found: Vec<Problem>) -> Problems {
        let refused = found.iter().map(|problem| problem.at).collect();
        Problems { errors: found.len(), found, refused, warnings: 0 }
    }

    /// One more, unless there are too many or its value was refused already.
    pub(crate) fn push(&mut self, problem: Problem) {
        if self.refused.contains(&problem.at) {
            return;
        }
        let count = if problem.is_error() { &mut self.errors } else { &mut self.warnings };
        if *count < PROBLEMS_MAX {
            *count += 1;
            self.found.push(problem);
        }
    }

    /// Are there so many errors that one more would not be told?
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= PROBLEMS_MAX
    }

    /// An error to be pushed.
    pub(crate) fn error(at: Span, place: &DocumentPath<'_>, message: impl Into<String>) -> Problem {
        Problem::error(at, place.to_string(), message)
    }

    /// All of them, in the order of the text; errors first where two stand in
    /// one place.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.at.line, problem.at.column, problem.severity));
        self.found
    }
}

/// What stands somewhere, as written, shortened.
pub(crate) fn saw(node: &DocumentNode) -> String {
    match &node.kind {
        ValueKind::Text(text) => shorten(text),
        ValueKind::Number(text) if text.len() <= 40 => text.clone(),
        ValueKind::Bool(flag) => flag.to_string(),
        _ => node.kind_name().to_owned(),
    }
}
