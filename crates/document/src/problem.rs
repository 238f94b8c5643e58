//! Problems: what is wrong with a document, where, and how to fix it.

use std::fmt;

use crate::Span;

/// How many characters of the text a problem repeats.
const SAW_MAX: usize = 60;

/// How serious a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document can be used, but probably does not do what its author meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// One problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How serious it is.
    pub severity: Severity,
    /// Where, as a path through the document: `limits[3].sustained.rate`.
    pub path: String,
    /// Where, in the text.
    pub at: Span,
    /// What is wrong, in one sentence without a full stop: "unknown field `burts`".
    pub message: String,
    /// What was found there, as written, shortened.
    pub saw: String,
    /// What is wanted instead.
    pub want: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Problem {
    /// An error; add the rest with [`Problem::saw`], [`Problem::want`] and [`Problem::hint`].
    #[must_use]
    pub fn error(at: Span, path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Error,
            path: path.into(),
            at,
            message: message.into(),
            saw: String::new(),
            want: String::new(),
            hint: None,
        }
    }

    /// A warning.
    #[must_use]
    pub fn warning(at: Span, path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(at, path, message) }
    }

    /// Sets what was found.
    #[must_use]
    pub fn saw(self, saw: impl Into<String>) -> Problem {
        Problem { saw: saw.into(), ..self }
    }

    /// Sets what is wanted.
    #[must_use]
    pub fn want(self, want: impl Into<String>) -> Problem {
        Problem { want: want.into(), ..self }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    /// Fills in what was left open: what was found comes from the text, and what is wanted and the hint from each
    /// other.
    pub(crate) fn complete(&mut self, lines: &[&str]) {
        let line = (self.at.line as usize).checked_sub(1).and_then(|line| lines.get(line));
        if let (true, Some(line)) = (self.saw.is_empty(), line) {
            let length = (self.at.length as usize).min(SAW_MAX);
            let seen: String =
                line.chars().skip((self.at.column as usize).saturating_sub(1)).take(length).collect();
            self.saw = seen.split(" #").next().unwrap_or_default().trim_end().to_owned();
        }
        if self.hint.is_none() && !self.want.is_empty() {
            self.hint = Some(format!("use {}", self.want));
        }
        if let (true, Some(hint)) = (self.want.is_empty(), &self.hint) {
            self.want = hint.clone();
        }
    }

    /// Does it prevent the document from being used?
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    /// One line: `error: line 12, column 5: limits[3].burts: unknown field …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { severity, path, at, message, .. } = self;
        write!(f, "{severity}: ")?;
        // A document that was built in Rust has no lines.
        if at.line > 0 {
            write!(f, "line {}, column {}: ", at.line, at.column)?;
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)?;
        if !self.saw.is_empty() {
            write!(f, "; saw {}", self.saw)?;
        }
        if !self.want.is_empty() {
            write!(f, "; want {}", self.want)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}
