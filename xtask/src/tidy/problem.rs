//! A violation of a rule, printed as `file:line: …`, so that editors can jump to it.

use std::fmt;

/// Where a rule is violated, what was found, why that matters, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TidyProblem {
    file: String,
    line: usize,
    what: String,
    why: &'static str,
    fix: String,
}

impl TidyProblem {
    /// A problem at `file:line`; `file` is relative to the root of the workspace.
    pub fn new(
        file: &str,
        line: usize,
        what: impl Into<String>,
        why: &'static str,
        fix: impl Into<String>,
    ) -> TidyProblem {
        TidyProblem { file: file.to_owned(), line, what: what.into(), why, fix: fix.into() }
    }
}

impl fmt::Display for TidyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TidyProblem { file, line, what, why, fix } = self;
        write!(f, "{file}:{line}: {what}; {why}; {fix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_place_what_why_and_fix() {
        let problem = TidyProblem::new("a/b.rs", 7, "a thing", "it hurts", "remove it");
        assert_eq!(problem.to_string(), "a/b.rs:7: a thing; it hurts; remove it");
    }
}
