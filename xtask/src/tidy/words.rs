//! Nothing half done is left lying about: what is unfinished belongs in the tracker.

use super::TidyProblem;
use super::files::TextFile;

/// Words that mark something unfinished. In two halves, so that this file does not hold them.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Code that stands in for something else, or switches a test off.
const STAND_INS: &[&str] =
    &[concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("db", "g!"), concat!("#[ig", "nore")];

const NOT_OURS: &[&str] = &["Cargo.lock", "package-lock.json", "LICENSE"];

/// Finds markers and stand-ins, in code, comments and prose alike.
pub fn check(file: &TextFile) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    if NOT_OURS.contains(&file.name()) {
        return problems;
    }
    for (index, text) in file.text.lines().enumerate() {
        for word in MARKERS.iter().chain(STAND_INS).filter(|word| holds(text, word)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("`{word}`"),
                "what is left for later is forgotten",
                "do it now, or take it out and open an issue",
            ));
        }
    }
    problems
}

/// True if `text` holds `word` as a word of its own.
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
        for word in STAND_INS {
            assert_eq!(count("a.rs", word), 1, "{word}");
        }
        assert_eq!(count("a.rs", &format!("{}(b)", STAND_INS[2])), 1);
        assert_eq!(count("a.rs", &format!("    {} = \"slow\"]", STAND_INS[3])), 1);
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
        assert_eq!(count("a.rs", &format!("my_{}(a)", STAND_INS[2])), 0);
        assert_eq!(count("a.rs", &format!("{}_case]", STAND_INS[3])), 0);
    }

    #[test]
    fn what_others_wrote_is_left_alone() {
        assert_eq!(count("Cargo.lock", MARKERS[0]), 0);
        assert_eq!(count("console/package-lock.json", MARKERS[0]), 0);
    }
}
