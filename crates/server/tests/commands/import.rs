//! Each imported example matches what `import` produces from its source today.

use std::fmt::Write as _;
use std::fs;

use proptest::prelude::*;
use tidegate_policy::{Policy, node};
use tidegate_server::import::{ImportFormat, Imported, import};

use super::{compare, examples};

/// The examples that have a source file, and the format of that file.
const SOURCES: &[(&str, &str, ImportFormat)] = &[
    ("tenant-hierarchy", "source.json", ImportFormat::Oagw),
    ("shared-pool", "source.json", ImportFormat::Oagw),
    ("route-costs", "source.json", ImportFormat::Oagw),
    ("api-key-tiers", "source.json", ImportFormat::Fairvisor),
    ("per-address", "source.json", ImportFormat::Fairvisor),
    ("variable-cost", "source.json", ImportFormat::Fairvisor),
    ("envoy-descriptors", "source.yaml", ImportFormat::Envoy),
    ("limitador-limits", "source.yaml", ImportFormat::Limitador),
    ("rule-table", "source.csv", ImportFormat::Rules),
    ("endpoint-limits", "source.json", ImportFormat::Spec),
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

proptest! {
    #[test]
    fn no_document_makes_it_panic(text in "[ -~\n\t]{0,200}", choice in 0..ImportFormat::NAMES.len()) {
        let (_, format, _) = ImportFormat::NAMES[choice];
        if let Ok(imported) = import(format, "document", &text) {
            prop_assert!(node::parse(&imported.policy).is_ok(), "{}", imported.policy);
        }
    }

    /// Names, keys and values of any kind are written as YAML that can be parsed again.
    #[test]
    fn texts_come_through(name in "\\PC{0,40}", value in "\\PC{0,40}", seconds in 0_u64..100_000) {
        let limit = serde_json::json!([{
            "namespace": value, "name": name, "max_value": 7, "seconds": seconds,
            "conditions": [format!("descriptors[0].a == '{value}'")],
            "variables": ["descriptors[0].b"],
        }]);
        if let Ok(imported) = import(ImportFormat::Limitador, "limits.json", &limit.to_string()) {
            let policy = node::parse(&imported.policy);
            prop_assert!(policy.is_ok(), "{}", imported.policy);
            let policy = policy.unwrap();
            let limit = &policy.get("limits").unwrap().items()[0];
            let domain = limit.get("match").and_then(|conditions| conditions.get("domain"));
            prop_assert_eq!(domain.and_then(|domain| domain.scalar()), Some(value.as_str()));
        }
    }
}
