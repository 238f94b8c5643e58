//! Parses YAML and JSON, strictly, into a tree whose values know their position.

mod advice;
mod json;
mod scalar;
mod tree;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use scalar::is_plain_text;
pub(crate) use tree::{join, shorten};

use crate::node::DocumentNode;
use crate::{Problem, Span};

/// The longest text that is parsed, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// How deeply lists and maps may be nested.
pub const DEPTH_MAX: usize = 32;
/// The highest number of values in a document.
pub const NODES_MAX: usize = 2_000_000;
/// How many problems of one text are reported. Nobody reads more.
const PROBLEMS_MAX: usize = 1_000;

/// Parses YAML or JSON into a tree.
///
/// Duplicate keys, keys that are not text, anchors, aliases, merge keys, tags and a second document are errors. An
/// empty text is null.
///
/// ```
/// let node = tidegate_document::parse("name: tide\nports: [80, 443]\n").expect("it is valid");
/// assert_eq!(node.get("ports").expect("it is there").items()[1].scalar(), Some("443"));
///
/// let problems = tidegate_document::parse("a: 1\na: 2\n").unwrap_err();
/// assert_eq!(problems[0].message, "duplicate key \"a\"");
/// ```
///
/// # Errors
/// Every problem of the text, at least one.
pub fn parse(text: &str) -> Result<DocumentNode, Vec<Problem>> {
    match parse_partly(text) {
        (Some(node), problems) if problems.is_empty() => Ok(node),
        (_, problems) => Err(problems),
    }
}

/// Like [`parse`], but returns the tree beside the problems wherever one could be built, so that the rest of the
/// document can be checked in the same run.
pub fn parse_partly(text: &str) -> (Option<DocumentNode>, Vec<Problem>) {
    let start = Span { line: 1, column: 1, length: 1 };
    if text.len() > TEXT_BYTES_MAX {
        let problem = Problem::error(start, "", "the text is too long")
            .saw(format!("{} bytes", text.len()))
            .want(format!("at most {TEXT_BYTES_MAX} bytes"));
        return (None, vec![problem]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml::parse(text);
    }
    let syntax = match json::parse(text) {
        Ok(done) => return done,
        Err(syntax) => syntax,
    };
    // It is not JSON, but may be YAML in flow style. If it is neither, report the error of the parser that got further.
    // If both stopped on the same line, a quoted first key means that JSON was intended.
    let quoted = text.trim_start()[1..].trim_start().starts_with('"');
    let is_later = |problem: &Problem| {
        problem.at.line > syntax.at.line || (problem.at.line == syntax.at.line && !quoted)
    };
    match yaml::parse(text) {
        (None, problems) if !problems.iter().any(is_later) => (None, vec![*syntax]),
        done => done,
    }
}

/// Parses JSON, and nothing but JSON. Otherwise like [`parse`].
///
/// # Errors
/// Every problem of the text, at least one.
pub fn parse_json(text: &str) -> Result<DocumentNode, Vec<Problem>> {
    if text.len() > TEXT_BYTES_MAX {
        return parse(text);
    }
    match json::parse(text) {
        Ok((Some(node), problems)) if problems.is_empty() => Ok(node),
        Ok((_, problems)) => Err(problems),
        Err(problem) => Err(vec![*problem]),
    }
}

/// Does [`parse`] read this text as JSON?
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && parse_json(text).is_ok()
}
