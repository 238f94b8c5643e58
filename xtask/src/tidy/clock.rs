//! Time is an argument: library code neither reads the clock nor sleeps.
//!
//! Clippy forbids the same calls by their resolved name, so it sees through renames; this check also
//! covers code that the current build leaves out, and has the list of files that may.

use proc_macro2::{Delimiter, TokenTree};

use super::TidyProblem;
use super::source::{SourceFile, as_group, is_mark, line};

const GUARDED: &str = "crates/";

/// The only code that reads the clock.
const CLOCK: &[&str] = &["crates/limiter/src/clock.rs", "crates/limiter/src/clock/"];

const FORBIDDEN_ENDS: &[&[&str]] = &[
    &["Instant", "now"],
    &["SystemTime", "now"],
    &["thread", "sleep"],
    &["time", "sleep"],
    &["time", "sleep_until"],
];

const FORBIDDEN_CRATES: &[&str] = &["quanta"];

/// Code with timeouts for connections, and its tests. These may use the timers of tokio: a timeout is
/// not a rate limit decision, and tests can pause these timers.
const TIMEOUTS: &[&str] = &[
    "crates/database/src/changes.rs",
    "crates/database/src/open/",
    "crates/redis/src/client/",
    "crates/redis/tests/",
    "crates/server/",
    "crates/tower/tests/",
];

/// Finds reads of the clock, and real waiting.
pub fn check(source: &SourceFile) -> Vec<TidyProblem> {
    let path = &source.path;
    if !path.starts_with(GUARDED) || CLOCK.iter().any(|clock| path.starts_with(clock)) {
        return Vec::new();
    }
    let may_wait = TIMEOUTS.iter().any(|prefix| path.starts_with(prefix));
    let level: Vec<TokenTree> = source.tokens.clone().into_iter().collect();
    let mut paths = Vec::new();
    collect(&level, &[], &mut paths);
    let mut problems: Vec<TidyProblem> = paths
        .iter()
        .filter(|(segments, _)| is_forbidden(segments))
        .filter(|(segments, _)| !(may_wait && is_timer(segments)))
        .map(|(segments, line)| {
            TidyProblem::new(
                path,
                *line,
                format!("`{}`", segments.join("::")),
                "behaviour must depend on the time that is passed in, so that tests can control it",
                "take `now` as an argument, or use the `Clock` of the limiter",
            )
        })
        .collect();
    problems.dedup();
    problems
}

fn is_forbidden(segments: &[String]) -> bool {
    let ends_in =
        |end: &&[&str]| segments.len() >= end.len() && segments[segments.len() - end.len()..] == **end;
    let is_crate = segments.len() > 1 && FORBIDDEN_CRATES.contains(&segments[0].as_str());
    is_crate || FORBIDDEN_ENDS.iter().any(ends_in)
}

/// True for a timer of tokio, by its full path.
fn is_timer(segments: &[String]) -> bool {
    segments.len() > 2 && segments[0] == "tokio" && segments[1] == "time"
}

/// Collects every path `a::b::c` with its line; `use a::{b, c::d}` counts as `a::b` and `a::c::d`.
fn collect(level: &[TokenTree], prefix: &[String], paths: &mut Vec<(Vec<String>, usize)>) {
    let mut at = 0;
    while let Some(token) = level.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                collect(&inner, &[], paths);
            }
            TokenTree::Ident(first) => {
                let mut segments = prefix.to_vec();
                segments.push(first.to_string());
                while is_mark(level.get(at), ':') && is_mark(level.get(at + 1), ':') {
                    let Some(TokenTree::Ident(next)) = level.get(at + 2) else {
                        break;
                    };
                    segments.push(next.to_string());
                    at += 3;
                }
                let tree = as_group(level.get(at + 2), Delimiter::Brace);
                match tree.filter(|_| is_mark(level.get(at), ':') && is_mark(level.get(at + 1), ':')) {
                    Some(tree) => {
                        let inner: Vec<TokenTree> = tree.stream().into_iter().collect();
                        collect(&inner, &segments, paths);
                        at += 3;
                    }
                    None => paths.push((segments, line(token))),
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let problems = check(&source("crates/core/src/a.rs", text));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reading_the_clock_is_found_with_its_line() {
        let found = found("use std::time::Instant;\nfn a() {\n    let t = Instant::now();\n}\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/core/src/a.rs:3: `Instant::now`"), "{found:?}");
    }

    #[test]
    fn every_way_in_is_found() {
        for text in [
            "fn a() { std::time::SystemTime::now(); }",
            "fn a() { b.get_or_insert_with(Instant::now) }",
            "fn a() { assert!(c < Instant::now()); }",
            "fn a() { std::thread::sleep(b) }",
            "use std::thread::sleep;",
            "use std::{fmt, thread::{sleep, spawn}};",
            "async fn a() { tokio::time::sleep(b).await }",
            "use quanta::Clock;",
            "use quanta::{Clock, Upkeep as Up};",
            "struct A(quanta::Instant);",
        ] {
            assert!(!found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_server_may_wait_for_clients() {
        let found = |text| check(&source("crates/server/src/a.rs", text)).len();
        assert_eq!(found("async fn a() { tokio::time::sleep(b).await; tokio::time::Instant::now(); }"), 0);
        assert_eq!(found("fn a() { std::thread::sleep(b); Instant::now(); }"), 2);
    }

    #[test]
    fn comments_strings_and_likenesses_are_fine() {
        let text = "//! Instant::now\n/// thread::sleep\nconst A: &str = \"Instant::now\";\n\
                    fn a(now: Instant, quanta: u64) { b.now(); Manual::now(); quanta + sleep }";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn the_clock_itself_and_the_benchmarks_may() {
        for path in ["crates/limiter/src/clock.rs", "crates/limiter/src/clock/tsc.rs", "bench/src/main.rs"] {
            assert_eq!(check(&source(path, "fn a() { Instant::now(); }")), [], "{path}");
        }
        assert!(!check(&source("crates/a/tests/b.rs", "fn a() { Instant::now(); }")).is_empty());
    }
}
