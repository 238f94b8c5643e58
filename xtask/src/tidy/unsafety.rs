//! `unsafe` is allowed only in the listed files.

use proc_macro2::TokenTree;

use super::TidyProblem;
use super::source::{SourceFile, each_level, is_word, line};

/// The files that may use `unsafe`.
const ALLOWED: &[&str] = &["crates/limiter/src/memory/table.rs"];

/// Finds `unsafe`, in any form, in other files.
pub fn check(source: &SourceFile) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    if ALLOWED.contains(&source.path.as_str()) {
        return problems;
    }
    each_level(&source.tokens, &mut |level: &[TokenTree]| {
        for token in level.iter().filter(|token| is_word(Some(token), "unsafe")) {
            problems.push(TidyProblem::new(
                &source.path,
                line(token),
                "`unsafe`",
                "unsafe code needs a careful review, so it stays in one file",
                format!("write it without `unsafe`, or move it to {}", ALLOWED.join(" or ")),
            ));
        }
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn blocks_functions_impls_and_macros_are_found() {
        assert_eq!(count("crates/core/src/a.rs", "fn a() { unsafe { b() } }"), 1);
        assert_eq!(count("crates/core/src/a.rs", "unsafe fn a() {}"), 1);
        assert_eq!(count("crates/core/src/a.rs", "unsafe impl Send for A {}"), 1);
        assert_eq!(count("bench/src/a.rs", "assert!(unsafe { a() })"), 1);
    }

    #[test]
    fn talk_of_it_is_fine_and_so_is_the_fenced_file() {
        let talk = "#![forbid(unsafe_code)]\n//! no unsafe here\nconst A: &str = \"unsafe\";";
        assert_eq!(count("crates/core/src/a.rs", talk), 0);
        assert_eq!(count(ALLOWED[0], "fn a() { unsafe { b() } }"), 0);
    }
}
