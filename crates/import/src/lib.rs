//! Turns the configuration of another rate limiter into a Tidegate policy.
//!
//! [`import`] reads a document in one of the formats of [`ImportFormat`] and returns the policy as YAML, with notes.
//! Nothing is dropped silently:
//!
//! - Every value of the document is in the policy, or in an [`ImportNote`]: because a policy has no counterpart, because it
//!   has no effect, or because it had to be interpreted.
//! - A limit with a condition that a policy cannot express is imported disabled, so that it never applies to more
//!   requests than it did before.
//! - An item that cannot be read is skipped with a note, and the other items are imported.
//! - The policy is valid. Where budgets of tenants do not add up, they become `shared`, with a note, so that they still cap
//!   all children together.
//! - A document that cannot be read, or of which no item is left, is an error: a list of [`Problem`]s.
//!
//! ```
//! use tidegate_import::{ImportFormat, import};
//!
//! let text = "- { namespace: api, max_value: 10, seconds: 60, variables: [user_id] }";
//! let imported = import(ImportFormat::Limitador, "limits.yaml", text).expect("the document can be imported");
//! assert!(imported.policy.contains("sustained: { rate: 10, window: minute }"));
//! assert!(imported.notes.is_empty());
//! ```

mod draft;
mod format;
mod formats;
mod log;
mod source;
mod terms;
mod yaml;

use draft::Draft;
pub use format::ImportFormat;
use log::ImportLog;
pub use log::ImportNote;
pub use source::Problem;
use source::{SourceValue, Span};

/// The largest document that is read.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// The start of a document, for problems of the document as a whole.
const START: Span = Span { line: 1, column: 1, length: 1 };

/// An imported document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The policy, as YAML.
    pub policy: String,
    /// Notes on settings that were not imported or had to be interpreted, in the order of the document.
    pub notes: Vec<ImportNote>,
}

/// Reads `text`, which is written in the format `from`, and writes it as a policy. The file name appears in notes, and
/// its ending decides whether it is read as CSV or as JSON.
///
/// # Errors
/// With every problem found, if the document cannot be read or if not a single item of it can be imported.
pub fn import(from: ImportFormat, file_name: &str, text: &str) -> Result<Imported, Vec<Problem>> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let problem = Problem::error(START, "", "this document is too large");
        return Err(vec![problem.want(format!("at most {DOCUMENT_BYTES_MAX} bytes"))]);
    }
    let document = source::parse(from, file_name, text)?;
    let (mut draft, mut log) = (Draft::default(), ImportLog::new(file_name));
    formats::read(from, &SourceValue::root(&document), &mut draft, &mut log);
    draft::finish(from, draft, log)
}

#[cfg(test)]
mod tests;

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
