//! Where something stands in a document.

/// A place in a document: line and column count from one, the length is in
/// characters and stays within the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The line, from one.
    pub line: u32,
    /// The column, from one, in characters.
    pub column: u32,
    /// How many characters it covers, at least one.
    pub length: u32,
}

/// A value and the place where it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(value: T, at: Span) -> Spanned<T> {
        Spanned { value, at }
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), at: self.at }
    }
}
