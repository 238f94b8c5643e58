//! The log of an import: notes about what was left out or interpreted, and problems.
//!
//! A problem inside [`ImportLog::attempt`] skips one item; a problem outside of it fails the whole import.

use std::collections::BTreeMap;
use std::fmt;

use crate::source::{Problem, SourceValue, Span};

/// A part of the document that was not imported exactly as written, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The file name that was passed to [`import`](crate::import).
    pub file: String,
    /// The position in its text, if it is known.
    pub at: Option<Span>,
    /// The path within the document: `rules[3].match`.
    pub path: String,
    /// What was left out or interpreted.
    pub what: String,
    /// Why, and what to do instead.
    pub why: String,
    /// How many further places of the document the same holds for.
    pub more: usize,
}

impl fmt::Display for ImportNote {
    /// One line: `limits.yaml:12:5: [3].conditions: … (why)`, and how many further places it holds for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.what, self.why)?;
        match self.more {
            0 => Ok(()),
            1 => f.write_str(", and in 1 more place"),
            more => write!(f, ", and in {more} more places"),
        }
    }
}

/// Collects notes and problems while a document is read.
#[derive(Debug)]
pub(crate) struct ImportLog {
    file: String,
    /// The texts of [`ImportLog::note_once`] so far, each with the index of its note.
    noted_once: BTreeMap<String, usize>,
    pub(crate) notes: Vec<ImportNote>,
    pub(crate) problems: Vec<Problem>,
    /// The problems of items that were skipped; each is a note as well.
    pub(crate) skipped: Vec<Problem>,
    /// Was there an empty list of limits? Then an empty policy is a correct result.
    pub(crate) has_empty_list: bool,
}

impl ImportLog {
    pub(crate) fn new(file: &str) -> ImportLog {
        ImportLog {
            file: file.to_owned(),
            noted_once: BTreeMap::new(),
            notes: Vec::new(),
            problems: Vec::new(),
            skipped: Vec::new(),
            has_empty_list: false,
        }
    }

    /// Adds a note about an item.
    pub(crate) fn note(&mut self, item: &SourceValue<'_>, what: impl Into<String>, why: impl Into<String>) {
        self.note_at(item.at, item.path.clone(), what.into(), why.into());
    }

    /// The same by position and path.
    pub(crate) fn note_at(&mut self, at: Span, path: String, what: String, why: String) {
        self.notes.push(ImportNote { file: self.file.clone(), at: Some(at), path, what, why, more: 0 });
    }

    /// The same as a single note for all items with this text, at the first of them: for what may concern every item of
    /// a document. The note counts the others.
    pub(crate) fn note_once(
        &mut self,
        item: &SourceValue<'_>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        let what = what.into();
        match self.noted_once.get(&what) {
            Some(&index) => self.notes[index].more += 1,
            None => {
                self.noted_once.insert(what.clone(), self.notes.len());
                self.note(item, what, why);
            }
        }
    }

    /// Adds a problem: the item cannot be read; `want` is what was expected.
    pub(crate) fn problem(&mut self, item: &SourceValue<'_>, message: impl Into<String>, want: &str) {
        let problem = Problem::error(item.at, item.path.clone(), message).saw(item.excerpt());
        self.problems.push(problem.want(want));
    }

    /// Reads an item that may be skipped: its problems become notes, and then the result is `None`.
    pub(crate) fn attempt<T>(
        &mut self,
        item: &SourceValue<'_>,
        read: impl FnOnce(&mut ImportLog) -> Option<T>,
    ) -> Option<T> {
        let known = self.problems.len();
        let found = read(self);
        if self.problems.len() == known {
            return found;
        }
        for problem in self.problems.split_off(known) {
            self.note_skipped(item, &problem);
            self.skipped.push(problem);
        }
        None
    }

    /// Skips an item that cannot be used, with a note.
    pub(crate) fn skip(&mut self, item: &SourceValue<'_>, message: impl Into<String>, want: &str) {
        self.attempt::<()>(item, |log| {
            log.problem(item, message, want);
            None
        });
    }

    fn note_skipped(&mut self, item: &SourceValue<'_>, problem: &Problem) {
        let Problem { message, saw, want, .. } = problem;
        let name = if item.path.is_empty() { "this" } else { &format!("`{}`", item.path) };
        let saw = if saw.is_empty() { String::new() } else { format!("; saw {saw}") };
        let what = format!("{name} is not imported");
        self.note_at(problem.at, problem.path.clone(), what, format!("{message}{saw}; expected {want}"));
    }

    /// Notes what was done to an entry of the finished policy, with the error of the policy reader.
    pub(crate) fn note_repaired(&mut self, what: String, problem: &Problem) {
        self.notes.push(ImportNote {
            file: self.file.clone(),
            at: None,
            path: String::new(),
            what,
            why: format!("a policy does not allow it: {}", problem.message),
            more: 0,
        });
    }

    /// Remembers and notes an empty list: a policy without limits is then a correct result.
    pub(crate) fn note_if_empty(&mut self, list: &SourceValue<'_>) {
        if list.is_list() && list.node.items().is_empty() {
            self.has_empty_list = true;
            self.note(list, "this list is empty", "it has nothing to import");
        }
    }
}
