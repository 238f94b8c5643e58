//! Writes values in the style of a text.

use super::style::Style;
use crate::json::json_number;
use crate::text::is_plain_text;
use crate::{DocumentNode, JsonText, ValueKind};

/// A list or map that would make its line longer than this is written over several lines.
const WIDTH_MAX: usize = 100;

impl Style {
    /// A value on one line.
    pub(super) fn inline(&self, node: &DocumentNode) -> String {
        let comma = if self.comma_blank { ", " } else { "," };
        match &node.kind {
            ValueKind::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.inline(item)).collect();
                format!("[{}]", items.join(comma))
            }
            ValueKind::Map(members) if members.is_empty() => "{}".to_owned(),
            ValueKind::Map(members) => {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| self.inline_member(&key.value, value)).collect();
                let blank = if self.brace_blank { " " } else { "" };
                format!("{{{blank}{}{blank}}}", members.join(comma))
            }
            _ => self.scalar(node),
        }
    }

    /// A member on one line.
    pub(super) fn inline_member(&self, name: &str, value: &DocumentNode) -> String {
        let blank = if self.colon_blank { " " } else { "" };
        format!("{}:{blank}{}", self.text(name), self.inline(value))
    }

    /// A value over several lines. Its first line is not indented; the others are, to `column`.
    pub(super) fn spread(&self, node: &DocumentNode, column: usize) -> String {
        if self.is_json {
            return self.spread_json(node, column);
        }
        let break_line = self.break_to(column);
        match &node.kind {
            ValueKind::List(items) if !items.is_empty() => {
                let items: Vec<String> = items.iter().map(|item| self.item(item, column, 2)).collect();
                items.join(&break_line)
            }
            ValueKind::Map(members) if !members.is_empty() => {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| self.member(&key.value, value, column)).collect();
                members.join(&break_line)
            }
            _ => self.inline(node),
        }
    }

    /// An item of a block list whose dash is in `column`, with its content `offset` columns after the dash.
    pub(super) fn item(&self, node: &DocumentNode, column: usize, offset: usize) -> String {
        format!("-{}{}", " ".repeat(offset.max(2) - 1), self.spread(node, column + offset.max(2)))
    }

    /// A member whose key is in `column`, each on lines of its own.
    pub(super) fn member(&self, name: &str, value: &DocumentNode, column: usize) -> String {
        let key = self.text(name);
        let is_collection = !value.items().is_empty() || !value.entries().is_empty();
        if is_collection && self.is_json && self.spreads_nested {
            let blank = if self.colon_blank { " " } else { "" };
            return format!("{key}:{blank}{}", self.spread(value, column));
        }
        let inline = self.inline_member(name, value);
        let is_long = column + inline.chars().count() > WIDTH_MAX;
        if is_collection && !self.is_json && (self.spreads_nested || is_long) {
            let inner = column + self.step;
            return format!("{key}:{}{}", self.break_to(inner), self.spread(value, inner));
        }
        inline
    }

    /// A JSON list or map with a line for each element.
    fn spread_json(&self, node: &DocumentNode, column: usize) -> String {
        let inner = column + self.step;
        let (open, elements, close): (_, Vec<String>, _) = match &node.kind {
            ValueKind::List(items) if !items.is_empty() => {
                let item = |item: &DocumentNode| match self.spreads_nested {
                    true => self.spread_json(item, inner),
                    false => self.inline(item),
                };
                ('[', items.iter().map(item).collect(), ']')
            }
            ValueKind::Map(members) if !members.is_empty() => {
                let member =
                    |(key, value): &(crate::Spanned<String>, _)| self.member(&key.value, value, inner);
                ('{', members.iter().map(member).collect(), '}')
            }
            _ => return self.inline(node),
        };
        let separator = format!(",{}", self.break_to(inner));
        format!("{open}{}{}{}{close}", self.break_to(inner), elements.join(&separator), self.break_to(column))
    }

    /// A line break and the indentation of the next line.
    pub(super) fn break_to(&self, column: usize) -> String {
        format!("{}{}", self.newline, self.indentation(column))
    }

    /// The blanks before a column.
    pub(super) fn indentation(&self, column: usize) -> String {
        std::iter::repeat_n(self.indent, column).collect()
    }

    fn scalar(&self, node: &DocumentNode) -> String {
        match &node.kind {
            ValueKind::Number(text) if self.is_json => json_number(text).unwrap_or_else(|| self.text(text)),
            ValueKind::Number(text) => text.clone(),
            ValueKind::Text(text) => self.text(text),
            ValueKind::Bool(flag) => flag.to_string(),
            _ => "null".to_owned(),
        }
    }

    /// Text, quoted if it must be.
    pub(super) fn text(&self, text: &str) -> String {
        if self.is_json {
            return JsonText::new(text).to_string();
        }
        if is_plain_text(text) && !is_risky(text) {
            return text.to_owned();
        }
        let is_escaped = |c: char| {
            c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        };
        JsonText::escaping(text, is_escaped).to_string()
    }
}

/// Would this text without quotes be read as something else, by this parser or by another one? The rules are stricter
/// than YAML's where that costs nothing but a pair of quotes.
fn is_risky(text: &str) -> bool {
    // Other parsers read these as booleans.
    const WORDS: &[&str] = &["y", "n", "yes", "no", "on", "off"];
    let indicator = |c: char| "-?:,[]{}#&*!|>'\"%@`=<~.".contains(c);
    let is_letter = |c: char| c.is_alphanumeric() || " _-./:+*@%=~$^;()!?&|<>#".contains(c);
    text.is_empty()
        || text.len() > 200
        || text.starts_with(indicator)
        || text.trim() != text
        || !text.chars().all(is_letter)
        || text.contains(": ")
        || text.ends_with(':')
        || text.contains(" #")
        || WORDS.contains(&text.to_lowercase().as_str())
}
