//! JSON by RFC 8259. A YAML parser does not accept all of it: tabs, `\/` and surrogate pairs.

use crate::node::{DocumentNode, ValueKind};
use crate::{Problem, Span, Spanned};

use super::tree::{Fatal, TreeBuilder};

/// Parses a text that begins with a brace or a bracket. `Err` if it is not JSON. JSON that is refused for another
/// reason, such as its depth, is `Ok` with problems.
pub(super) fn parse(text: &str) -> Result<(Option<DocumentNode>, Vec<Problem>), Fatal> {
    let mut reader = Reader { rest: text, line: 1, column: 1, tree: TreeBuilder::default() };
    match reader.document() {
        Ok(()) => Ok(reader.tree.finish(Ok(()))),
        Err(Stop::Refused(problem)) => Ok(reader.tree.finish(Err(problem))),
        Err(Stop::Syntax(problem)) => Err(problem),
    }
}

enum Stop {
    /// A limit on depth or size is exceeded.
    Refused(Fatal),
    /// It is not JSON.
    Syntax(Fatal),
}

impl From<Fatal> for Stop {
    fn from(problem: Fatal) -> Stop {
        Stop::Refused(problem)
    }
}

/// An open brace or bracket.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Map,
    List,
}

struct Reader<'a> {
    rest: &'a str,
    line: u32,
    column: u32,
    tree: TreeBuilder,
}

