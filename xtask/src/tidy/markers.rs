//! No markers of unfinished work and no disabled tests: unfinished work belongs in the issue tracker.

use super::TidyProblem;
use super::files::TextFile;

/// Words that mark unfinished work. Each is written in two halves, so that this file does not contain them.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Placeholder code, and the attribute that disables a test.
const PLACEHOLDERS: &[&str] =
    &[concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("db", "g!"), concat!("#[ig", "nore")];

/// Files written by tools or by others.
const SKIPPED: &[&str] = &["Cargo.lock", "package-lock.json", "LICENSE"];

/// Finds markers and placeholders, in code, comments and prose.
pub fn check(file: &TextFile) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    if SKIPPED.contains(&file.name()) {
        return problems;
    }
    for (index, text) in file.text.lines().enumerate() {
        for word in MARKERS.iter().chain(PLACEHOLDERS).filter(|word| holds(text, word)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("`{word}`"),
                "work left for later is forgotten",
                "finish it, or remove it and open an issue",
            ));
        }
    }
    problems
}

/// True if `text` contains `word` as a whole word.
fn holds(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let starts = !word.starts_with(joins) || !before.is_some_and(joins);
        let ends = word.ends_with('!') || !after.is_some_and(joins);
        starts && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&TextFile::new(path, text)).len()
    }

    #[test]
    fn every_marker_is_found_in_every_kind_of_file() {
        for word in MARKERS {
            assert_eq!(count("a.rs", &format!("// {word}: later")), 1, "{word}");
            assert_eq!(count("docs/a.md", &format!("({word})")), 1, "{word}");
            assert_eq!(count("test", &format!("a # {word}")), 1, "{word}");
        }
        for word in PLACEHOLDERS {
            assert_eq!(count("a.rs", word), 1, "{word}");
        }
        assert_eq!(count("a.rs", &format!("{}(b)", PLACEHOLDERS[2])), 1);
        assert_eq!(count("a.rs", &format!("    {} = \"slow\"]", PLACEHOLDERS[3])), 1);
    }

    #[test]
    fn the_line_is_named() {
        let file = TextFile::new("a.md", &format!("fine\n{}\n", MARKERS[0]));
        assert!(check(&file)[0].to_string().starts_with("a.md:2: "));
    }

    #[test]
    fn parts_of_words_are_fine() {
        for word in MARKERS {
            let text = format!("A{word} {word}S _{word}_ {}", word.to_lowercase());
            assert_eq!(count("a.rs", &text), 0, "{text}");
        }
        assert_eq!(count("a.rs", &format!("my_{}(a)", PLACEHOLDERS[2])), 0);
        assert_eq!(count("a.rs", &format!("{}_case]", PLACEHOLDERS[3])), 0);
    }

    #[test]
    fn what_others_wrote_is_left_alone() {
        assert_eq!(count("Cargo.lock", MARKERS[0]), 0);
        assert_eq!(count("console/package-lock.json", MARKERS[0]), 0);
    }
}
