//! Text → tree: YAML and JSON, strictly, with the place of everything.

mod advice;
mod json;
mod scalar;
mod tree;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use tree::{join, shorten};

use crate::node::DocumentNode;
use crate::{Problem, Span};

/// The longest text that is read.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// How deep lists and maps may stand in each other.
pub const DEPTH_MAX: usize = 32;
/// The most values a document may have.
pub const NODES_MAX: usize = 2_000_000;
/// How many problems of one text are told; more would not be read.
const PROBLEMS_MAX: usize = 1_000;

/// Reads YAML or JSON to a tree.
///
/// Duplicate keys, keys that are not text, anchors, aliases, merge keys, tags
/// and a second document are refused. An empty text is null.
///
/// # Errors
/// With everything that is wrong, at least one problem.
pub fn parse(text: &str) -> Result<DocumentNode, Vec<Problem>> {
    match scan(text) {
        (Some(node), problems) if problems.is_empty() => Ok(node),
        (_, problems) => Err(problems),
    }
}

/// Like [`parse`], but gives the tree as well where one could be made, so that
/// the rest of it can be checked in the same run.
pub(crate) fn scan(text: &str) -> (Option<DocumentNode>, Vec<Problem>) {
    let start = Span { line: 1, column: 1, length: 1 };
    if text.len() > TEXT_BYTES_MAX {
        let problem = Problem::error(start, "", "the text is too long")
            .saw(format!("{} bytes", text.len()))
            .want(format!("at most {TEXT_BYTES_MAX} bytes"));
        return (None, vec![problem]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml::scan(text);
    }
    let syntax = match json::scan(text) {
        Ok(done) => return done,
        Err(syntax) => syntax,
    };
    // Not JSON: it may be YAML in flow style. If it is neither, the error that
    // stands later is of the reader that understood more of the text; on one
    // line, quotes at the beginning show what was meant.
    let quoted = text.trim_start()[1..].trim_start().starts_with('"');
    let is_later = |problem: &Problem| {
        problem.at.line > syntax.at.line || (problem.at.line == syntax.at.line && !quoted)
    };
    match yaml::scan(text) {
        (None, problems) if !problems.iter().any(is_later) => (None, vec![*syntax]),
        done => done,
    }
}
