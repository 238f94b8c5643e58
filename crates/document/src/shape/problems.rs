//! The problems that a check has found so far.

use std::collections::HashSet;

use crate::{Problem, Span};

use super::DocumentPath;

/// How many errors, and how many warnings, are reported of one document. Nobody reads more.
pub(crate) const PROBLEMS_MAX: usize = 1_000;

/// Collects the problems of one document.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<Problem>,
    /// Values that the parser refused already. They get no second problem.
    refused: HashSet<Span>,
    /// Errors and warnings are counted separately, so that many warnings cannot crowd out an error.
    errors: usize,
    warnings: usize,
}

impl Problems {
    /// Starts with the problems that the parser has found.
    pub fn new(found: Vec<Problem>) -> Problems {
        let refused = found.iter().map(|problem| problem.at).collect();
        Problems { errors: found.len(), found, refused, warnings: 0 }
    }

    /// Adds a problem, unless there are too many or the parser refused its value already.
    pub fn push(&mut self, problem: Problem) {
        if self.refused.contains(&problem.at) {
            return;
        }
        let count = if problem.is_error() { &mut self.errors } else { &mut self.warnings };
        if *count < PROBLEMS_MAX {
            *count += 1;
            self.found.push(problem);
        }
    }

    /// Would another error be dropped?
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= PROBLEMS_MAX
    }

    /// An error at a path, to be completed and then [pushed](Problems::push).
    #[must_use]
    pub fn error(at: Span, path: &DocumentPath<'_>, message: impl Into<String>) -> Problem {
        Problem::error(at, path.to_string(), message)
    }

    /// All problems, sorted by their position in the text; at one position errors come first.
    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.at.line, problem.at.column, problem.severity));
        self.found
    }
}
