//! Each imported example matches what `import` produces from its source today.

use std::fmt::Write as _;
use std::fs;

use tidegate_import::{ImportFormat, Imported, import};
use tidegate_policy::Policy;
use tidegate_server::replay::run_text;

use super::{Ran, compare, examples, root, tidegate, tidegate_given};

/// The examples that have a source file, and the format of that file.
const SOURCES: &[(&str, &str, ImportFormat)] = &[
    ("tenant-hierarchy", "source.json", ImportFormat::Oagw),
    ("shared-pool", "source.json", ImportFormat::Oagw),
    ("upstream-budgets", "source.json", ImportFormat::Oagw),
    ("route-costs", "source.json", ImportFormat::Oagw),
    ("api-key-tiers", "source.json", ImportFormat::Fairvisor),
    ("per-address", "source.json", ImportFormat::Fairvisor),
    ("variable-cost", "source.json", ImportFormat::Fairvisor),
    ("envoy-descriptors", "source.yaml", ImportFormat::Envoy),
    ("limitador-limits", "source.yaml", ImportFormat::Limitador),
    ("rule-table", "source.csv", ImportFormat::Rules),
    ("endpoint-limits", "source.json", ImportFormat::Endpoints),
];

/// The notes as the command would print them.
fn notes_of(imported: &Imported) -> String {
    imported.notes.iter().fold(String::new(), |mut text, note| {
        writeln!(text, "{note}").unwrap();
        text
    })
}

#[test]
fn sources_become_what_was_kept() {
    for (example, source, format) in SOURCES {
        let directory = examples().join(example);
        let text = fs::read_to_string(directory.join(source)).unwrap();
        let imported =
            import(*format, source, &text).unwrap_or_else(|problems| panic!("{example}: {problems:?}"));
        compare(&directory.join("imported.yaml"), &imported.policy);
        compare(&directory.join("imported.notes"), &notes_of(&imported));
        Policy::parse(&imported.policy).unwrap_or_else(|problems| panic!("{example}: {problems}"));
    }
}

#[test]
fn the_policy_goes_to_standard_output_and_the_notes_to_standard_error() {
    let source = "examples/upstream-budgets/source.json";
    let Ran { code, out, err } = tidegate(&["import", "--from", "oagw", source]);
    let imported =
        import(ImportFormat::Oagw, source, &fs::read_to_string(root().join(source)).unwrap()).unwrap();
    assert_eq!((code, out), (0, imported.policy.clone()));
    let notes: Vec<String> = imported.notes.iter().map(|note| format!("note: {note}")).collect();
    assert_eq!(err.lines().collect::<Vec<_>>(), notes);

    let Ran { code, out, err } = tidegate_given(&["import", "--from", "oagw", "-"], "{ rate: 0 }");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("not a number above zero"), "{err}");
}

/// A partner's budget for one upstream, allotted among its tenants, comes through to the last decision; and so do trees
/// without upstreams.
#[test]
fn imported_trees_decide_like_the_written_ones() {
    for example in ["tenant-hierarchy", "shared-pool", "upstream-budgets"] {
        let read = |file: &str| fs::read_to_string(examples().join(example).join(file)).unwrap();
        let imported = import(ImportFormat::Oagw, "source.json", &read("source.json")).unwrap();
        let decisions = |policy: &str| run_text(policy, &read("trace.jsonl")).unwrap();
        assert_eq!(decisions(&imported.policy), decisions(&read("policy.yaml")), "{example}");
    }
}

#[test]
fn every_source_is_tested() {
    for entry in fs::read_dir(examples()).unwrap() {
        let directory = entry.unwrap().path();
        for end in ["json", "yaml", "csv"] {
            let source = format!("source.{end}");
            let name = directory.file_name().unwrap().to_str().unwrap();
            let known = SOURCES.iter().any(|(example, file, _)| *example == name && *file == source);
            assert_eq!(directory.join(&source).exists(), known, "{name}/{source}");
        }
    }
}
