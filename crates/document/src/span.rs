//! Positions in a text.

/// A range of characters on one line of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The line, from one. Zero for a value that was built in Rust and has no text.
    pub line: u32,
    /// The column of the first character, from one.
    pub column: u32,
    /// How many characters it covers, at least one. It does not reach beyond the line.
    pub length: u32,
}

/// A value and where it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub at: Span,
}

impl<T> Spanned<T> {
    /// A value and its position.
    pub fn new(value: T, at: Span) -> Spanned<T> {
        Spanned { value, at }
    }

    /// Another value at the same position.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), at: self.at }
    }
}
