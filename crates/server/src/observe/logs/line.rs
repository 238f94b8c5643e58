//! One line of the log, and the escaping that keeps data of clients from forging lines.

use std::fmt::{self, Write};

use tidegate_policy::JsonText;
use tracing::field::{Field, Visit};

/// Longer texts are cut to this number of characters.
const TEXT_CHARS_MAX: usize = 2_000;

/// The message and the fields of a line.
#[derive(Debug, Default)]
pub(crate) struct LogLine {
    pub(crate) message: String,
    pub(crate) fields: Vec<(&'static str, LogValue)>,
}

/// The value of a field.
#[derive(Debug)]
pub(crate) enum LogValue {
    /// Text, which has to be quoted or escaped.
    Text(String),
    /// A number, `true` or `false`, written as it is.
    Bare(String),
}

impl LogLine {
    fn bare(&mut self, field: &Field, value: impl fmt::Display) {
        self.fields.push((field.name(), LogValue::Bare(value.to_string())));
    }

    fn text(&mut self, field: &Field, text: String) {
        let text = cut(text);
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, LogValue::Text(text))),
        }
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.bare(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.bare(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.bare(field, value);
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Is it a control character, a line separator, or a character that changes the direction of text?
fn needs_escape(letter: char) -> bool {
    let turns_text =
        matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    letter.is_control() || turns_text || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Text in the plain format.
pub(crate) struct PlainText<'t> {
    text: &'t str,
    quotes: bool,
}

impl<'t> PlainText<'t> {
    /// Without quotes; only control characters and their like are escaped.
    pub(crate) fn unquoted(text: &'t str) -> PlainText<'t> {
        PlainText { text, quotes: false }
    }

    /// In quotes if it is empty, or has characters that would hide where it ends.
    pub(crate) fn quoted(text: &'t str) -> PlainText<'t> {
        let is_clear =
            |letter: char| !letter.is_whitespace() && !"\"\\=".contains(letter) && !needs_escape(letter);
        PlainText { text, quotes: text.is_empty() || !text.chars().all(is_clear) }
    }
}

impl fmt::Display for PlainText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.quotes { "\"" } else { "" };
        f.write_str(quote)?;
        for letter in self.text.chars() {
            match letter {
                '"' | '\\' if self.quotes => write!(f, "\\{letter}")?,
                _ if needs_escape(letter) => write!(f, "{}", letter.escape_default())?,
                _ => f.write_char(letter)?,
            }
        }
        f.write_str(quote)
    }
}

/// Text as a JSON string.
pub(crate) fn json_text(text: &str) -> JsonText<'_> {
    JsonText::escaping(text, needs_escape)
}
