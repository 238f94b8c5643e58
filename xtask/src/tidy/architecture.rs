//! ARCHITECTURE.md stays true: the paths it names exist, and each invariant names a test that exists.

use std::collections::BTreeSet;

use super::TidyProblem;
use super::files::TextFile;

const PAGE: &str = "ARCHITECTURE.md";

/// The section whose entries name their tests.
const INVARIANTS: &str = "## Invariants";

const WHY: &str = "an invariant without a test does not hold for long";

/// The beginnings of paths from the root of the repository.
const ROOTS: &[&str] = &[
    "bench/",
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "proptest-regressions/",
    "sim/",
    "tests/",
    "xtask/",
];

/// Finds paths that lead nowhere, invariants without a test, and tests that do not exist.
pub fn check(files: &[TextFile]) -> Vec<TidyProblem> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut problems = paths(page, files);
    let (tests, entries) = (tests(files), invariants(&page.text));
    if entries.is_empty() {
        let what = format!("no list of invariants below `{INVARIANTS}`");
        problems.push(TidyProblem::new(PAGE, 1, what, WHY, "list what must stay true, each with its test"));
    }
    problems.extend(entries.iter().flat_map(|entry| entry.problems(&tests)));
    problems
}

fn paths(page: &TextFile, files: &[TextFile]) -> Vec<TidyProblem> {
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    };
    let numbered = page.text.lines().enumerate();
    let quoted = numbered.flat_map(|(index, line)| quoted(line).map(move |path| (index + 1, path)));
    let is_path =
        |path: &str| ROOTS.iter().any(|root| path.starts_with(root)) && !path.contains(['*', '{', ' ']);
    quoted
        .filter(|(_, path)| {
            is_path(path) && path.strip_suffix('/').unwrap_or(path).contains('/') && !exists(path)
        })
        .map(|(line, path)| {
            let what = format!("`{path}` does not exist");
            TidyProblem::new(PAGE, line, what, "a map must show what is there", "name the path as it is now")
        })
        .collect()
}

/// The words of a line in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Suites whose checks are called by one test of every store, or of every database.
const SUITES: &[&str] = &["crates/limiter/src/testing/", "crates/database/tests/all/"];

/// The names of all tests.
fn tests(files: &[TextFile]) -> BTreeSet<&str> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut names = BTreeSet::new();
    for file in sources {
        let is_suite = SUITES.iter().any(|suite| file.path.starts_with(suite));
        let mut is_test = false;
        for line in file.text.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some(name) = function(line) else { continue };
            if std::mem::take(&mut is_test) || is_suite {
                names.insert(name);
            }
        }
    }
    names
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let after = ["fn ", "async fn ", "pub(super) fn "].iter().find_map(|start| line.strip_prefix(start))?;
    after.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// An entry of the list of invariants: its first line, and all of its text.
struct Invariant {
    line: usize,
    text: String,
}

fn invariants(page: &str) -> Vec<Invariant> {
    let mut entries: Vec<Invariant> = Vec::new();
    let numbered = page.lines().enumerate().skip_while(|(_, line)| *line != INVARIANTS).skip(1);
    for (index, line) in numbered.take_while(|(_, line)| !line.starts_with("## ")) {
        match entries.last_mut() {
            _ if line.starts_with("- ") => entries.push(Invariant { line: index + 1, text: line.to_owned() }),
            Some(entry) => entry.text.extend([" ", line.trim()]),
            None => {}
        }
    }
    entries
}

impl Invariant {
    fn problems(&self, tests: &BTreeSet<&str>) -> Vec<TidyProblem> {
        let problem = |what: String, fix| TidyProblem::new(PAGE, self.line, what, WHY, fix);
        let named = self.text.split_once("Test: ").or_else(|| self.text.split_once("Tests: "));
        let named: Vec<&str> = named.map(|(_, named)| quoted(named).collect()).unwrap_or_default();
        if named.is_empty() {
            return vec![problem(
                "an invariant that names no test".to_owned(),
                "end it with ``Test: `name`.``",
            )];
        }
        let missing = named.into_iter().filter(|name| !tests.contains(name));
        missing
            .map(|name| problem(format!("there is no test `{name}`"), "name the test that holds it now"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "#[test]\nfn it_holds() {}\n    #[tokio::test]\n    async fn it_waits() {}\nfn helper() {}\n";

    fn problems(page: &str) -> Vec<String> {
        let files = [TextFile::new(PAGE, page), TextFile::new("crates/a/src/lib.rs", SOURCE)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_must_exist() {
        let page = |line: &str| format!("x\n{line}\n## Invariants\n- **It**. Test: `it_holds`.\n");
        let right = page("`crates/a/`, `crates/a/src/lib.rs`, `crates/`, `src/b.rs`, `crates/{a,b}/`");
        assert_eq!(problems(&right), [""; 0]);
        let found = problems(&page("see `crates/b/src/`"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("ARCHITECTURE.md:2: `crates/b/src/` does not exist"));
    }

    #[test]
    fn an_invariant_names_a_test_that_exists() {
        let page = |entry: &str| {
            format!("- no invariant\n## Invariants\n\n- **It**\n  {entry}\n\n## Next\n- other\n")
        };
        assert!(problems(&page("holds. Test: `it_holds`.")).is_empty());
        assert!(problems(&page("holds. Tests: `it_holds`,\n  `it_waits`, as said.")).is_empty());
        let missing = problems(&page("holds."));
        assert!(
            missing.len() == 1 && missing[0].contains(":4: an invariant that names no test"),
            "{missing:?}"
        );
        let gone = problems(&page("holds. Tests: `it_holds`, `it_is_gone`."));
        assert!(gone.len() == 1 && gone[0].contains("there is no test `it_is_gone`"), "{gone:?}");
        assert_eq!(problems(&page("holds. Test: `helper`.")).len(), 1, "a function that is no test");
        assert_eq!(problems("no list").len(), 1);
    }
}
