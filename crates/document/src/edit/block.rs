//! Adds and removes elements of lists and maps that are written line by line.

use super::layout::Element;
use super::lines::{
    Splice, before_break, begins_line, column, is_blank_above, is_blank_line, lines_end, lines_start,
    next_line, whole_lines,
};

/// The elements of a block list or map.
pub(super) struct BlockElements<'a> {
    pub(super) text: &'a str,
    pub(super) elements: &'a [Element],
    /// Where that ends which comes before the first element: the colon of the list's key.
    pub(super) bound: usize,
    pub(super) newline: &'static str,
    /// Are these the members of an entry? A blank line between two of those is no custom that new ones follow.
    pub(super) is_entry: bool,
}

impl BlockElements<'_> {
    /// The column of dashes or keys.
    pub(super) fn column(&self) -> usize {
        column(self.text, self.elements[0].start)
    }

    /// Inserts lines before an element, or after the last one. Elements that are separated by a blank line stay so.
    pub(super) fn insert(&self, index: usize, written: &str) -> Splice {
        let indent = " ".repeat(self.column());
        let newline = self.newline;
        let count = self.elements.len();
        let model = index.clamp(1, count.max(2) - 1);
        let has_blank = !self.is_entry && model < count && is_blank_above(self.text, self.start(model));
        let blank = if has_blank { newline } else { "" };
        if index < count {
            return Splice::insert(self.start(index), format!("{indent}{written}{newline}{blank}"));
        }
        let end = self.end(count - 1);
        if end == self.text.len() && !self.text.ends_with('\n') {
            return Splice::insert(end, format!("{newline}{blank}{indent}{written}"));
        }
        Splice::insert(end, format!("{blank}{indent}{written}{newline}"))
    }

    /// Removes one of several elements, with the comments that belong to it.
    pub(super) fn remove(&self, index: usize) -> Splice {
        let element = &self.elements[index];
        if !begins_line(self.text, element.start) {
            return self.remove_first(element, &self.elements[index + 1]);
        }
        let (mut start, mut end) = (self.start(index), self.end(index));
        let is_last = index + 1 == self.elements.len();
        let blank_below = is_blank_line(self.text, end);
        if index == 0 && blank_below {
            end = next_line(self.text, end);
        } else if index > 0 && is_blank_above(self.text, start) && (is_last || blank_below) {
            // The blank line above it, unless that is part of a text that keeps its blank lines.
            let above = before_break(self.text, start);
            let above = self.text[..above].rfind('\n').map_or(0, |at| at + 1);
            if above > self.elements[index - 1].end() {
                start = above;
            }
        }
        Splice::cut(whole_lines(self.text, start..end))
    }

    /// Removes all lines of the only element.
    pub(super) fn remove_only(&self) -> Splice {
        Splice::cut(whole_lines(self.text, self.start(0)..self.end(0)))
    }

    /// Removes an element that follows a dash on the same line; the next element takes its place, unless there are
    /// comments between the two.
    fn remove_first(&self, element: &Element, next: &Element) -> Splice {
        let end = self.end(0);
        if self.text[end..next.start].contains('#') {
            let start = self.text[..element.start].trim_end_matches([' ', '\t']).len();
            return Splice::cut(start..before_break(self.text, end));
        }
        Splice::cut(element.start..next.start)
    }

    /// The first byte of an element's lines.
    fn start(&self, index: usize) -> usize {
        let above = index.checked_sub(1).map(|above| self.elements[above].end());
        lines_start(self.text, self.elements[index].start, above.unwrap_or(self.bound))
    }

    /// The byte after an element's lines.
    fn end(&self, index: usize) -> usize {
        let element = &self.elements[index];
        lines_end(self.text, element.end(), column(self.text, element.start))
    }
}
