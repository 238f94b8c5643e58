//! Writes text as a JSON string.

use std::fmt::{self, Write};

/// Text that displays as a JSON string, with its quotes.
///
/// ```
/// use tidegate_document::JsonText;
///
/// assert_eq!(JsonText::new("a \"b\"").to_string(), r#""a \"b\"""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JsonText<'t> {
    text: &'t str,
    others: Option<fn(char) -> bool>,
}

impl<'t> JsonText<'t> {
    /// Escapes only the characters that JSON requires to be escaped.
    pub const fn new(text: &'t str) -> JsonText<'t> {
        JsonText { text, others: None }
    }

    /// Escapes these characters too, as `\uXXXX`. They must be below U+10000, so that four digits are enough.
    pub const fn escaping(text: &'t str, others: fn(char) -> bool) -> JsonText<'t> {
        JsonText { text, others: Some(others) }
    }

    /// Writes it directly; faster than through [`fmt::Display`].
    ///
    /// # Errors
    /// When `out` refuses a write.
    pub fn write_to(&self, out: &mut impl Write) -> fmt::Result {
        out.write_char('"')?;
        let mut rest = self.text;
        // Runs of characters that need no escape are copied at once.
        while let Some((index, letter)) = self.next_escape(rest) {
            out.write_str(&rest[..index])?;
            match letter {
                _ if self.is_other(letter) => write!(out, "\\u{:04x}", u32::from(letter))?,
                '"' | '\\' => write!(out, "\\{letter}")?,
                '\n' => out.write_str("\\n")?,
                '\t' => out.write_str("\\t")?,
                control => write!(out, "\\u{:04x}", u32::from(control))?,
            }
            rest = &rest[index + letter.len_utf8()..];
        }
        out.write_str(rest)?;
        out.write_char('"')
    }

    fn is_other(&self, letter: char) -> bool {
        self.others.is_some_and(|others| others(letter))
    }

    /// The next character to escape, and its index.
    fn next_escape(&self, rest: &str) -> Option<(usize, char)> {
        let always = |byte: u8| matches!(byte, b'"' | b'\\' | ..b' ');
        if self.others.is_none() {
            // These are all ASCII, and no byte of a longer UTF-8 character is ASCII.
            let index = rest.bytes().position(always)?;
            return Some((index, char::from(rest.as_bytes()[index])));
        }
        let escaped = |letter: char| u8::try_from(letter).is_ok_and(always) || self.is_other(letter);
        rest.char_indices().find(|(_, letter)| escaped(*letter))
    }
}

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse;

    #[test]
    fn only_what_must_be_is_escaped() {
        for (text, written) in [
            ("", r#""""#),
            ("plain é€😀\u{7f}\u{2028}", "\"plain é€😀\u{7f}\u{2028}\""),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{0}\n\t\r\u{1f}", r#""\u0000\n\t\u000d\u001f""#),
        ] {
            assert_eq!(JsonText::new(text).to_string(), written);
        }
    }

    #[test]
    fn others_are_escaped_by_their_number() {
        let others = |letter: char| letter.is_control() || letter == '\u{2028}';
        let written = JsonText::escaping("a\u{2028}\n\"é\u{9b}", others).to_string();
        assert_eq!(written, r#""a\u2028\u000a\"é\u009b""#);
    }

    proptest! {
        #[test]
        fn it_is_read_back_as_it_was(text in "(.|[\"\\\\\n\t\u{1}\u{2028}]){0,40}") {
            for written in [JsonText::new(&text), JsonText::escaping(&text, |letter| letter < '\u{a0}')] {
                let read = parse(&format!("[{written}]")).expect("it is JSON");
                prop_assert_eq!(read.items()[0].scalar(), Some(&*text));
            }
        }
    }
}
