//! Spellings of a path: what is one path, and its normal form.

use std::borrow::Cow;
use std::fmt::Write;

/// Which spellings of a path are one path, beside those that always are: `defaults.paths`. Paths of requests and
/// patterns are brought to the same form, so that a limit by path cannot be evaded by another spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSpelling {
    /// Letters compare without case, in all languages.
    pub ignore_case: bool,
    /// `%2F`, `%5C` and a backslash are slashes.
    pub decode_slash: bool,
    /// `;x=y` at the end of a segment is no part of it.
    pub strip_params: bool,
}

/// A path as patterns see it where the policy does not say more: query and fragment
/// dropped, unreserved characters percent-decoded, empty and dot segments resolved,
/// so that `//login` and `/%6cogin` are `/login`.
pub fn normalise(path: &str) -> Cow<'_, str> {
    PathSpelling::default().normalise(path)
}

/// The segments of a normal path; none for `/`. A slash at the end is not told
/// from its absence.
pub(crate) fn segments_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

impl PathSpelling {
    /// A path as patterns see it. Everything is decoded once: `%252F` is `%252F`, whatever is asked for, and `%00`
    /// stays `%00`, with what comes after it.
    pub fn normalise(self, path: &str) -> Cow<'_, str> {
        // Most paths are, and then they are read once and not copied.
        if self.is_normal(path) {
            return Cow::Borrowed(path);
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        if self.is_normal(path) {
            return Cow::Borrowed(path);
        }
        let decoded = self.decode(path);
        let mut kept: Vec<&str> = Vec::new();
        for segment in segments_of(&decoded) {
            // `..;x` is a dot segment to whoever drops what comes after the semicolon.
            match if self.strip_params { without_params(segment) } else { segment } {
                "" | "." => {}
                ".." => {
                    kept.pop();
                }
                segment => kept.push(segment),
            }
        }
        let mut normal = String::with_capacity(decoded.len() + 1);
        for segment in kept {
            normal.push('/');
            if self.ignore_case { push_folded(&mut normal, segment) } else { normal.push_str(segment) }
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Cow::Owned(normal)
    }

    /// Is there nothing to drop, to decode, to fold or to resolve?
    fn is_normal(self, path: &str) -> bool {
        let [b'/', rest @ ..] = path.as_bytes() else { return false };
        let mut previous = b'/';
        for &byte in rest {
            match byte {
                b'%' | b'?' | b'#' | 0x80.. => return false,
                b'/' | b'.' if previous == b'/' => return false,
                b'A'..=b'Z' if self.ignore_case => return false,
                b'\\' if self.decode_slash => return false,
                b';' if self.strip_params => return false,
                _ => previous = byte,
            }
        }
        rest.is_empty() || previous != b'/'
    }

    /// Decodes `%41` and its like where that cannot change the meaning, and slashes if they are asked for; other
    /// escapes are only brought to upper case.
    fn decode(self, path: &str) -> String {
        let mut decoded = String::with_capacity(path.len());
        let mut rest = path;
        while let Some(escape) = rest.find('%') {
            self.push_encoded(&mut decoded, &rest[..escape]);
            let code =
                rest.get(escape + 1..escape + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(code) = code else {
                decoded.push('%');
                rest = &rest[escape + 1..];
                continue;
            };
            match u8::from_str_radix(code, 16).expect("two hexadecimal digits are a byte") {
                byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                    decoded.push(char::from(byte));
                }
                b'/' | b'\\' if self.decode_slash => decoded.push('/'),
                byte => push_escape(&mut decoded, byte),
            }
            rest = &rest[escape + 3..];
        }
        self.push_encoded(&mut decoded, rest);
        decoded
    }

    /// What is not ASCII is written as its escapes, so that both spellings are one.
    fn push_encoded(self, decoded: &mut String, text: &str) {
        for char in text.chars() {
            match char {
                '\\' if self.decode_slash => decoded.push('/'),
                _ if char.is_ascii() => decoded.push(char),
                _ => push_escapes(decoded, char),
            }
        }
    }
}

fn without_params(segment: &str) -> &str {
    segment.split_once(';').map_or(segment, |(name, _)| name)
}

fn push_escape(text: &mut String, byte: u8) {
    write!(text, "%{byte:02X}").expect("writing to memory does not fail");
}

fn push_escapes(text: &mut String, char: char) {
    char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(text, byte));
}

