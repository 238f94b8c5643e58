//! The layout of a text that is known to be JSON.

use super::{Element, Form, Piece};

/// The layout of valid JSON.
pub(in crate::edit) fn layout(text: &str) -> Piece {
    Scanner { bytes: text.as_bytes(), at: 0 }.value()
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Recursion is safe: the parser has limited the depth.
    fn value(&mut self) -> Piece {
        self.blank();
        let start = self.at;
        let form = match self.peek() {
            b'{' | b'[' => Form::Flow(self.elements()),
            b'"' => {
                self.string();
                Form::Scalar
            }
            _ => {
                while !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' | 0) {
                    self.at += 1;
                }
                Form::Scalar
            }
        };
        Piece { start, end: self.at, form }
    }

    fn elements(&mut self) -> Vec<Element> {
        let is_map = self.peek() == b'{';
        let mut elements = Vec::new();
        self.at += 1;
        loop {
            self.blank();
            match self.peek() {
                b'}' | b']' => break,
                b',' => self.at += 1,
                _ => elements.push(self.element(is_map)),
            }
        }
        self.at += 1;
        elements
    }

    fn element(&mut self, is_map: bool) -> Element {
        let start = self.at;
        if is_map {
            self.string();
            self.blank();
            // The colon.
            self.at += 1;
        }
        let after = self.at;
        Element { start, after, value: self.value() }
    }

    fn string(&mut self) {
        self.at += 1;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
    }

    fn blank(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// The next byte; zero at the end. A valid document has no zero.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }
}
