//! Paths and the patterns that match them.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A pattern for paths: literal segments, `*` for one segment, a final `**` for
/// any depth, none included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Box<str>,
    segments: Box<[Segment]>,
    /// Ends in `**`.
    deep: bool,
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// This text.
    Literal(Box<str>),
    /// `*`: any text.
    Any,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It must begin with a slash.
    #[error("a path begins with `/`")]
    NotAbsolute,
    /// `**` is only for the end.
    #[error("`**` can only be the last segment")]
    DeepInside,
    /// A star within a segment.
    #[error("`*` stands for a whole segment and cannot be part of one")]
    PartialStar,
    /// It is too long.
    #[error("a path has at most {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// A query or a fragment.
    #[error("a path has no `?` and no `#`: match the query by `query:<name>`")]
    NotOnlyPath,
}

/// The longest pattern.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError::NotAbsolute);
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if text.contains(['?', '#']) {
            return Err(PatternError::NotOnlyPath);
        }
        let normal = normalise(text);
        let mut segments = Vec::new();
        let mut deep = false;
        for segment in segments_of(&normal) {
            match segment {
                _ if deep => return Err(PatternError::DeepInside),
                "**" => deep = true,
                "*" => segments.push(Segment::Any),
                literal if literal.contains('*') => return Err(PatternError::PartialStar),
                literal => segments.push(Segment::Literal(literal.into())),
            }
        }
        Ok(Pattern { text: normal.into(), segments: segments.into(), deep })
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its segments, without a final `**`.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Does it end in `**`?
    pub fn is_deep(&self) -> bool {
        self.deep
    }

    /// Does it match a path that is [normal](normalise)?
    pub fn matches(&self, path: &str) -> bool {
        let mut path = segments_of(path);
        for segment in &self.segments {
            match (segment, path.next()) {
                (Segment::Any, Some(_)) => {}
                (Segment::Literal(literal), Some(text)) if **literal == *text => {}
                _ => return false,
            }
        }
        self.deep || path.next().is_none()
    }

    /// Does it match every path that `other` matches?
    pub fn covers(&self, other: &Pattern) -> bool {
        if self.segments.len() > other.segments.len() || (other.deep && !self.deep) {
            return false;
        }
        let covered = self.segments.iter().zip(&other.segments).all(|pair| match pair {
            (Segment::Any, _) => true,
            (mine, theirs) => mine == theirs,
        });
        covered && (self.deep || self.segments.len() == other.segments.len())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The segments of a normal path; none for `/`. A slash at the end is not told
/// from its absence.
pub(crate) fn segments_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// A path as patterns see it: query and fragment dropped, unreserved characters
/// percent-decoded, empty and dot segments resolved, so that `//login` and
/// `/%6cogin` are `/login`.
pub fn normalise(path: &str) -> Cow<'_, str> {
    // Most paths are, and then they are read once and not copied.
    if is_normal(path) {
        return Cow::Borrowed(path);
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if is_normal(path) {
        return Cow::Borrowed(path);
    }
    let decoded = decode_unreserved(path);
    let mut kept: Vec<&str> = Vec::new();
    for segment in segments_of(&decoded) {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let mut normal = String::with_capacity(decoded.len() + 1);
    for segment in kept {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// Is there nothing to drop, to decode or to resolve?
fn is_normal(path: &str) -> bool {
    let [b'/', rest @ ..] = path.as_bytes() else { return false };
    let mut previous = b'/';
    for &byte in rest {
        match byte {
            b'%' | b'?' | b'#' | 0x80.. => return false,
            b'/' | b'.' if previous == b'/' => return false,
            _ => previous = byte,
        }
    }
    rest.is_empty() || previous != b'/'
}

/// Decodes `%41` and its like where that cannot change the meaning; other
/// escapes are only brought to upper case.
fn decode_unreserved(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(escape) = rest.find('%') {
        push_encoded(&mut decoded, &rest[..escape]);
        let code =
            rest.get(escape + 1..escape + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = code else {
            decoded.push('%');
            rest = &rest[escape + 1..];
            continue;
        };
        let byte = u8::from_str_radix(code, 16).expect("two hexadecimal digits are a byte");
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            decoded.push(char::from(byte));
        } else {
            decoded.push('%');
            decoded.push_str(&code.to_ascii_uppercase());
        }
        rest = &rest[escape + 3..];
    }
    push_encoded(&mut decoded, rest);
    decoded
}

/// What is not ASCII is written as its escapes, so that both spellings are one.
fn push_encoded(decoded: &mut String, text: &str) {
    for char in text.chars() {
        if char.is_ascii() {
            decoded.push(char);
        } else {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                write!(decoded, "%{byte:02X}").expect("writing to memory does not fail");
            }
        }
    }
}