/// A decoded segment with its letters in one case. Escaped letters are letters too; escapes that are no text stay.
fn push_folded(text: &mut String, segment: &str) {
    let mut rest = segment;
    while let Some(first) = rest.chars().next() {
        let (bytes, after) = escaped_bytes(rest);
        if bytes.is_empty() {
            let skipped = if first == '%' && is_escape(rest) { 3 } else { first.len_utf8() };
            if skipped == 3 {
                text.push_str(&rest[..3])
            } else {
                push_char_folded(text, first)
            }
            rest = &rest[skipped..];
            continue;
        }
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|char| push_char_folded(text, char));
            chunk.invalid().iter().for_each(|byte| push_escape(text, *byte));
        }
        rest = after;
    }
}

/// The bytes of the escapes at the start of a text that are no ASCII, and what comes after them.
fn escaped_bytes(text: &str) -> (Vec<u8>, &str) {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while is_escape(rest) {
        let byte = u8::from_str_radix(&rest[1..3], 16).expect("two hexadecimal digits are a byte");
        if byte.is_ascii() {
            break;
        }
        bytes.push(byte);
        rest = &rest[3..];
    }
    (bytes, rest)
}

fn is_escape(text: &str) -> bool {
    matches!(text.as_bytes(), [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// A letter in lower case, by way of upper case where that is one letter too: so are those told to be one that have
/// the same capital, such as the two small sigmas. What is not ASCII is written as its escapes.
fn push_char_folded(text: &mut String, char: char) {
    if char.is_ascii() {
        return text.push(char.to_ascii_lowercase());
    }
    let mut upper = char.to_uppercase();
    let capital = upper.next().filter(|_| upper.next().is_none()).unwrap_or(char);
    for char in capital.to_lowercase() {
        if char.is_ascii() { text.push(char) } else { push_escapes(text, char) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> PathSpelling {
        PathSpelling { ignore_case: true, decode_slash: true, strip_params: true }
    }

    #[test]
    fn with_nothing_asked_for_spellings_are_paths_of_their_own() {
        for path in ["/Login", "/a%2Fb", "/a;x=1/b", "/a%5Cb", "/a\\b", "/login%00", "/%252F", "/a%3Bb"] {
            assert_eq!(normalise(path), path);
        }
        assert_eq!(normalise("/a%2fb%00.js?x"), "/a%2Fb%00.js");
        assert_eq!(normalise("/a\0b"), "/a\0b", "nothing is cut there");
    }

    #[test]
    fn each_option_is_for_itself() {
        let case = PathSpelling { ignore_case: true, ..PathSpelling::default() };
        assert_eq!(case.normalise("/LogIn/%41;X/%2f"), "/login/a;x/%2F");
        assert_eq!(case.normalise("/%C3%89t\u{c9}"), "/%C3%A9t%C3%A9");
        assert_eq!(case.normalise("/\u{3a3}\u{3c2}\u{3c3}"), case.normalise("/%CF%83%CF%83%CF%83"));
        assert_eq!(
            case.normalise("/\u{212a}%C3%28%FF"),
            "/k%C3%28%FF",
            "the Kelvin sign is a k; no text stays"
        );
        let slash = PathSpelling { decode_slash: true, ..PathSpelling::default() };
        assert_eq!(slash.normalise("/A%2fb%5C..\\c;x"), "/A/c;x");
        assert_eq!(slash.normalise("/%252Fa"), "/%252Fa", "it is decoded once");
        let params = PathSpelling { strip_params: true, ..PathSpelling::default() };
        assert_eq!(params.normalise("/a;x=1;y/..;/b;/%2F;z/;w/c%3Bd"), "/b/%2F/c%3Bd");
    }

    #[test]
    fn all_together() {
        assert_eq!(all().normalise("/Api;v=1%2FUsers/..;a/%4Cogin%00;x?Q"), "/api/login%00");
        assert_eq!(all().normalise(";"), "/");
        assert_eq!(all().normalise("/api/login"), "/api/login");
    }
}
