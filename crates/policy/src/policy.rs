//! From text to rules in one step.

use std::fmt;

use tidegate_core::Nanos;

use crate::{Problem, RuleSet, compile, read};

/// A policy that can be used, and what is still to be said about it.
#[derive(Debug)]
pub struct Policy {
    /// The rules.
    pub rules: RuleSet,
    /// What probably does not say what was meant.
    pub warnings: Vec<Problem>,
}

/// Why a text is no policy: every problem there is, warnings included, in the
/// order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The problems; at least one is an error.
    pub problems: Vec<Problem>,
}

impl Policy {
    /// Reads and compiles a document, be it YAML or JSON.
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
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse_at(text, Nanos::ZERO)
    }

    /// The same as of an instant: entries that have expired by then are warned
    /// of.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse_at(text: &str, now: Nanos) -> Result<Policy, PolicyError> {
        let (document, mut problems) = read(text);
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
        for (place, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if place == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}
