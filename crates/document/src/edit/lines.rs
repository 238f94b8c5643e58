//! Lines, columns, and what may stand between two tokens.

use std::ops::Range;

/// Text that replaces a range of bytes.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn insert(at: usize, text: impl Into<String>) -> Splice {
        Splice { range: at..at, text: text.into() }
    }

    pub(super) fn replace(range: Range<usize>, text: impl Into<String>) -> Splice {
        Splice { range, text: text.into() }
    }

    pub(super) fn cut(range: Range<usize>) -> Splice {
        Splice { range, text: String::new() }
    }
}

/// Applies splices, which do not overlap and are in the order of the text.
pub(super) fn apply(text: &str, splices: &[Splice]) -> String {
    let mut result = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for splice in splices {
        result.push_str(&text[at..splice.range.start]);
        result.push_str(&splice.text);
        at = splice.range.end;
    }
    result.push_str(&text[at..]);
    result
}

/// The first byte of the line.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |index| index + 1)
}

/// The first byte of the next line, or the end of the text.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |index| at + index + 1)
}

/// The end of the line, before its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let next = next_line(text, at);
    at + text[at..next].trim_end_matches(['\n', '\r']).len()
}

/// How many characters precede it on its line.
pub(super) fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

/// Is it the first thing on its line?
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    indent_of(text, at) == at - line_start(text, at)
}

/// How many blanks and tabs its line begins with.
pub(super) fn indent_of(text: &str, at: usize) -> usize {
    let line = &text[line_start(text, at)..];
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Is the line before this first byte of a line blank?
pub(super) fn is_blank_above(text: &str, start: usize) -> bool {
    start > 0 && text[line_start(text, start - 1)..start].trim().is_empty()
}

/// Is the line that begins here blank?
pub(super) fn is_blank_line(text: &str, start: usize) -> bool {
    start < text.len() && text[start..next_line(text, start)].trim().is_empty()
}

/// The column of the comment of a line that has nothing else.
fn comment_column(line: &str) -> Option<usize> {
    let comment = line.trim_start();
    comment.starts_with('#').then(|| line.chars().count() - comment.chars().count())
}

/// The first byte of an element's lines: with the comments directly above it. Comments that are indented more belong
/// to what is above them. `bound` is where the element above ends.
pub(super) fn lines_start(text: &str, start: usize, bound: usize) -> usize {
    let indent = column(text, start);
    let floor = if bound == 0 { 0 } else { next_line(text, bound) };
    let mut first = line_start(text, start);
    while first > floor {
        let above = line_start(text, first - 1);
        match comment_column(&text[above..first]) {
            Some(column) if column <= indent => first = above,
            _ => break,
        }
    }
    first
}

/// The byte after an element's lines: with the comments directly below it that are indented more than it.
pub(super) fn lines_end(text: &str, end: usize, indent: usize) -> usize {
    let mut last = next_line(text, end);
    while last < text.len() {
        let next = next_line(text, last);
        match comment_column(&text[last..next]) {
            Some(column) if column > indent => last = next,
            _ => break,
        }
    }
    last
}

/// Whole lines as a range to cut. At the end of a text without a final line break, the break before them goes too.
pub(super) fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    if range.end == text.len() && !text.ends_with('\n') {
        return before_break(text, range.start)..range.end;
    }
    range
}

/// The byte before the line break that ends at `start`.
pub(super) fn before_break(text: &str, start: usize) -> usize {
    let without = text[..start].strip_suffix('\n').unwrap_or(&text[..start]);
    without.strip_suffix('\r').unwrap_or(without).len()
}

/// The first byte at or after `at` that is no blank, line break or comment.
pub(super) fn skip_blank(text: &str, at: usize) -> usize {
    skip(text, at, |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Like [`skip_blank`], over commas too.
pub(super) fn skip_separators(text: &str, at: usize) -> usize {
    skip(text, at, |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','))
}

fn skip(text: &str, at: usize, is_skipped: fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = at;
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at = next_line(text, at),
            byte if is_skipped(byte) => at += 1,
            _ => break,
        }
    }
    at
}
