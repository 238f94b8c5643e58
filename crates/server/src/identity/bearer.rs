//! Parses the bearer token in `Authorization`, so that no odd spelling makes a credential disappear.
//!
//! The grammar is strict (RFC 6750, RFC 7235): one header line with `Bearer`, spaces and a `token68`. The backend that
//! verifies the token after us may be more lenient: it may trim, split at any white space, or take the first of several
//! lines. So everything that a lenient parser could accept as a bearer token, but that breaks the grammar, counts as an
//! invalid credential, never as none: otherwise a tab in the right position would lift the limits per user.
//!
//! Another scheme, such as `Basic`, cannot be verified here and counts as no credential. It proves no more about the
//! client than sending nothing, which every client may do.

/// The credential of a request, before it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentedCredential<'h> {
    /// No header, or one that no parser could take for a bearer token.
    Nothing,
    /// A token that follows the grammar.
    Token(&'h [u8]),
    /// Something that a lenient parser might take for a token, or several tokens.
    Malformed,
}

const SCHEME: &[u8] = b"Bearer";

impl<'h> PresentedCredential<'h> {
    /// Parses the lines of `Authorization`.
    pub(crate) fn in_lines(lines: &[&'h [u8]]) -> PresentedCredential<'h> {
        // A client that sends two lines must not choose which of them is verified.
        if let [line] = lines
            && let Some(token) = bearer(line)
        {
            return PresentedCredential::Token(token);
        }
        // A proxy may have joined lines with commas.
        let parts = || lines.iter().flat_map(|line| line.split(|byte| *byte == b','));
        if parts().any(resembles_bearer) {
            PresentedCredential::Malformed
        } else {
            PresentedCredential::Nothing
        }
    }
}

/// The token in `Bearer`, spaces, token. The scheme is compared without case.
pub(crate) fn bearer(line: &[u8]) -> Option<&[u8]> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !blank(byte))?;
    let end = line.iter().rposition(|byte| !blank(byte))? + 1;
    let (scheme, rest) = line[start..end].split_at_checked(SCHEME.len())?;
    let token = &rest[rest.iter().position(|byte| *byte != b' ')?..];
    let is_spaced = token.len() < rest.len();
    (scheme.eq_ignore_ascii_case(SCHEME) && is_spaced && is_token68(token)).then_some(token)
}

/// Letters, digits and `-._~+/`, then any number of `=`.
fn is_token68(token: &[u8]) -> bool {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let text = &token[..token.len() - padding];
    let is_letter = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    !text.is_empty() && text.iter().all(is_letter)
}

/// Does the first word begin with `Bearer`, whatever is before and after it? No other registered scheme begins so.
fn resembles_bearer(part: &[u8]) -> bool {
    let start = part.iter().position(|byte| byte.is_ascii_alphanumeric()).unwrap_or(part.len());
    part[start..].get(..SCHEME.len()).is_some_and(|word| word.eq_ignore_ascii_case(SCHEME))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_is_what_the_grammar_says() {
        for line in ["Bearer a.b-c", "bearer  a.b-c", "BEARER a.b-c", " Bearer a.b-c\t"] {
            assert_eq!(
                PresentedCredential::in_lines(&[line.as_bytes()]),
                PresentedCredential::Token(b"a.b-c"),
                "{line}"
            );
        }
        assert_eq!(PresentedCredential::in_lines(&[b"Bearer a=="]), PresentedCredential::Token(b"a=="));
    }

    #[test]
    fn what_is_nearly_a_token_is_not_nothing() {
        let long = format!("Bearer\t{}", "x".repeat(100_000));
        for line in [
            "Bearer",
            "Bearer ",
            "bearer\t",
            "Bearer\ta.b.c",
            "Bearer \ta.b.c",
            "Bearer a b",
            "Bearer a,b",
            "Bearer =",
            "Bearer a=b",
            "Bearer \"a\"",
            "Bearer: a",
            "Bearera",
            "Bearer\u{a0}a",
            "\u{a0}Bearer a",
            "\u{fffd}Bearer a",
            "\u{b}Bearer\u{c}a",
            "\0Bearer a",
            "Bearer a\0",
            "Bearer é",
            "\r\n Bearer a",
            "Basic eDp5, Bearer a",
            "Bearer a, Basic eDp5",
            ",Bearer a",
            &long,
        ] {
            assert_eq!(
                PresentedCredential::in_lines(&[line.as_bytes()]),
                PresentedCredential::Malformed,
                "{line:?}"
            );
        }
        for lines in [["Bearer a", "Bearer a"], ["Basic eDp5", "Bearer a"], ["Bearer a", ""], ["", "bearer"]]
        {
            assert_eq!(
                PresentedCredential::in_lines(&lines.map(str::as_bytes)),
                PresentedCredential::Malformed,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn other_schemes_are_not_ours() {
        for line in ["", " ", "Basic eDp5", "Negotiate abc", "a.b.c", "Digest realm=\"bearer\"", "Bear er"] {
            assert_eq!(
                PresentedCredential::in_lines(&[line.as_bytes()]),
                PresentedCredential::Nothing,
                "{line:?}"
            );
        }
        assert_eq!(PresentedCredential::in_lines(&[]), PresentedCredential::Nothing);
        assert_eq!(
            PresentedCredential::in_lines(&[b"Basic eDp5", b"Basic eDp5"]),
            PresentedCredential::Nothing
        );
    }

    /// A lenient parser: any white space, also of Unicode, any case, anything after the token.
    fn lenient(line: &str) -> Option<&str> {
        let mut words = line.split_whitespace();
        let scheme = words.next()?;
        scheme.eq_ignore_ascii_case("bearer").then(|| words.next().unwrap_or_default())
    }

    /// A line with `Bearer` and a token, changed at up to three random positions.
    fn line() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(&[
            "\t", " ", "  ", "\u{a0}", "\u{b}", "\u{c}", "\u{85}", "\u{2003}", "\u{1f}", "=", "==", ",",
            "Bearer", "bearer ", "Basic", "\"", ":", "x", "é", "\0", ".", "\u{feff}",
        ]);
        let change = (0.0..1.0_f64, piece, 0..3_usize);
        let word = prop::sample::select(&["Bearer", "bearer", "BEARER", "bEaReR"]);
        (word, prop::collection::vec(change, 0..4)).prop_map(|(word, changes)| {
            let mut line = format!("{word} abc.def.ghi");
            for (position, piece, removed) in changes {
                let offsets: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
                let first = (position * offsets.len() as f64) as usize;
                let last = (first + removed).min(offsets.len() - 1);
                line.replace_range(offsets[first]..offsets[last], piece);
            }
            line
        })
    }

    proptest! {
        #[test]
        fn what_anybody_takes_for_a_bearer_token_is_that_token_or_malformed(
            lines in prop::collection::vec(line(), 1..3),
        ) {
            let bytes: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
            let found = PresentedCredential::in_lines(&bytes);
            // Lenient parsers take the first line, the last, or all lines joined.
            let joined = lines.join(", ");
            for read in [lines.first(), lines.last(), Some(&joined)].into_iter().flatten() {
                let Some(token) = lenient(read) else { continue };
                let same = found == PresentedCredential::Token(token.as_bytes());
                prop_assert!(same || found == PresentedCredential::Malformed, "{lines:?}: {found:?}");
            }
        }
    }
}
