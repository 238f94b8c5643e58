//! `tidegate simulate`

use std::fs;

use super::{examples, snapshot, tidegate, tidegate_given};

const POLICY: &str = "examples/production/policy.yaml";

#[test]
fn the_same_in_the_same_out() {
    let trace = fs::read_to_string(examples().join("production/trace.jsonl")).expect("it is there");
    let args = ["simulate", "--policy", POLICY, "--trace", "-"];
    let first = tidegate_given(&args, &trace);
    assert_eq!(first.code, 0, "{}", first.err);
    let kept = fs::read_to_string(examples().join("production/decisions.jsonl")).expect("it is kept");
    assert_eq!(first.out, kept);
    assert_eq!(tidegate_given(&args, &trace).out, first.out);
    snapshot("simulate-summary.txt", &first.err);
}

#[test]
fn decisions_go_to_a_file() {
    let out = std::env::temp_dir().join(format!("tidegate-simulate-{}.jsonl", std::process::id()));
    let path = out.to_str().expect("the path is text");
    let trace = "examples/production/trace.jsonl";
    let ran = tidegate(&["simulate", "--quiet", "--policy", POLICY, "--trace", trace, "--out", path]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let kept = fs::read_to_string(examples().join("production/decisions.jsonl")).expect("it is kept");
    assert_eq!(fs::read_to_string(&out).expect("it was written"), kept);
    fs::remove_file(&out).expect("it can be removed");
}

#[test]
fn a_line_that_is_no_request_stops_the_run_by_number() {
    for (line, said) in [
        (r#"{"at_ms":5,"usr":"1"}"#, "unknown member `usr`"),
        (r#"{"user":"1"}"#, "`at_ms` is missing"),
        (r#"{"at_ms":-1}"#, "`at_ms`: -1 is not a number of milliseconds"),
        (r#"{"at_ms":1.2345}"#, "at most three decimals"),
        (r#"{"at_ms":0}"#, "`at_ms` goes back to 0"),
        (r#"{"at_ms":5,"headers":{"a":[["b"]]}}"#, "a value is text"),
        (r#"{"at_ms":18446744073709.6}"#, "a time before 2060"),
        (r#"{"at_ms":5"#, "EOF"),
        (r#"{"at_ms":5} x"#, "trailing"),
        ("", "the line is empty"),
        ("[]", "a request: a JSON object"),
    ] {
        let trace = format!("{{\"at_ms\":1}}\n{line}\n{{\"at_ms\":9}}\n");
        let ran = tidegate_given(&["simulate", "--quiet", "--policy", POLICY, "--trace", "-"], &trace);
        assert_eq!(ran.code, 2, "{line}");
        assert!(ran.err.contains("standard input, line 2"), "{line}: {}", ran.err);
        assert!(ran.err.contains(said), "{line}: {}", ran.err);
        assert_eq!(ran.out.lines().count(), 1, "what came before is decided");
    }
}

#[test]
fn more_keys_than_there_is_room_for_stop_the_run() {
    let policy = "examples/quick-start/policy.yaml";
    let trace: String = (0..2_000).map(|user| format!("{{\"at_ms\":1,\"user\":\"{user}\"}}\n")).collect();
    let args = ["simulate", "--quiet", "--policy", policy, "--trace", "-", "--max-keys", "100"];
    let ran = tidegate_given(&args, &trace);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("raise --max-keys"), "{}", ran.err);
}
