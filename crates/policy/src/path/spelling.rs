//! The normal form of paths: which spellings are the same path.

use std::borrow::Cow;
use std::fmt::Write;

/// Which further spellings of a path are the same path (`defaults.paths`). Paths of requests and patterns are brought
/// to the same normal form, so that another spelling cannot evade a limit by path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSpelling {
    /// Upper and lower case are equal, in all languages.
    pub ignore_case: bool,
    /// `%2F`, `%5C` and a backslash are slashes.
    pub decode_slash: bool,
    /// `;x=y` at the end of a segment is ignored.
    pub strip_params: bool,
}

/// The normal form of a path by default: query and fragment are dropped, unreserved characters percent-decoded, empty
/// and dot segments resolved. `//login` and `/%6cogin` become `/login`.
pub fn normalise(path: &str) -> Cow<'_, str> {
    PathSpelling::default().normalise(path)
}

/// The segments of a path in normal form; none for `/`. A slash at the end makes no difference.
pub(crate) fn segments_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

impl PathSpelling {
    /// The normal form of a path. Escapes are decoded once: `%252F` stays `%252F` under every option, and `%00` stays
    /// `%00`, without cutting the path there.
    pub fn normalise(self, path: &str) -> Cow<'_, str> {
        // Most paths are in normal form already: one pass, no copy.
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
            // Strip parameters first: an upstream that ignores them reads `..;x` as a dot segment.
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

    /// Is there nothing to drop, decode, fold or resolve?
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

    /// Decodes escapes of unreserved characters, such as `%41`, and those of slashes if `decode_slash` is set. Other
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

    /// Adds text, with non-ASCII characters as escapes, so that both spellings are the same.
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

/// Adds a decoded segment in lower case. Escaped letters are folded too; escapes that are not UTF-8 stay.
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

/// The bytes of the non-ASCII escapes at the start of a text, and the rest of the text.
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

/// Adds a letter in lower case. It is taken to upper case first, if that is a single letter, so that letters with the
/// same capital become equal, such as the two small sigmas. Non-ASCII letters are written as escapes.
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
