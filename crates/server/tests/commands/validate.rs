//! `tidegate validate`

use super::{document, snapshot, tidegate, tidegate_given, tidegate_in_colour};

#[test]
fn every_mistake_is_told_at_once() {
    let ran = tidegate(&["validate", &document("mistakes.yaml")]);
    assert_eq!(ran.code, 2);
    snapshot("validate-mistakes.txt", &ran.out);
    let wrong = std::fs::read_to_string(super::root().join(document("mistakes.yaml"))).expect("it is there");
    for (place, line) in wrong.lines().enumerate().filter(|(_, line)| line.contains("# wrong")) {
        let told = ran.out.contains(&format!("mistakes.yaml:{}:", place + 1));
        assert!(told, "no problem is reported for line {}: {line}", place + 1);
    }
}

#[test]
fn machines_get_the_same() {
    let ran = tidegate(&["validate", "--format", "json", &document("mistakes.yaml")]);
    assert_eq!(ran.code, 2);
    snapshot("validate-mistakes.json", &ran.out);
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(told["valid"], false);
    for problem in told["files"][0]["problems"].as_array().expect("there are problems") {
        let said = |member: &str| problem[member].as_str().is_some_and(|text| !text.is_empty());
        assert!(said("message") && said("file"), "{problem}");
        assert!(said("want") || said("hint"), "neither `want` nor `hint`: {problem}");
        assert!(problem["line"].as_u64().is_some_and(|line| line > 0), "{problem}");
    }
}

#[test]
fn warnings_are_told_and_let_pass() {
    let ran = tidegate(&["validate", &document("warnings.yaml")]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    snapshot("validate-warnings.txt", &ran.out);
}

#[test]
fn tenants_that_make_no_tree_are_refused() {
    let ran = tidegate(&["validate", &document("tenants.yaml")]);
    assert_eq!(ran.code, 2);
    snapshot("validate-tenants.txt", &ran.out);
}

#[test]
fn what_is_no_document_is_told_with_its_place() {
    let ran = tidegate(&["validate", &document("syntax.yaml")]);
    assert_eq!(ran.code, 2);
    snapshot("validate-syntax.txt", &ran.out);
}

#[test]
fn a_settings_file_is_recognised() {
    let ran = tidegate(&["validate", &document("settings.yaml")]);
    assert_eq!(ran.code, 2);
    assert!(!ran.out.contains("swordfish"), "a secret is not shown: {}", ran.out);
    snapshot("validate-settings.txt", &ran.out);
    let good = "listen: { http: 127.0.0.1:8080 }\npolicy: { file: policy.yaml }\n";
    let ran = tidegate_given(&["validate", "-"], good);
    assert_eq!((ran.code, &*ran.out), (0, "standard input: valid, no problems, settings of a server\n"));
    let ran = tidegate_given(&["validate", "--format", "json", "-"], good);
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!((&told["valid"], &told["files"][0]["kind"]), (&true.into(), &"settings".into()));
    // What is neither is still told what a policy lacks.
    let ran = tidegate_given(&["validate", "-"], "limts: []\n");
    assert!(ran.code == 2 && ran.out.contains("did you mean `limits`?"), "{}", ran.out);
}

#[test]
fn several_files_and_standard_input() {
    let ran =
        tidegate_given(&["validate", "-", "examples/quick-start/policy.yaml"], "version: 1\nlimits: []\n");
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.starts_with("standard input: valid, no problems"), "{}", ran.out);
    assert!(ran.out.contains("examples/quick-start/policy.yaml: valid"), "{}", ran.out);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let ran = tidegate(&["validate", "no-such-file.yaml", "examples/quick-start/policy.yaml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("cannot read no-such-file.yaml"), "{}", ran.out);
    assert!(ran.out.contains("quick-start/policy.yaml: valid"), "the others are checked: {}", ran.out);
}

#[test]
fn colours_are_for_terminals() {
    let args = ["validate", &document("warnings.yaml")];
    assert!(tidegate_in_colour(&args).contains("\x1b["));
    assert!(!tidegate(&args).out.contains("\x1b["));
}
