//! Turns one change of a tree into splices of its text.

use super::block::BlockElements;
use super::flow::FlowElements;
use super::layout::{Element, Form, Piece};
use super::lines::{Splice, begins_line, column, indent_of, line_end, lines_end, next_line, whole_lines};
use super::style::Style;
use crate::{DocumentNode, ValueKind};

/// A list or map in its text.
pub(super) struct Container<'a> {
    pub(super) text: &'a str,
    pub(super) style: &'a Style,
    pub(super) piece: &'a Piece,
    /// The element that has it as its value; `None` for the root.
    pub(super) holder: Option<&'a Element>,
    /// Is it a map? Otherwise it is a list.
    pub(super) is_map: bool,
}

impl Container<'_> {
    /// Inserts an element; `name` is the key of a member.
    pub(super) fn insert(&self, index: usize, name: Option<&str>, value: &DocumentNode) -> Vec<Splice> {
        match &self.piece.form {
            Form::Block(elements) => {
                let block = self.block(elements);
                vec![block.insert(index, &self.block_element(&block, index, name, value))]
            }
            Form::Flow(elements) => {
                let flow = FlowElements { text: self.text, piece: self.piece, style: self.style };
                let indent = indent_of(self.text, self.piece.start);
                let inner = match elements.first() {
                    Some(first) if self.text[self.piece.start..first.start].contains('\n') => {
                        column(self.text, first.start)
                    }
                    _ => indent,
                };
                flow.insert(index, &self.flow_element(elements, index, name, value, inner))
            }
            Form::Absent | Form::Scalar => Vec::new(),
        }
    }

    /// A new element of a block list or map.
    fn block_element(
        &self,
        block: &BlockElements<'_>,
        index: usize,
        name: Option<&str>,
        value: &DocumentNode,
    ) -> String {
        let indent = block.column();
        if let Some(name) = name {
            // A new list of entries at the top is written as the others are.
            let is_entries =
                self.holder.is_none() && value.items().iter().any(|item| !item.entries().is_empty());
            if is_entries {
                let dash = indent + self.style.dash_indent;
                let items: Vec<String> =
                    value.items().iter().map(|item| self.style.item(item, dash, 2)).collect();
                let break_line = self.style.break_to(dash);
                return format!("{}:{break_line}{}", self.style.text(name), items.join(&break_line));
            }
            return self.style.member(name, value, indent);
        }
        let neighbour = &block.elements[index.saturating_sub(1).min(block.elements.len() - 1)];
        let shown = &neighbour.value;
        if matches!(shown.form, Form::Flow(_)) {
            return format!("- {}", self.style.inline(value));
        }
        let on_line = shown.start < line_end(self.text, neighbour.start);
        let offset = if on_line { shown.start - neighbour.start } else { 2 };
        self.style.item(value, indent, if (2..=9).contains(&offset) { offset } else { 2 })
    }

    /// A new element in brackets or braces.
    fn flow_element(
        &self,
        elements: &[Element],
        index: usize,
        name: Option<&str>,
        value: &DocumentNode,
        inner: usize,
    ) -> String {
        let filled = |element: &&Element| !element.value.elements().is_empty();
        let model = elements[..index.min(elements.len())].iter().rfind(filled);
        let model = model.or_else(|| elements.iter().find(filled));
        let spreads = match model {
            Some(element) => element.value.spreads(self.text),
            None => self.style.spreads_nested,
        };
        let spreads = self.style.is_json && spreads;
        let written = if spreads { self.style.spread(value, inner) } else { self.style.inline(value) };
        match name {
            None => written,
            Some(name) => {
                let blank = if self.style.colon_blank { " " } else { "" };
                format!("{}:{blank}{written}", self.style.text(name))
            }
        }
    }

    /// Removes an element. If it was the only one, empty brackets or braces remain.
    pub(super) fn remove(&self, index: usize) -> Vec<Splice> {
        let empty = if self.is_map { "{}" } else { "[]" };
        let whole = || vec![Splice::replace(self.piece.start..self.piece.end, empty)];
        match (&self.piece.form, self.holder) {
            (Form::Block(elements), Some(holder)) if elements.len() == 1 => {
                if !begins_line(self.text, self.piece.start) {
                    return whole();
                }
                let lines = self.block(elements).remove_only();
                vec![Splice::insert(holder.after, format!(" {empty}")), lines]
            }
            (Form::Block(elements), _) if elements.len() > 1 => vec![self.block(elements).remove(index)],
            (Form::Flow(elements), _) if elements.len() > 1 => {
                FlowElements { text: self.text, piece: self.piece, style: self.style }.remove(index)
            }
            _ => whole(),
        }
    }

    fn block<'b>(&'b self, elements: &'b [Element]) -> BlockElements<'b> {
        let bound = self.holder.map_or(0, |holder| holder.after);
        let is_entry = self.is_map && self.holder.is_some();
        BlockElements { text: self.text, elements, bound, newline: self.style.newline, is_entry }
    }
}

/// Writes a value in place of another.
pub(super) fn set_value(text: &str, style: &Style, holder: &Element, new: &DocumentNode) -> Vec<Splice> {
    let old = &holder.value;
    let is_filled = !new.items().is_empty() || !new.entries().is_empty();
    let indent = column(text, old.start);
    if style.is_json {
        let spreads =
            is_filled && if old.elements().is_empty() { style.spreads_nested } else { old.spreads(text) };
        let base = indent_of(text, holder.start);
        let written = if spreads { style.spread(new, base) } else { style.inline(new) };
        return vec![Splice::replace(old.start..old.end, written)];
    }
    if old.is_block() && is_filled {
        // A map must be indented more than its key; a list need not be.
        let fits = matches!(new.kind, ValueKind::List(_)) || indent > column(text, holder.start);
        if fits {
            return vec![Splice::replace(old.start..old.end, style.spread(new, indent))];
        }
    }
    let written = style.inline(new);
    if matches!(old.form, Form::Absent) {
        return vec![Splice::insert(holder.after, format!(" {written}"))];
    }
    if !old.is_block() || !begins_line(text, old.start) {
        return vec![Splice::replace(old.start..old.end, written)];
    }
    let end = lines_end(text, old.end, column(text, holder.start));
    let lines = whole_lines(text, next_line(text, holder.after)..end);
    vec![Splice::insert(holder.after, format!(" {written}")), Splice::cut(lines)]
}

/// Writes the first entry of a list that is absent, null or empty, in a document that is written line by line.
pub(super) fn begin_list(text: &str, style: &Style, holder: &Element, item: &DocumentNode) -> Vec<Splice> {
    let dash = column(text, holder.start) + style.dash_indent;
    let written = style.item(item, dash, 2);
    let indent = " ".repeat(dash);
    let cleared = Splice::cut(holder.after..holder.end());
    let end = next_line(text, holder.end());
    let newline = style.newline;
    let lines = match end == text.len() && !text.ends_with('\n') {
        true => format!("{newline}{indent}{written}"),
        false => format!("{indent}{written}{newline}"),
    };
    vec![cleared, Splice::insert(end, lines)]
}
