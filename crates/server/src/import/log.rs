//! What an import has to say: notes about what it did, problems that keep it from doing it.
//!
//! A problem inside [`ImportLog::attempt`] costs the item only; one outside of it costs the document.

use std::collections::BTreeSet;
use std::fmt;

use tidegate_document::{Problem, Span};

use super::item::SourceValue;

/// Something that was not carried over as it stood, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The file, as it was named by whoever asked.
    pub file: String,
    /// Where in its text, where that is known.
    pub at: Option<Span>,
    /// Where, as a path through the document: `rules[3].match`.
    pub path: String,
    /// What was left out or decided.
    pub what: String,
    /// Why, and what to do about it.
    pub why: String,
}

impl fmt::Display for ImportNote {
    /// One line: `limits.yaml:12:5: [3].conditions: … (why)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.what, self.why)
    }
}

/// Collects notes and problems while a document is read.
#[derive(Debug)]
pub(super) struct ImportLog {
    file: String,
    /// What has been said and need not be said again.
    said: BTreeSet<String>,
    pub(super) notes: Vec<ImportNote>,
    pub(super) problems: Vec<Problem>,
    /// What kept single items from being carried over; each is a note as well.
    pub(super) skipped: Vec<Problem>,
    /// Has a list been met that is empty on purpose?
    pub(super) has_empty_list: bool,
}

impl ImportLog {
    pub(super) fn new(file: &str) -> ImportLog {
        ImportLog {
            file: file.to_owned(),
            said: BTreeSet::new(),
            notes: Vec::new(),
            problems: Vec::new(),
            skipped: Vec::new(),
            has_empty_list: false,
        }
    }

    /// Says what was decided about an item.
    pub(super) fn note(&mut self, item: &SourceValue<'_>, what: impl Into<String>, why: impl Into<String>) {
        self.note_at(item.at, item.path.clone(), what.into(), why.into());
    }

    /// The same for what is no longer at hand.
    pub(super) fn note_at(&mut self, at: Span, path: String, what: String, why: String) {
        self.notes.push(ImportNote { file: self.file.clone(), at: Some(at), path, what, why });
    }

    /// The same, but only where it is first met: for what holds for a whole document.
    pub(super) fn note_once(
        &mut self,
        item: &SourceValue<'_>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        let what = what.into();
        if self.said.insert(what.clone()) {
            self.note(item, what, why);
        }
    }

    /// Says that an item cannot be understood; what is wanted completes it.
    pub(super) fn problem(&mut self, item: &SourceValue<'_>, message: impl Into<String>, want: &str) {
        let problem = Problem::error(item.at, item.path.clone(), message).saw(item.shown());
        self.problems.push(problem.want(want));
    }

    /// Reads an item that the rest of the document can do without: if there is a problem with it,
    /// it is left out, and a note says so.
    pub(super) fn attempt<T>(
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

    /// Leaves an item out that cannot be used.
    pub(super) fn skip(&mut self, item: &SourceValue<'_>, message: impl Into<String>, want: &str) {
        self.attempt::<()>(item, |log| {
            log.problem(item, message, want);
            None
        });
    }

    fn note_skipped(&mut self, item: &SourceValue<'_>, problem: &Problem) {
        let Problem { message, saw, want, .. } = problem;
        let place = if item.path.is_empty() { "this" } else { &format!("`{}`", item.path) };
        let saw = if saw.is_empty() { String::new() } else { format!("; saw {saw}") };
        let what = format!("{place} is not carried over");
        self.note_at(problem.at, problem.path.clone(), what, format!("{message}{saw}; want {want}"));
    }

    /// Says that an entry of the finished policy had to go, with what the policy has against it.
    pub(super) fn note_dropped(&mut self, entry: &str, problem: &Problem) {
        self.notes.push(ImportNote {
            file: self.file.clone(),
            at: None,
            path: String::new(),
            what: format!("{entry} is not carried over"),
            why: format!("no policy can say it: {}", problem.message),
        });
    }

    /// Remembers a list that is empty: a policy without limits is then what was asked for.
    pub(super) fn note_if_empty(&mut self, list: &SourceValue<'_>) {
        if list.is_list() && list.node.items().is_empty() {
            self.has_empty_list = true;
            self.note(list, "this list is empty", "there is nothing in it to carry over");
        }
    }
}
