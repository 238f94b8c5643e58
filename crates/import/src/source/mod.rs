//! The foreign document: parsed, then read member by member, so that no member is overlooked.

mod csv;
mod fields;
mod value;

/// What is wrong with a document, and where.
pub use tidegate_document::Problem;
pub(crate) use tidegate_document::{DocumentNode, JsonText, Span, Spanned, ValueKind};

pub(crate) use fields::SourceFields;
pub(crate) use value::SourceValue;

use crate::ImportFormat;

/// Parses the text as CSV, JSON or YAML.
///
/// # Errors
/// With every problem found.
pub(crate) fn parse(from: ImportFormat, file_name: &str, text: &str) -> Result<DocumentNode, Vec<Problem>> {
    let is_csv = || {
        let name = file_name.to_ascii_lowercase();
        let structured = [".json", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
        name.ends_with(".csv") || !(structured || text.trim_start().starts_with(['[', '{', '-']))
    };
    if from == ImportFormat::Rules && is_csv() { csv::parse(text) } else { tidegate_document::parse(text) }
}
