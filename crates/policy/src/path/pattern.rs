//! Path patterns.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::spelling::{PathSpelling, segments_of};

/// A pattern of paths: literal segments, `*` or `{name}` for any one segment, and a final `**` for any number of
/// segments, including none.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// In normal form.
    text: Box<str>,
    /// As written, if that differs from the normal form.
    written: Option<Box<str>>,
    segments: Box<[Segment]>,
    /// Does it end in `**`?
    deep: bool,
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// This text.
    Literal(Box<str>),
    /// `*` or `{name}`: any text.
    Any,
}

/// Why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("a path begins with `/`")]
    NotAbsolute,
    /// `**` is not the last segment.
    #[error("`**` can only be the last segment")]
    DeepInside,
    /// A segment has a star beside other characters.
    #[error("`*` matches a whole segment and cannot be part of one")]
    PartialStar,
    /// A segment has a brace that is not around the whole of it.
    #[error("`{{name}}` matches a whole segment and has letters, digits, `-` and `_` between its braces")]
    PartialBrace,
    /// A segment begins with a colon.
    #[error("a segment does not begin with `:`: any one segment is `*` or `{{name}}`")]
    Colon,
    /// It is too long.
    #[error("a path has at most {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// It has a query or a fragment.
    #[error("a path has no `?` and no `#`: match the query by `query:<name>`")]
    NotOnlyPath,
}

/// The longest pattern.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When the text is not a pattern.
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
        Pattern::read(text, PathSpelling::default())
    }

    /// The same pattern in the normal form of another spelling, to match paths in that normal form.
    #[must_use]
    pub fn with_spelling(&self, spelling: PathSpelling) -> Pattern {
        let written = self.written.as_deref().unwrap_or(&self.text);
        // A star is alone in its segment, as is a name in braces, and no spelling makes another pattern of such a
        // segment, so this does not fail.
        Pattern::read(written, spelling).unwrap_or_else(|_| self.clone())
    }

    fn read(text: &str, spelling: PathSpelling) -> Result<Pattern, PatternError> {
        let normal = spelling.normalise(text);
        let mut segments = Vec::new();
        let mut deep = false;
        for segment in segments_of(&normal) {
            match segment {
                _ if deep => return Err(PatternError::DeepInside),
                "**" => deep = true,
                "*" => segments.push(Segment::Any),
                named if is_named(named) => segments.push(Segment::Any),
                literal if literal.contains(['{', '}']) => return Err(PatternError::PartialBrace),
                literal if literal.contains('*') => return Err(PatternError::PartialStar),
                literal if literal.starts_with(':') => return Err(PatternError::Colon),
                literal => segments.push(Segment::Literal(literal.into())),
            }
        }
        let written = (normal != text).then(|| text.into());
        Ok(Pattern { text: normal.into(), written, segments: segments.into(), deep })
    }

    /// The pattern as text, in normal form.
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

    /// Does it match a path in [normal form](crate::normalise)?
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

    /// Is there a path that both match?
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let alike = self.segments.iter().zip(&other.segments).all(|pair| match pair {
            (Segment::Any, _) | (_, Segment::Any) => true,
            (mine, theirs) => mine == theirs,
        });
        let fits = |longer: &Pattern, shorter: &Pattern| {
            shorter.deep || longer.segments.len() == shorter.segments.len()
        };
        let (longer, shorter) =
            if self.segments.len() >= other.segments.len() { (self, other) } else { (other, self) };
        alike && fits(longer, shorter)
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

/// Is it a name in braces, which stands for any one segment?
fn is_named(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter))
}

impl PartialEq for Pattern {
    /// Patterns are equal if they match the same paths, however they were written.
    fn eq(&self, other: &Pattern) -> bool {
        self.segments == other.segments && self.deep == other.deep
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.segments.hash(state);
        self.deep.hash(state);
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
