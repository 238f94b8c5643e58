//! Identifiers and file names use the words of the field, not the dialect that earlier versions had.

use proc_macro2::TokenTree;

use super::TidyProblem;
use super::source::{SourceFile, each_level, line};

/// Words, or several words joined by `_`, that names must not contain, each with words to use instead.
const DISCOURAGED: &[(&str, &str)] = &[
    ("tend", "run_maintenance"),
    ("tended", "maintained"),
    ("chore", "task"),
    ("chores", "maintenance"),
    ("household", "maintenance"),
    ("manners", "options"),
    ("bring_up", "migrate"),
    ("brought_up", "migrated"),
    ("telling", "report or render"),
    ("trouble", "error or problem"),
    ("troubles", "errors or problems"),
];

/// Folders that still use such a word. Add none; remove an entry as soon as its folder does without the word.
pub const EXCEPTIONS: &[(&str, &str)] = &[];

/// Longer names are sentences, as test functions have.
const NAME_WORDS_MAX: usize = 4;

const WHY: &str = "a newcomer knows the words of the field only";

/// Finds names with discouraged words.
pub fn check(source: &SourceFile, exceptions: &[(&str, &str)]) -> Vec<TidyProblem> {
    let excepted = |word: &str| {
        exceptions.iter().any(|(folder, known)| word == *known && source.path.starts_with(folder))
    };
    let mut problems = Vec::new();
    for (name, line) in names(source) {
        for (word, instead) in DISCOURAGED.iter().filter(|(word, _)| has_word(&name, word) && !excepted(word))
        {
            let what = format!("the word `{word}` in `{name}`");
            let fix = format!("use {instead}, or another word that names the mechanism");
            problems.push(TidyProblem::new(&source.path, line, what, WHY, fix));
        }
    }
    problems
}

/// The identifiers of a file with their lines, and the components of its path.
fn names(source: &SourceFile) -> Vec<(String, usize)> {
    let path = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let mut names: Vec<(String, usize)> = path.split('/').map(|part| (part.to_owned(), 1)).collect();
    each_level(&source.tokens, &mut |level| {
        for token in level {
            if let TokenTree::Ident(name) = token {
                names.push((name.to_string(), line(token)));
            }
        }
    });
    names
}

/// True if `name`, in any case, contains the words of `word` one after the other, and is not a sentence.
fn has_word(name: &str, word: &str) -> bool {
    // Most names do not contain the letters at all.
    let start = word.split('_').next().unwrap_or(word);
    if !name.to_ascii_lowercase().contains(start) {
        return false;
    }
    let name = snake_case(name);
    name.split('_').count() <= NAME_WORDS_MAX && format!("_{name}_").contains(&format!("_{word}_"))
}

/// `HttpServer` and `HTTP_SERVER` as `http_server`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for c in name.trim_matches('_').chars() {
        if c.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    const PATH: &str = "crates/a/src/b.rs";

    fn found(path: &str, text: &str, exceptions: &[(&str, &str)]) -> Vec<String> {
        check(&source(path, text), exceptions).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn discouraged_words_are_found_in_every_kind_of_name() {
        for text in [
            "fn tend() {}",
            "fn run_tend(a: u8) {}",
            "struct TendLoop;",
            "const TEND_EVERY: u8 = 1;",
            "fn a() { let _tend = b; }",
            "macro_rules! m { () => { tend() } }",
            "struct A { bring_up: u8 }",
            "struct BringUp;",
        ] {
            assert!(!found(PATH, text, &[]).is_empty(), "{text}");
        }
        let found = found(PATH, "fn a() {\n    b.tend();\n}\n", &[]);
        assert!(found[0].starts_with("crates/a/src/b.rs:2: the word `tend` in `tend`"), "{found:?}");
    }

    #[test]
    fn file_names_count_too() {
        assert_eq!(found("crates/a/src/tend.rs", "", &[]).len(), 1);
        assert_eq!(found("crates/a/src/bring_up/mod.rs", "", &[]).len(), 1);
    }

    #[test]
    fn parts_of_words_texts_and_sentences_are_fine() {
        let text = "//! tend\n/// chore\nfn extend(attendant: u8, up_bring: u8) { \"tend\"; }\n\
                    #[test] fn what_is_tended_well_stays_well() {}";
        assert_eq!(found(PATH, text, &[]), Vec::<String>::new());
    }

    #[test]
    fn an_exception_is_for_one_word_in_one_folder() {
        assert_eq!(found(PATH, "fn tend() {}", &[("crates/a/", "tend")]), Vec::<String>::new());
        assert_eq!(found(PATH, "fn tend() {}", &[("crates/b/", "tend")]).len(), 1);
        assert_eq!(found(PATH, "fn tend() {}", &[("crates/a/", "chore")]).len(), 1);
    }
}
