//! The documents of these tests: configurations of every format, each with the policy and the notes that it becomes.
//!
//! `TIDEGATE_BLESS=1` rewrites what is kept. Read the difference before you commit it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_import::{ImportFormat, import};
use tidegate_policy::Policy;

/// A document and what is kept of it.
pub(crate) struct Fixture {
    pub(crate) format: ImportFormat,
    pub(crate) file: PathBuf,
    pub(crate) text: String,
}

impl Fixture {
    /// Its file name, as messages have it.
    pub(crate) fn name(&self) -> &str {
        self.file.file_name().and_then(|name| name.to_str()).expect("documents have plain names")
    }

    /// The file beside it with this ending.
    fn kept(&self, ending: &str) -> PathBuf {
        self.file.with_extension(ending)
    }
}

/// Every document: `tests/documents/<format>/<name>.<json, yaml or csv>`.
pub(crate) fn all() -> Vec<Fixture> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let mut found = Vec::new();
    for &(name, format, _) in ImportFormat::NAMES {
        let known = found.len();
        let entries = fs::read_dir(directory.join(name)).expect("every format has documents");
        for entry in entries {
            let file = entry.expect("it can be listed").path();
            let is_kept = file.to_string_lossy().ends_with(".policy.yaml")
                || file.extension().is_some_and(|end| end == "notes");
            if !is_kept {
                let text = fs::read_to_string(&file).expect("it is a text");
                found.push(Fixture { format, file, text });
            }
        }
        assert!(found.len() > known, "`{name}` has no documents");
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

fn compare(file: &Path, found: &str) {
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        fs::write(file, found).expect("the file can be written");
        return;
    }
    let kept = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(kept, found, "{} differs; TIDEGATE_BLESS=1 rewrites it", file.display());
}

#[test]
fn documents_become_what_was_kept() {
    for fixture in all() {
        let imported = import(fixture.format, fixture.name(), &fixture.text)
            .unwrap_or_else(|problems| panic!("{}: {problems:?}", fixture.name()));
        let mut notes = String::new();
        for note in &imported.notes {
            writeln!(notes, "{note}").expect("a text takes any text");
        }
        compare(&fixture.kept("policy.yaml"), &imported.policy);
        compare(&fixture.kept("notes"), &notes);
        Policy::parse(&imported.policy).unwrap_or_else(|problems| panic!("{}: {problems}", fixture.name()));
    }
}
