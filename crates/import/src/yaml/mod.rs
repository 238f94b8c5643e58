//! Writes values as YAML: plain where every YAML reader reads it the same, quoted otherwise.

mod policy;

use crate::source::JsonText;

pub(crate) use policy::conditions;

/// A scalar: plain if it cannot be read as anything but this text, quoted otherwise.
pub(crate) fn scalar(text: &str) -> String {
    let plain_first = |c: char| c.is_ascii_alphabetic() || c == '/';
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./*-".contains(c);
    if text.starts_with(plain_first) && text.chars().all(plain) && !is_word(text) {
        return text.to_owned();
    }
    // A JSON string is a YAML scalar if the characters that YAML forbids are escaped as well.
    let forbidden = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{2028}'..='\u{2029}' | '\u{feff}')
    };
    JsonText::escaping(text, forbidden).to_string()
}

/// Is it a word that some YAML readers take for a boolean or null?
fn is_word(text: &str) -> bool {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// `[a, b]`
pub(crate) fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| scalar(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// `{ a: b }`; the values must be YAML already.
pub(crate) fn map<K: AsRef<str>>(entries: &[(K, String)]) -> String {
    let entries: Vec<String> =
        entries.iter().map(|(key, value)| format!("{}: {value}", scalar(key.as_ref()))).collect();
    format!("{{ {} }}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_where_it_is_safe() {
        for text in ["user", "/api/**", "free", "x-api-key", "api.example.com"] {
            assert_eq!(scalar(text), text);
        }
    }

    #[test]
    fn quoted_where_it_could_be_misread() {
        for text in ["", "no", "True", "42", "1.5", "10.0.0.0/8", "*", "a: b", "#x", "header:x", "~", "é"] {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
        assert_eq!(scalar("a\"b\\c\n\u{1}"), r#""a\"b\\c\n\u0001""#);
    }

    #[test]
    fn collections_are_on_one_line() {
        assert_eq!(list(&["user", "header:x"]), r#"[user, "header:x"]"#);
        assert_eq!(map(&[("jwt:plan", scalar("free"))]), r#"{ "jwt:plan": free }"#);
    }
}
