//! Adds and removes elements of lists and maps in brackets or braces, in YAML and JSON.

use super::layout::{Element, Piece};
use super::lines::{Splice, begins_line, column, line_end, line_start, lines_start, next_line, skip_blank};
use super::style::Style;

/// The elements of a list in brackets or a map in braces.
pub(super) struct FlowElements<'a> {
    pub(super) text: &'a str,
    pub(super) piece: &'a Piece,
    pub(super) style: &'a Style,
}

impl FlowElements<'_> {
    fn elements(&self) -> &[Element] {
        self.piece.elements()
    }

    /// Inserts an element before another, or after the last one.
    pub(super) fn insert(&self, index: usize, written: &str) -> Vec<Splice> {
        let Some(last) = self.elements().last() else { return vec![self.insert_only(written)] };
        let separator = self.separator();
        if let Some(element) = self.elements().get(index) {
            if self.has_lines() && begins_line(self.text, element.start) {
                let start = self.lines_start(index);
                let indent = &self.text[line_start(self.text, element.start)..element.start];
                return vec![Splice::insert(start, format!("{indent}{written},{}", self.style.newline))];
            }
            return vec![Splice::insert(element.start, format!("{written}{separator}"))];
        }
        let after = &self.text[last.end()..line_end(self.text, last.end())];
        if !self.has_lines() || !after.contains('#') {
            return vec![Splice::insert(last.end(), format!("{separator}{written}"))];
        }
        // The comment behind the last element stays there.
        let indent = self.style.indentation(column(self.text, self.elements()[0].start));
        let next = next_line(self.text, last.end());
        let newline = self.style.newline;
        if self.comma_after(last).is_some() {
            return vec![Splice::insert(next, format!("{indent}{written},{newline}"))];
        }
        vec![Splice::insert(last.end(), ","), Splice::insert(next, format!("{indent}{written}{newline}"))]
    }

    /// Fills empty brackets or braces.
    fn insert_only(&self, written: &str) -> Splice {
        let Piece { start, end, .. } = *self.piece;
        let (open, close) = (&self.text[start..=start], &self.text[end - 1..end]);
        let blank = if self.style.brace_blank && open == "{" { " " } else { "" };
        Splice::replace(start..end, format!("{open}{blank}{written}{blank}{close}"))
    }

    /// Removes one of several elements.
    pub(super) fn remove(&self, index: usize) -> Vec<Splice> {
        let elements = self.elements();
        let element = &elements[index];
        let comma = self.comma_after(element);
        let own_end = comma.map_or(element.end(), |comma| comma + 1);
        let rest = self.text[own_end..line_end(self.text, own_end)].trim_start();
        let has_own_lines =
            begins_line(self.text, element.start) && (rest.is_empty() || rest.starts_with('#'));
        let above = index.checked_sub(1).map(|above| &elements[above]);
        if has_own_lines && self.has_lines() {
            let lines = Splice::cut(self.lines_start(index)..next_line(self.text, own_end));
            // Without the last element, the one above needs no comma.
            let spare = above.filter(|_| comma.is_none()).and_then(|above| self.comma_after(above));
            return spare.map(|comma| Splice::cut(comma..comma + 1)).into_iter().chain([lines]).collect();
        }
        let plain = |from: usize, to: usize| !self.text[from..to].contains('#');
        match (elements.get(index + 1), above) {
            (Some(next), _) if plain(element.end(), next.start) => {
                vec![Splice::cut(element.start..next.start)]
            }
            (Some(_), _) => vec![Splice::cut(element.start..own_end)],
            (None, Some(above)) if plain(above.end(), element.start) => {
                vec![Splice::cut(above.end()..element.end())]
            }
            (None, Some(above)) if comma.is_none() => {
                let spare = self.comma_after(above).map(|comma| Splice::cut(comma..comma + 1));
                spare.into_iter().chain([Splice::cut(element.start..element.end())]).collect()
            }
            (None, _) => vec![Splice::cut(element.start..own_end)],
        }
    }

    /// What stands between two elements.
    fn separator(&self) -> String {
        let elements = self.elements();
        if let [first, second, ..] = elements {
            let between = &self.text[first.end()..second.start];
            if between.starts_with(',') && !between.contains('#') {
                return between.to_owned();
            }
        }
        if self.has_lines() {
            return format!(",{}", self.style.break_to(column(self.text, elements[0].start)));
        }
        if self.style.comma_blank { ", ".to_owned() } else { ",".to_owned() }
    }

    /// Does the first element begin on a line of its own?
    fn has_lines(&self) -> bool {
        self.elements().first().is_some_and(|first| self.text[self.piece.start..first.start].contains('\n'))
    }

    /// The comma after an element.
    fn comma_after(&self, element: &Element) -> Option<usize> {
        let at = skip_blank(self.text, element.end());
        self.text[at..].starts_with(',').then_some(at)
    }

    /// The first byte of an element's lines, with its comments.
    fn lines_start(&self, index: usize) -> usize {
        let elements = self.elements();
        let above = index.checked_sub(1).map(|above| {
            let above = &elements[above];
            self.comma_after(above).unwrap_or(above.end())
        });
        lines_start(self.text, elements[index].start, above.unwrap_or(self.piece.start))
    }
}
