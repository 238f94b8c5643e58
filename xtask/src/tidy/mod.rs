//! The rules that the compiler does not check. Every check reports all problems, not just the first.

use std::io;
use std::path::Path;

pub mod architecture;
pub mod clock;
pub mod edges;
pub mod environment;
pub mod exceptions;
pub mod files;
pub mod markers;
pub mod modules;
pub mod problem;
pub mod sizes;
pub mod source;
pub mod type_names;
pub mod unsafety;
pub mod unwrap;
pub mod vocabulary;

pub use problem::TidyProblem;

use files::TextFile;
use source::SourceFile;

/// Why the checks could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum TidyError {
    /// `git` is missing, or the directory is not a checkout.
    #[error("could not list the files with `git ls-files`: {0}; run it in a git checkout")]
    List(String),
    /// A listed file could not be read.
    #[error("could not read {path}: {source}")]
    Read {
        /// The file, relative to the root.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// `cargo metadata` failed.
    #[error("could not read the workspace: {0}")]
    Metadata(#[from] cargo_metadata::Error),
}

/// Runs every check on the workspace at `root`; problems come in order of file and line.
pub fn run(root: &Path) -> Result<Vec<TidyProblem>, TidyError> {
    let mut problems = edges::check(&edges::packages(root)?);
    problems.extend(check_files(&files::tracked(root)?));
    problems.sort();
    problems.dedup();
    Ok(problems)
}

fn check_files(texts: &[TextFile]) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for text in texts {
        problems.extend(markers::check(text));
        problems.extend(environment::check(text));
    }
    let mut sources = Vec::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".rs")) {
        match SourceFile::parse(text) {
            Ok(source) => sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    for source in &sources {
        problems.extend(clock::check(source));
        problems.extend(unsafety::check(source));
        problems.extend(vocabulary::check(source, vocabulary::EXCEPTIONS));
    }
    problems.extend(architecture::check(texts));
    problems.extend(unwrap::check(&sources));
    problems.extend(modules::check(&sources));
    problems.extend(type_names::check(&sources, type_names::SHARED));
    problems.extend(sizes::check(&sources, exceptions::EXCEPTIONS));
    problems
}
