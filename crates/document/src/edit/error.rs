//! Why a text could not be edited.

use std::fmt;

use crate::{Problem, Span};

/// Why an edit was refused. The text is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The text is not valid, so its parts cannot be found; or it would be too long.
    Invalid(Vec<Problem>),
    /// There is no such entry.
    NotFound {
        /// The path of the entry: `limits[3]`.
        path: String,
    },
    /// A list of entries was expected here.
    NotAList {
        /// The path of what was found: `limits`.
        path: String,
    },
    /// The text is written in a way that cannot be edited safely.
    Unsupported {
        /// Where.
        at: Span,
    },
    /// The edited text would not have had the intended value.
    Mismatch {
        /// The path of the entry: `limits[3]`.
        path: String,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = "replace the whole document instead";
        match self {
            EditError::Invalid(problems) => match problems.first() {
                Some(problem) => write!(f, "the document cannot be edited: {problem}"),
                None => f.write_str("the document cannot be edited"),
            },
            EditError::NotFound { path } => write!(f, "there is no `{path}`"),
            EditError::NotAList { path } => write!(f, "`{path}` is not a list, so it has no entries to edit"),
            EditError::Unsupported { at } => write!(
                f,
                "line {}, column {}: keys after `?`, keys without a colon, and pairs without braces cannot be edited: \
                 write them as `key: value`, or {whole}",
                at.line, at.column
            ),
            EditError::Mismatch { path } => {
                write!(f, "`{path}` is written in a way that cannot be edited without damage: {whole}")
            }
        }
    }
}

impl std::error::Error for EditError {}
