//! The reference pages match the code.

use super::{compare, root, tidegate};

#[test]
fn the_pages_are_current() {
    for page in tidegate_server::reference::pages() {
        compare(&root().join("docs/reference").join(page.name), &page.text);
    }
}

#[test]
fn no_page_is_left_over() {
    let pages: Vec<&str> = tidegate_server::reference::pages().iter().map(|page| page.name).collect();
    for entry in std::fs::read_dir(root().join("docs/reference")).expect("there are pages") {
        let name = entry.expect("it can be listed").file_name();
        assert!(pages.iter().any(|page| name == **page), "{name:?} is not written by anything");
    }
}

#[test]
fn the_schema_is_printed() {
    let ran = tidegate(&["schema"]);
    assert_eq!(ran.code, 0);
    let schema: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn help_version_and_completions() {
    for args in [&["--help"][..], &["--version"], &["completions", "bash"], &["completions", "zsh"]] {
        let ran = tidegate(args);
        assert_eq!(ran.code, 0, "{args:?}");
        assert!(ran.out.contains("tidegate"), "{args:?}: {}", ran.out);
    }
    for command in ["validate", "explain", "simulate", "import", "schema", "completions"] {
        let ran = tidegate(&[command, "--help"]);
        assert_eq!(ran.code, 0, "{command}");
        assert!(ran.out.contains("Usage: tidegate"), "{command}: {}", ran.out);
    }
    for args in [&["frobnicate"][..], &["simulate"], &["import", "--from", "nothing", "x"]] {
        assert_eq!(tidegate(args).code, 2, "{args:?}");
    }
}
