//! The style of a text, which new values follow.

use super::layout::{Form, Piece, each_piece};
use super::lines::column;

/// How a text is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Is it JSON? Otherwise it is YAML.
    pub(super) is_json: bool,
    /// The line break of the text.
    pub(super) newline: &'static str,
    /// Is there a blank inside braces: `{ a: 1 }`?
    pub(super) brace_blank: bool,
    /// Is there a blank after a colon in braces? YAML needs one; JSON may be without.
    pub(super) colon_blank: bool,
    /// Is there a blank after a comma?
    pub(super) comma_blank: bool,
    /// What lines are indented with: a blank, or a tab in some JSON texts.
    pub(super) indent: char,
    /// By how many columns nested lines are indented; a tab is one.
    pub(super) step: usize,
    /// By how many columns the dashes of a list are indented under their key.
    pub(super) dash_indent: usize,
    /// Are lists and maps inside entries written over several lines?
    pub(super) spreads_nested: bool,
}

/// Entries are the children of the root's children; what they contain is at least this deep.
const NESTED_DEPTH: usize = 3;

impl Style {
    /// The style of a text.
    pub(super) fn of(text: &str, root: Option<&Piece>, is_json: bool) -> Style {
        let newline = match text.find('\n') {
            Some(index) if text[..index].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let mut style = Style {
            is_json,
            newline,
            brace_blank: !is_json,
            colon_blank: true,
            comma_blank: true,
            indent: ' ',
            step: 2,
            dash_indent: 2,
            spreads_nested: false,
        };
        if let Some(root) = root {
            style.observe_flow(text, root);
            style.observe_indents(text, root);
        }
        style
    }

    /// The first map in braces decides about blanks.
    fn observe_flow(&mut self, text: &str, root: &Piece) {
        let (mut seen, mut nested, mut spread_entries) = (false, None, false);
        each_piece(root, 0, &mut |piece, depth| {
            let is_written_over_lines = piece.is_block() || (self.is_json && piece.spreads(text));
            if depth >= NESTED_DEPTH && !piece.elements().is_empty() {
                nested = Some(nested.unwrap_or(false) || is_written_over_lines);
            }
            spread_entries |= depth == NESTED_DEPTH - 1 && self.is_json && piece.spreads(text);
            let Form::Flow(elements) = &piece.form else { return };
            let Some(first) = elements.first() else { return };
            if seen || !text[piece.start..].starts_with('{') {
                return;
            }
            seen = true;
            self.brace_blank = !self.is_json && text[piece.start + 1..].starts_with(' ');
            self.colon_blank = !self.is_json || first.value.start > first.after;
            if let [first, second, ..] = &elements[..] {
                self.comma_blank = text[first.end()..second.start] != *",";
            } else {
                self.comma_blank = self.colon_blank;
            }
        });
        self.spreads_nested = nested.unwrap_or(spread_entries);
    }

    fn observe_indents(&mut self, text: &str, root: &Piece) {
        let Some(member) = root.elements().first() else { return };
        if self.is_json && root.spreads(text) {
            self.step = column(text, member.start).clamp(1, 8);
            if text[..member.start].ends_with('\t') {
                self.indent = '\t';
            }
        }
        let is_list = |piece: &Piece| piece.is_block() && text[piece.start..].starts_with('-');
        let mut lists = root.elements().iter().filter(|element| is_list(&element.value));
        if let Some(element) = lists.next_back() {
            let (key, dash) = (column(text, element.start), column(text, element.value.start));
            self.dash_indent = dash.saturating_sub(key).min(8);
        }
    }
}
