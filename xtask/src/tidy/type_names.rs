//! The name of a visible type (`pub` in any form) exists only once in the workspace, so that a reader knows which one
//! is meant.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenTree};

use super::TidyProblem;
use super::source::{SourceFile, as_group, each_level, is_word, line};

/// Names that exist more than once. The list only shrinks: `tidy` demands the removal of an entry as soon as its name
/// exists only once.
pub const SHARED: &[&str] = &[];

const HOME: &str = "xtask/src/tidy/type_names.rs";
const WHY: &str = "a reader cannot tell which one is meant";

/// Directories whose types are visible only to tests.
const TESTS: &[&str] = &["tests", "model_tests", "examples"];

/// Generated from protobuf files, which choose the names.
const GENERATED: &str = "crates/server/src/grpc/proto/";

/// Where a type is declared.
#[derive(Debug)]
struct Declared<'s> {
    path: &'s str,
    line: usize,
}

/// Finds visible types that share their name with another, and exceptions that are no longer needed.
pub fn check(sources: &[SourceFile], shared: &[&str]) -> Vec<TidyProblem> {
    let mut names: BTreeMap<String, Vec<Declared<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_checked(source)) {
        each_level(&source.tokens, &mut |level| {
            for (name, line) in visible_types(level) {
                names.entry(name).or_default().push(Declared { path: &source.path, line });
            }
        });
    }
    let mut problems = Vec::new();
    for (name, found) in
        names.iter().filter(|(name, found)| found.len() > 1 && !shared.contains(&name.as_str()))
    {
        let first = &found[0];
        for other in &found[1..] {
            let what = format!("the type name `{name}` is also declared at {}:{}", first.path, first.line);
            let fix = "give one of them a more specific name";
            problems.push(TidyProblem::new(other.path, other.line, what, WHY, fix));
        }
    }
    for name in shared.iter().filter(|name| names.get(**name).is_none_or(|found| found.len() < 2)) {
        let what = format!("`{name}` is listed as a shared name, but exists only once");
        problems.push(TidyProblem::new(
            HOME,
            1,
            what,
            "the list of exceptions only shrinks",
            "remove it from `SHARED`",
        ));
    }
    problems
}

fn is_checked(source: &SourceFile) -> bool {
    source.path.contains("src/") && !source.path.starts_with(GENERATED) && !source.is_below(TESTS)
}

/// The types that a level declares with some form of `pub`, and their lines.
fn visible_types(level: &[TokenTree]) -> impl Iterator<Item = (String, usize)> {
    level.iter().enumerate().filter(|(_, token)| is_word(Some(token), "pub")).filter_map(|(at, _)| {
        let restricted = as_group(level.get(at + 1), Delimiter::Parenthesis).is_some();
        let mut keyword = at + 1 + usize::from(restricted);
        keyword += usize::from(is_word(level.get(keyword), "unsafe"));
        let declares = ["struct", "enum", "union", "trait", "type"];
        if !declares.iter().any(|word| is_word(level.get(keyword), word)) {
            return None;
        }
        let name = level.get(keyword + 1)?;
        Some((name.to_string(), line(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[test]
    fn a_visible_name_exists_once() {
        let sources = [
            source(
                "crates/a/src/lib.rs",
                "pub struct Line;\nstruct Own;\nmod b { pub(super) type Other = u8; }",
            ),
            source("crates/b/src/x/mod.rs", "fn f() {}\npub(crate) enum Line { A }\nstruct Own;"),
            source("bench/src/main.rs", "pub(in crate::y) trait Other {}"),
        ];
        let problems = check(&sources, &[]);
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with(
            "crates/b/src/x/mod.rs:2: the type name `Line` is also declared at crates/a/src/lib.rs:1"
        ));
        assert!(texts[1].starts_with("bench/src/main.rs:1: the type name `Other`"));
    }

    #[test]
    fn what_only_tests_or_other_protocols_name_is_left_alone() {
        let sources = [
            source("crates/a/src/lib.rs", "pub struct Line;"),
            source("crates/a/src/tests/world.rs", "pub(super) struct Line;"),
            source("crates/a/tests/all/main.rs", "pub struct Line;"),
            source("crates/server/src/grpc/proto/x.rs", "pub struct Line;"),
        ];
        assert!(check(&sources, &[]).is_empty());
    }

    #[test]
    fn the_list_of_exceptions_only_shrinks() {
        let twice = [source("a/src/a.rs", "pub struct A;"), source("b/src/b.rs", "pub struct A;")];
        assert!(check(&twice, &["A"]).is_empty());
        let once = &twice[..1];
        assert_eq!(check(once, &["A"]).len(), 1);
        assert_eq!(check(once, &["B"]).len(), 1);
    }
}
