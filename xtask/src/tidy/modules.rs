//! A module with children is `name/mod.rs`, so that its folder has all of its files.

use std::collections::BTreeSet;

use super::TidyProblem;
use super::source::SourceFile;

/// Finds files `name.rs` beside a folder `name/`.
pub fn check(sources: &[SourceFile]) -> Vec<TidyProblem> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| source.path.rsplit_once('/').map(|(folder, _)| folder)).collect();
    let beside =
        |source: &&SourceFile| source.path.strip_suffix(".rs").is_some_and(|stem| folders.contains(stem));
    let problem = |source: &SourceFile| {
        let folder = source.path.strip_suffix(".rs").unwrap_or_default();
        TidyProblem::new(
            &source.path,
            1,
            format!("a module beside its folder `{folder}/`"),
            "all files of a module belong in one folder",
            format!("move it to `{folder}/mod.rs`"),
        )
    };
    sources.iter().filter(beside).map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[test]
    fn a_module_with_children_is_in_its_folder() {
        let sources = [
            source("a/src/x.rs", ""),
            source("a/src/x/tests.rs", ""),
            source("a/src/y/mod.rs", ""),
            source("a/src/y/z.rs", ""),
        ];
        let problems = check(&sources);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with("a/src/x.rs:1: "));
    }
}
