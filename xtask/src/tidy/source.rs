//! A Rust file as tokens.
//!
//! Tokens rather than a syntax tree: they exclude comments, and include the bodies of macros (above
//! all `proptest!`) like any other code.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::TidyProblem;
use super::files::TextFile;

/// A Rust file, split into tokens.
#[derive(Debug)]
pub struct SourceFile {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// How many lines the file has.
    pub lines: usize,
    /// All of its tokens.
    pub tokens: TokenStream,
}

impl SourceFile {
    /// Splits a file into tokens, or reports where that fails.
    pub fn parse(file: &TextFile) -> Result<SourceFile, TidyProblem> {
        let tokens = file.text.parse::<TokenStream>().map_err(|error| {
            TidyProblem::new(
                &file.path,
                error.span().start().line,
                "this is not valid Rust",
                "a file that cannot be parsed cannot be checked",
                "make it compile, or give it another extension",
            )
        })?;
        Ok(SourceFile { path: file.path.clone(), lines: file.text.lines().count(), tokens })
    }

    /// True if one of the components of the path, without `.rs`, is in `names`.
    pub fn is_below(&self, names: &[&str]) -> bool {
        self.path.split('/').any(|part| names.contains(&part.strip_suffix(".rs").unwrap_or(part)))
    }
}

/// Calls `visit` with the tokens of each level: those of the file, then those within each pair of brackets.
pub fn each_level(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    visit(&level);
    for token in &level {
        if let TokenTree::Group(group) = token {
            each_level(&group.stream(), visit);
        }
    }
}

/// The line a token starts on.
pub fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// True if the token is the identifier or keyword `word`.
pub fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

/// True if the token is the punctuation mark `mark`.
pub fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The token as a group with this delimiter.
pub fn as_group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// Where the item that begins at `at` ends: its body, or its semicolon.
pub fn item_end(level: &[TokenTree], at: usize) -> Option<usize> {
    (at..level.len()).find(|&at| is_mark(level.get(at), ';') || is_body(level, at))
}

fn is_body(level: &[TokenTree], at: usize) -> bool {
    // Braces of a const argument, as in `Ring<{ N }, T>`, are not a body.
    let is_argument = is_mark(level.get(at + 1), '>') || is_mark(level.get(at + 1), ',');
    as_group(level.get(at), Delimiter::Brace).is_some() && !is_argument
}

#[cfg(test)]
pub(super) fn source(path: &str, text: &str) -> SourceFile {
    SourceFile::parse(&TextFile::new(path, text)).expect("the test's own code is Rust")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_a_problem_with_its_line() {
        let broken = TextFile::new("a.rs", "fn a() {}\nfn b() { )\n");
        let problem = SourceFile::parse(&broken).expect_err("the brackets do not match");
        assert!(problem.to_string().starts_with("a.rs:2: "), "{problem}");
    }

    #[test]
    fn components_count_whole_and_without_extension() {
        assert!(source("crates/a/src/testing.rs", "").is_below(&["testing"]));
        assert!(source("crates/a/tests/b.rs", "").is_below(&["tests"]));
        assert!(!source("crates/a/src/contests.rs", "").is_below(&["tests"]));
    }
}
