//! The layout of a text that is known to be YAML.
//!
//! The parser's events give the structure and the end of each scalar. All other positions are found by walking over
//! what may stand between two tokens, because the parser gives no exact range for lists, maps and absent values.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::{Element, Form, Piece};
use crate::edit::lines::{skip_blank, skip_separators};

/// The byte of a text whose structure cannot be edited.
pub(in crate::edit) struct Uneditable(pub(in crate::edit) usize);

/// The layout of valid YAML; `None` for an empty document.
///
/// # Errors
/// When the text has a key without a colon, a key after `?`, or a pair in brackets without braces.
pub(in crate::edit) fn layout(text: &str) -> Result<Option<Piece>, Uneditable> {
    let events = Parser::new_from_str(text);
    let mut walker = Walker { text, events, position: Position::default() };
    let mut at = 0;
    loop {
        match walker.next(at)? {
            (Event::DocumentStart(is_explicit), _) => {
                if is_explicit {
                    at = after_document_start(text).ok_or(Uneditable(0))?;
                }
                let (event, end) = walker.next(at)?;
                return match walker.node(&event, end, at, false)? {
                    Piece { form: Form::Absent, .. } => Ok(None),
                    piece => Ok(Some(piece)),
                };
            }
            (Event::StreamEnd, _) => return Ok(None),
            _ => {}
        }
    }
}

/// The byte after the `---` that begins the document.
fn after_document_start(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            return Some(at + 3);
        }
        at += line.len();
    }
    None
}

/// Converts the parser's positions, which count characters, to bytes.
#[derive(Default)]
struct Position {
    characters: usize,
    bytes: usize,
}

impl Position {
    /// Walks from the last position, so that a whole text costs its length once.
    fn byte(&mut self, text: &str, marker: Marker) -> usize {
        while self.characters < marker.index() {
            let Some(next) = text[self.bytes..].chars().next() else { break };
            self.bytes += next.len_utf8();
            self.characters += 1;
        }
        while self.characters > marker.index() {
            let Some(last) = text[..self.bytes].chars().next_back() else { break };
            self.bytes -= last.len_utf8();
            self.characters -= 1;
        }
        self.bytes
    }
}

struct Walker<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    position: Position,
}

impl<'t> Walker<'t> {
    /// The next event, and the byte where it ends. `at` is where the walk is.
    fn next(&mut self, at: usize) -> Result<(Event<'t>, usize), Uneditable> {
        match self.events.next() {
            Some(Ok((event, range))) => Ok((event, self.position.byte(self.text, range.end))),
            _ => Err(Uneditable(at)),
        }
    }

    /// A value whose tokens begin at or after `at`. Recursion is safe: the parser has limited the depth.
    fn node(&mut self, event: &Event<'t>, end: usize, at: usize, in_flow: bool) -> Result<Piece, Uneditable> {
        let start = skip_blank(self.text, at);
        let first = self.text.as_bytes().get(start).copied().unwrap_or_default();
        match (event, first) {
            (Event::Scalar(text, ScalarStyle::Plain, ..), _) if text.is_empty() => {
                Ok(Piece { start: at, end: at, form: Form::Absent })
            }
            (Event::Scalar(_, style, ..), _) => {
                let end = self.scalar_end(*style, start, end);
                Ok(Piece { start, end, form: Form::Scalar })
            }
            (Event::SequenceStart(..), b'[') | (Event::MappingStart(..), b'{') => self.flow(start),
            (Event::SequenceStart(..), b'-') if !in_flow => self.block(start, false),
            (Event::MappingStart(..), _) if !in_flow => self.block(start, true),
            _ => Err(Uneditable(start)),
        }
    }

    fn flow(&mut self, start: usize) -> Result<Piece, Uneditable> {
        let is_map = self.text.as_bytes()[start] == b'{';
        let mut elements = Vec::new();
        let mut at = start + 1;
        loop {
            let (event, end) = self.next(at)?;
            at = skip_separators(self.text, at);
            if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
                break;
            }
            let element = if is_map {
                self.member(&event, end, at, true)?
            } else {
                let value = self.node(&event, end, at, true)?;
                Element { start: value.start, after: value.start, value }
            };
            at = element.end();
            elements.push(element);
        }
        match self.text.as_bytes().get(at) {
            Some(b']' | b'}') => Ok(Piece { start, end: at + 1, form: Form::Flow(elements) }),
            _ => Err(Uneditable(at)),
        }
    }

    fn block(&mut self, start: usize, is_map: bool) -> Result<Piece, Uneditable> {
        let mut elements: Vec<Element> = Vec::new();
        let mut at = start;
        loop {
            let (event, end) = self.next(at)?;
            if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
                return Ok(Piece { start, end: at, form: Form::Block(elements) });
            }
            at = skip_blank(self.text, at);
            let element = if is_map {
                self.member(&event, end, at, false)?
            } else if self.text.as_bytes().get(at) == Some(&b'-') {
                Element { start: at, after: at + 1, value: self.node(&event, end, at + 1, false)? }
            } else {
                return Err(Uneditable(at));
            };
            at = element.end();
            elements.push(element);
        }
    }

    /// A member whose key begins at `start`.
    fn member(
        &mut self,
        key: &Event<'t>,
        end: usize,
        start: usize,
        in_flow: bool,
    ) -> Result<Element, Uneditable> {
        let key = self.node(key, end, start, in_flow)?;
        let is_explicit = self.text[start..].starts_with(['?'])
            && self.text[start + 1..].starts_with([' ', '\t', '\r', '\n']);
        let colon = skip_blank(self.text, key.end);
        if !matches!(key.form, Form::Scalar) || is_explicit || !self.text[colon..].starts_with(':') {
            return Err(Uneditable(start));
        }
        let (event, end) = self.next(colon)?;
        let value = self.node(&event, end, colon + 1, in_flow)?;
        Ok(Element { start, after: colon + 1, value })
    }

    /// The byte after a scalar that begins at `start`. The parser's end may lie after the blanks that follow it.
    fn scalar_end(&self, style: ScalarStyle, start: usize, end: usize) -> usize {
        let rest = &self.text[start..];
        match style {
            ScalarStyle::DoubleQuoted => start + double_quoted_length(rest),
            ScalarStyle::SingleQuoted => start + single_quoted_length(rest),
            ScalarStyle::Plain => start + self.text[start..end.max(start)].trim_end().len(),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let written = self.text[start..end.max(start)].trim_end();
                let header = written.lines().next().unwrap_or_default();
                // With `+`, the blank lines after the text belong to it.
                let keeps = header.split('#').next().unwrap_or_default().contains('+');
                let mut last = start + written.len();
                if keeps {
                    let blank = &self.text[last..];
                    let length = blank.len() - blank.trim_start().len();
                    let lines = blank[..length].rfind('\n').unwrap_or_default();
                    last += blank[..lines].trim_end_matches('\r').len();
                }
                last
            }
        }
    }
}

fn double_quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn single_quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}
