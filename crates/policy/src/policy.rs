//! Reads and compiles a policy in one step.

use std::fmt;

use tidegate_core::Nanos;
use tidegate_document::DocumentNode;

use crate::document::Document;
use crate::{Problem, RuleSet, compile, read, read_node};

/// A compiled policy and its warnings.
#[derive(Debug)]
pub struct Policy {
    /// The rules.
    pub rules: RuleSet,
    /// Problems that do not prevent its use: entries that probably do not do what their author meant.
    pub warnings: Vec<Problem>,
}

/// Why a policy cannot be used: every problem, warnings included, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The problems; at least one is an error.
    pub problems: Vec<Problem>,
}

impl Policy {
    /// Reads and compiles a YAML or JSON document.
    ///
    /// ```
    /// use tidegate_policy::Policy;
    ///
    /// let policy = Policy::parse("version: 1\nlimits: []\n")?;
    /// assert!(policy.rules.rules().is_empty());
    ///
    /// let error = Policy::parse("version: 1\nlimit: []\n").unwrap_err();
    /// assert_eq!(error.problems[0].at.line, 2);
    /// # Ok::<(), tidegate_policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse_at(text, Nanos::ZERO)
    }

    /// The same at a point in time (since 1970): entries that have expired by then lead to warnings.
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn parse_at(text: &str, now: Nanos) -> Result<Policy, PolicyError> {
        Policy::compiled(read(text), text, now)
    }

    /// The same for a text that is parsed already: `root` is what [`tidegate_document::parse`] returns for it.
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn of_parsed(root: &DocumentNode, text: &str, now: Nanos) -> Result<Policy, PolicyError> {
        Policy::compiled(read_node(root), text, now)
    }

    fn compiled(
        (document, mut problems): (Document, Vec<Problem>),
        text: &str,
        now: Nanos,
    ) -> Result<Policy, PolicyError> {
        let (rules, more) = compile(&document, now);
        problems.extend(more);
        tidegate_document::complete(&mut problems, text);
        if problems.iter().any(Problem::is_error) {
            return Err(PolicyError { problems });
        }
        Ok(Policy { rules, warnings: problems })
    }
}

impl From<Policy> for RuleSet {
    fn from(policy: Policy) -> RuleSet {
        policy.rules
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_text_is_judged_like_the_text() {
        let valid = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 1 } }]\n";
        let warned =
            "version: 1\nlimits: []\ngroups: []\nallow: [{ user: u, until: 2001-01-01T00:00:00Z }]\n";
        let refused = "version: 1\nlimit: []\nlimits: [{ name: a, sustained: { rate: -1 } }]\n";
        let now = Nanos::from_secs(2_000_000_000);
        for text in [valid, warned, refused, "", "[1]"] {
            let root = tidegate_document::parse(text).expect("it is YAML");
            let of_text =
                Policy::parse_at(text, now).map(|policy| (policy.rules.limits().len(), policy.warnings));
            let of_tree = Policy::of_parsed(&root, text, now)
                .map(|policy| (policy.rules.limits().len(), policy.warnings));
            assert_eq!(of_tree, of_text, "{text}");
        }
    }
}
