//! `tidegate simulate`

use std::fs;

use serde_json::{Value, json};

use super::{examples, snapshot, tidegate, tidegate_given};
use crate::support::home::Home;

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
fn a_decision_repeats_the_id_of_its_line() {
    let trace = "{\"at_ms\":1,\"id\":\"first\"}\n{\"at_ms\":2}\n{\"id\":7,\"at_ms\":3}\n";
    let ran = tidegate_given(&["simulate", "--quiet", "--policy", POLICY, "--trace", "-"], trace);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let begins = [
        r#"{"at_ms":1,"id":"first","allowed":"#,
        r#"{"at_ms":2,"allowed":"#,
        r#"{"at_ms":3,"id":7,"allowed":"#,
    ];
    for (line, begin) in ran.out.lines().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    assert_eq!(ran.out.lines().count(), 3);
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

/// Scores as a server with these settings has them, in the time of the trace: 100 days after 1970.
#[test]
fn with_settings_trust_is_computed_in_the_time_of_the_trace() {
    let home = Home::new();
    let limit = "{ name: a, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }";
    let policy =
        home.write("policy.yaml", &format!("version: 1\nadaptive: {{ trust: true }}\nlimits: [{limit}]\n"));
    home.write("trust.yaml", "users: [{ user: 42, created: 1970-01-28T00:00:00Z, email_verified: true }]\n");
    let settings = home.write(
        "settings.yaml",
        "trust: { file: trust.yaml, claims: { success_rate: ok }, score_life: 1s }\n\
         jwt: { key: k, algorithm: HS256, invalid: anonymous }\n",
    );
    let start: u64 = 100 * 86_400_000;
    let mut trace = vec![
        json!({"at_ms": start, "user": "42"}),
        json!({"at_ms": start, "user": "42", "jwt": {"ok": "0.5"}}),
        json!({"at_ms": start, "user": "42", "trust": 0.1}),
        json!({"at_ms": start, "user": "42", "cost": 40}),
        json!({"at_ms": start, "user": "43"}),
        json!({"at_ms": start, "user": "43", "credential": "invalid"}),
        json!({"at_ms": start, "user": "42", "cost": 14}),
        json!({"at_ms": start + 999, "user": "42"}),
        json!({"at_ms": start + 1_000, "user": "42"}),
        json!({"at_ms": start + 37 * 86_400_000, "user": "42"}),
    ];
    let run = |trace: &[Value], more: &[&str]| {
        let lines: String = trace.iter().map(|line| format!("{line}\n")).collect();
        let ran = tidegate_given(
            &[&["simulate", "--quiet", "--policy", &policy, "--trace", "-"], more].concat(),
            &lines,
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let sizes = |out: &str| -> Vec<u64> {
        let decision = |line| serde_json::from_str::<Value>(line).expect("a line is JSON");
        out.lines().map(|line| decision(line)["limit"].as_u64().expect("a limit")).collect()
    };
    let with = run(&trace, &["--config", &settings]);
    // 73 of 365 days and the address are 0.4; the claim adds 0.25; one violation takes 0.05; later the age is 0.3.
    assert_eq!(sizes(&with), [14, 16, 11, 14, 10, 10, 14, 14, 13, 15], "{with}");
    assert_eq!(run(&trace, &["--config", &settings]), with, "the same in, the same out");
    trace.retain(|line| line.get("credential").is_none());
    assert_eq!(sizes(&run(&trace, &[])), [10, 10, 11, 10, 10, 10, 10, 10, 10], "without settings");

    home.write("trust.yaml", "users:\n");
    let args = ["simulate", "--policy", &policy, "--trace", "-", "--config", &settings];
    let refused = tidegate_given(&args, "");
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("users: []"), "{}", refused.err);
}

/// Who is forgotten when there is no room for all users does not depend on chance.
#[test]
fn scores_of_more_users_than_there_is_room_for_are_the_same_in_every_run() {
    let home = Home::new();
    let limit = "{ name: a, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }";
    let policy =
        home.write("policy.yaml", &format!("version: 1\nadaptive: {{ trust: true }}\nlimits: [{limit}]\n"));
    let settings = home
        .write("settings.yaml", "trust: { claims: { success_rate: ok }, max_users: 1, score_life: 1s }\n");
    let trace: String = (0..600)
        .map(|number| {
            let (user, at) = (number % 150, 3_000 * (number / 150));
            format!("{{\"at_ms\":{at},\"user\":\"{user}\",\"cost\":14,\"jwt\":{{\"ok\":\"1\"}}}}\n")
        })
        .collect();
    let args = ["simulate", "--quiet", "--policy", &policy, "--trace", "-", "--config", &settings];
    let first = tidegate_given(&args, &trace).out;
    assert!(
        first.contains("\"limit\":14") && first.contains("\"limit\":15"),
        "some are forgotten, some are not"
    );
    assert_eq!(tidegate_given(&args, &trace).out, first);
}