impl Reader<'_> {
    /// Uses a stack instead of recursion; [`TreeBuilder`] limits its height.
    fn document(&mut self) -> Result<(), Stop> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.blank();
            match self.peek() {
                Some('{') => {
                    self.tree.open_map(self.here())?;
                    self.advance();
                    if !self.close_at_once('}')? {
                        open.push(Open::Map);
                        self.key()?;
                        continue;
                    }
                }
                Some('[') => {
                    self.tree.open_list(self.here())?;
                    self.advance();
                    if !self.close_at_once(']')? {
                        open.push(Open::List);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            self.after_value(&mut open)?;
            if open.is_empty() {
                break;
            }
        }
        self.blank();
        if self.rest.is_empty() { Ok(()) } else { Err(self.syntax("nothing can follow the document")) }
    }

    /// Reads commas and closing brackets, up to the next value or the end.
    fn after_value(&mut self, open: &mut Vec<Open>) -> Result<(), Stop> {
        while let Some(innermost) = open.last().copied() {
            self.blank();
            let (end, complaint) = match innermost {
                Open::Map => ('}', "expected `,` or `}`"),
                Open::List => (']', "expected `,` or `]`"),
            };
            match self.peek() {
                Some(',') => {
                    self.advance();
                    if innermost == Open::Map {
                        self.key()?;
                    }
                    return Ok(());
                }
                Some(c) if c == end => {
                    self.advance();
                    self.tree.close(self.line, self.column)?;
                    open.pop();
                }
                _ => return Err(self.syntax(complaint)),
            }
        }
        Ok(())
    }

    fn close_at_once(&mut self, end: char) -> Result<bool, Stop> {
        self.blank();
        let closes = self.peek() == Some(end);
        if closes {
            self.advance();
            self.tree.close(self.line, self.column)?;
        }
        Ok(closes)
    }

    fn key(&mut self) -> Result<(), Stop> {
        self.blank();
        if self.peek() != Some('"') {
            return Err(self.syntax("expected a key in double quotes"));
        }
        let at = self.here();
        let name = self.string()?;
        let key = Spanned::new(name, self.since(at));
        self.blank();
        if self.peek() != Some(':') {
            return Err(self.syntax("expected `:` after the key"));
        }
        self.advance();
        self.tree.key(key);
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Stop> {
        let at = self.here();
        let kind = match self.peek() {
            Some('"') => ValueKind::Text(self.string()?),
            Some('-' | '0'..='9') => ValueKind::Number(self.number()?),
            _ => self.word()?,
        };
        self.tree.value(DocumentNode { kind, at: self.since(at) })?;
        Ok(())
    }

    fn word(&mut self) -> Result<ValueKind, Stop> {
        let words =
            [("null", ValueKind::Null), ("true", ValueKind::Bool(true)), ("false", ValueKind::Bool(false))];
        for (word, kind) in words {
            if let Some(rest) = self.rest.strip_prefix(word)
                && !rest.starts_with(|c: char| c.is_alphanumeric())
            {
                word.chars().for_each(|_| self.advance());
                return Ok(kind);
            }
        }
        Err(self.syntax("expected a value"))
    }

    fn number(&mut self) -> Result<String, Stop> {
        let mut text = String::new();
        let mut take = |reader: &mut Self, wanted: fn(char) -> bool| {
            let before = text.len();
            while let Some(c) = reader.peek().filter(|&c| wanted(c)) {
                text.push(c);
                reader.advance();
            }
            text[before..].to_owned()
        };
        let digit = |c: char| c.is_ascii_digit();
        if self.peek() == Some('-') {
            take(self, |c| c == '-');
        }
        let whole = take(self, digit);
        let mut fits = !whole.is_empty() && (whole == "0" || !whole.starts_with('0'));
        if self.peek() == Some('.') {
            fits &= take(self, |c| c == '.') == "." && !take(self, digit).is_empty();
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            fits &= take(self, |c| matches!(c, 'e' | 'E')).len() == 1;
            fits &= take(self, |c| matches!(c, '-' | '+')).len() <= 1;
            fits &= !take(self, digit).is_empty();
        }
        if !fits || text.starts_with("--") || self.peek().is_some_and(char::is_alphanumeric) {
            return Err(self.syntax("this is not a number"));
        }
        Ok(text)
    }

    fn string(&mut self) -> Result<String, Stop> {
        self.advance();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => break,
                Some('\\') => {
                    self.advance();
                    text.push(self.escape()?);
                }
                Some(c) if c >= ' ' => {
                    text.push(c);
                    self.advance();
                }
                Some(_) => return Err(self.syntax("a control character in a string")),
                None => return Err(self.syntax("a string is not closed")),
            }
        }
        self.advance();
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let c = match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                self.advance();
                return self.unicode();
            }
            _ => return Err(self.syntax("unknown escape")),
        };
        self.advance();
        Ok(c)
    }

    /// Four hexadecimal digits; twice four if the first are half of a surrogate pair.
    fn unicode(&mut self) -> Result<char, Stop> {
        let first = self.four_digits()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if first < 0xdc00 && self.rest.starts_with("\\u") {
            self.advance();
            self.advance();
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second)
                && let Some(c) = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(c);
            }
        }
        Err(self.syntax("half of a surrogate pair"))
    }

    fn four_digits(&mut self) -> Result<u32, Stop> {
        let digits = self.rest.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(self.syntax("expected four hexadecimal digits"));
        };
        (0..4).for_each(|_| self.advance());
        Ok(code)
    }

    fn blank(&mut self) {
        while let Some(' ' | '\t' | '\n' | '\r') = self.peek() {
            self.advance();
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) {
        let mut characters = self.rest.chars();
        let passed = characters.next();
        self.rest = characters.as_str();
        // A carriage return before a line feed is part of the same line break.
        if passed == Some('\n') || (passed == Some('\r') && !self.rest.starts_with('\n')) {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    fn here(&self) -> Span {
        Span { line: self.line, column: self.column, length: 1 }
    }

    /// The span from `start` to here; strings and numbers do not cross lines.
    fn since(&self, start: Span) -> Span {
        Span { length: self.column.saturating_sub(start.column).max(1), ..start }
    }

    fn syntax(&self, complaint: &str) -> Stop {
        let saw = self.peek().map_or("the end of the text".to_owned(), |c| format!("`{c}`"));
        let message = format!("this is not valid JSON: {complaint}");
        Stop::Syntax(Problem::error(self.here(), self.tree.path(), message).saw(saw).into())
    }
}
