//! Where the parts of a text are: every list, map and scalar with its first and last byte. The tree of
//! [`DocumentNode`](crate::DocumentNode) has the values, this one the bytes; both have the same children in the same
//! order.

mod json;
mod yaml;

pub(super) use json::layout as json_layout;
pub(super) use yaml::layout as yaml_layout;

/// The bytes of a value.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: Form,
}

/// How a value is written.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// Not at all: the null of `key:`. Its range is empty.
    Absent,
    /// As a scalar of any style.
    Scalar,
    /// Line by line. Never empty.
    Block(Vec<Element>),
    /// In brackets or braces.
    Flow(Vec<Element>),
}

/// An item of a list, or a member of a map.
#[derive(Clone, Debug)]
pub(super) struct Element {
    /// Its first byte: the dash of a block item, the key of a member, or the value.
    pub(super) start: usize,
    /// The byte after the dash or the colon, where an absent value would be written.
    pub(super) after: usize,
    pub(super) value: Piece,
}

impl Element {
    /// The byte after its last one.
    pub(super) fn end(&self) -> usize {
        self.after.max(self.value.end)
    }
}

impl Piece {
    /// The items or members of a list or map; empty for a scalar.
    pub(super) fn elements(&self) -> &[Element] {
        match &self.form {
            Form::Block(elements) | Form::Flow(elements) => elements,
            Form::Absent | Form::Scalar => &[],
        }
    }

    pub(super) fn is_block(&self) -> bool {
        matches!(self.form, Form::Block(_))
    }

    /// Does it take several lines?
    pub(super) fn spreads(&self, text: &str) -> bool {
        text[self.start..self.end].contains('\n')
    }
}

/// Visits a value and all values in it, with their depth.
pub(super) fn each_piece<'p>(piece: &'p Piece, depth: usize, visit: &mut impl FnMut(&'p Piece, usize)) {
    visit(piece, depth);
    for element in piece.elements() {
        each_piece(&element.value, depth + 1, visit);
    }
}
