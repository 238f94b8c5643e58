//! YAML, from the events of `saphyr-parser`.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span as Range};

use crate::node::{DocumentNode, ValueKind};
use crate::{Problem, Span, Spanned};

use super::tree::{Fatal, TreeBuilder, shorten};
use super::{advice, scalar};

/// Parses one document.
pub(super) fn parse(text: &str) -> (Option<DocumentNode>, Vec<Problem>) {
    let mut tree = TreeBuilder::default();
    let end = walk(text, &mut tree);
    tree.finish(end)
}

fn walk(text: &str, tree: &mut TreeBuilder) -> Result<(), Fatal> {
    check_characters(text)?;
    let mut documents = 0;
    let end = end_of(text);
    for event in Parser::new_from_str(text) {
        let (event, range) = event.map_err(|error| Box::new(syntax(text, tree, &error, end)))?;
        let range = Range::new(clamp(end, range.start), clamp(end, range.end));
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentEnd | Event::StreamEnd => {}
            Event::DocumentStart(_) if documents == 0 => documents = 1,
            Event::DocumentStart(_) => {
                let problem = Problem::error(span(range), "", "a second document begins here");
                let hint = "remove the `---`, or keep each document in a file of its own";
                return Err(problem.want("one document in a file").hint(hint).into());
            }
            Event::Alias(_) => {
                tree.problem(refused(range, tree, "aliases"));
                if tree.wants_key() {
                    tree.key(Spanned::new(String::new(), span(range)));
                } else {
                    tree.value(DocumentNode { kind: ValueKind::Null, at: span(range) })?;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                properties(tree, range, anchor, tag.is_some());
                on_scalar(tree, text.into_owned(), style, range)?;
            }
            Event::SequenceStart(anchor, tag) => {
                properties(tree, range, anchor, tag.is_some());
                check_key(tree, range)?;
                tree.open_list(first_character(range))?;
            }
            Event::MappingStart(anchor, tag) => {
                properties(tree, range, anchor, tag.is_some());
                check_key(tree, range)?;
                tree.open_map(first_character(range))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (line, column) = position(range.end);
                tree.close(line, column)?;
            }
        }
    }
    if !tree.is_complete() {
        tree.value(DocumentNode { kind: ValueKind::Null, at: Span { line: 1, column: 1, length: 1 } })?;
    }
    Ok(())
}

/// Refuses control characters that YAML forbids and the parser accepts. Also refuses a lone carriage return: the parser
/// ends a line there and most editors do not, so what looks like the rest of a comment would be read.
fn check_characters(text: &str) -> Result<(), Fatal> {
    let bytes = text.as_bytes();
    let is_refused = |index: &usize| match bytes[*index] {
        b'\t' | b'\n' => false,
        b'\r' => bytes.get(index + 1) != Some(&b'\n'),
        byte => byte < b' ',
    };
    let Some(index) = (0..bytes.len()).find(is_refused) else { return Ok(()) };
    let before = &text[..index];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let at = span_at(Marker::new(index, line, column));
    Err(Problem::error(at, "", "this is not valid YAML: a control character")
        .saw(format!("{:?}", char::from(bytes[index])))
        .hint("write it as an escape in double quotes")
        .into())
}

/// Refuses a list or a map as a key.
fn check_key(tree: &TreeBuilder, range: Range) -> Result<(), Fatal> {
    if !tree.wants_key() {
        return Ok(());
    }
    Err(Problem::error(span(range), tree.path(), "a list or a map cannot be a key")
        .want("text before the colon")
        .hint("quote text that begins with a bracket or a brace")
        .into())
}

fn on_scalar(tree: &mut TreeBuilder, text: String, style: ScalarStyle, range: Range) -> Result<(), Fatal> {
    let mut at = span(range);
    let kind = match style {
        ScalarStyle::Plain => scalar::resolve(&text),
        _ => ValueKind::Text(text.clone()),
    };
    if style == ScalarStyle::Plain && text.is_empty() {
        // An absent value has no position: report the key that lacks it.
        at = tree.pending_key().map_or(at, |key| key.at);
    }
    if style == ScalarStyle::Plain && text == "<<" && tree.wants_key() {
        tree.problem(refused(range, tree, "merge keys"));
    }
    key_or_value(tree, kind, text, at)
}

fn key_or_value(tree: &mut TreeBuilder, kind: ValueKind, text: String, at: Span) -> Result<(), Fatal> {
    if !tree.wants_key() {
        return tree.value(DocumentNode { kind, at });
    }
    if kind == ValueKind::Null && text.is_empty() {
        tree.problem(Problem::error(at, tree.path(), "a key is missing").want("text before the colon"));
    } else if !matches!(kind, ValueKind::Text(_)) {
        let quoted = shorten(&text);
        tree.problem(
            Problem::error(at, tree.path(), "a key is not text")
                .saw(text.clone())
                .want("text before the colon")
                .hint(format!("quote it: {quoted}")),
        );
    }
    tree.key(Spanned::new(text, at));
    Ok(())
}

fn properties(tree: &mut TreeBuilder, range: Range, anchor: usize, tagged: bool) {
    if anchor > 0 {
        tree.problem(refused(range, tree, "anchors"));
    }
    if tagged {
        tree.problem(refused(range, tree, "tags"));
    }
}

fn refused(range: Range, tree: &TreeBuilder, what: &str) -> Problem {
    let hint = match what {
        "tags" => "remove what begins with `!`, or quote it if it is text",
        "aliases" => "write the value out, or quote text that begins with `*`",
        "anchors" => "write the value out, or quote text that begins with `&`",
        _ => "write the members out",
    };
    Problem::error(span(range), tree.path(), format!("{what} are not supported")).hint(hint)
}

fn syntax(text: &str, tree: &TreeBuilder, error: &ScanError, end: Marker) -> Problem {
    let at = span_at(clamp(end, *error.marker()));
    let problem = if error.info().contains("unknown anchor") {
        Problem::error(at, tree.path(), "aliases are not supported")
    } else {
        Problem::error(at, tree.path(), format!("this is not valid YAML: {}", error.info()))
    };
    match advice::hint(text, error.info(), at.line) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The position after the last character.
fn end_of(text: &str) -> Marker {
    let line = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count();
    Marker::new(text.len(), line, column)
}

/// The parser puts some events on a line after the last one; moves them to the end of the text.
fn clamp(end: Marker, marker: Marker) -> Marker {
    if marker.line() > end.line() { end } else { marker }
}

/// Line and column, both from one; the parser counts columns from zero.
fn position(marker: Marker) -> (u32, u32) {
    let number = |n: usize| u32::try_from(n).expect("a text has less than 2³² characters");
    (number(marker.line()).max(1), number(marker.col()) + 1)
}

fn span(range: Range) -> Span {
    let (line, column) = position(range.start);
    let (last, end) = position(range.end);
    let length = if last == line { end.saturating_sub(column).max(1) } else { 1 };
    Span { line, column, length }
}

fn span_at(marker: Marker) -> Span {
    let (line, column) = position(marker);
    Span { line, column, length: 1 }
}

/// The first character of a range.
fn first_character(range: Range) -> Span {
    span_at(range.start)
}
