//! `tidegate admin`: the admin API from a terminal and from scripts.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::access::client::ask;
use super::place::on_both;
use super::policy_client::PolicyServer;
use crate::support::server::{Ran, run, tidegate};

on_both!(every_kind_of_route_has_a_command, a_mistake_is_told_with_its_place_and_changes_nothing);

const POLICY: &str = "version: 1\nlimits:\n- { name: per-user, key: [user], missing: skip, sustained: { rate: 1, window: hour }, burst: { capacity: 5 } }\n";

/// Runs `tidegate admin` with the address and the token in a file, as people have them.
fn admin(server: &PolicyServer, args: &[&str]) -> Ran {
    let address = server.server.socket("admin");
    let file = server
        .place
        .home
        .write("admin.yaml", &format!("server: http://{address}\ntoken: {}\n", server.api.token()));
    run(tidegate(&[&["admin"], args, &["--connection", &file]].concat()))
}

fn every_kind_of_route_has_a_command(kind: DatabaseKind) {
    let server = PolicyServer::start(kind);
    let listed = admin(&server, &["limits", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    assert!(listed.out.starts_with("name "), "the name comes first: {}", listed.out);
    assert!(listed.out.lines().any(|line| line.starts_with("per-user ")), "{}", listed.out);
    let patched = admin(
        &server,
        &[
            "limits",
            "patch",
            "per-user",
            "{\"sustained\":{\"rate\":20}}",
            "--reason",
            "launch day",
            "--if-match",
            "1",
        ],
    );
    assert_eq!(
        (patched.code, patched.out.as_str()),
        (Some(0), "version: 2\nwarnings: []\n"),
        "{}",
        patched.err
    );
    let granted = r#"{"request":{"user":"42"},"limit":"per-user","tokens":1}"#;
    let granted = admin(&server, &["keys", "grant", granted, "--reason", "sorry"]);
    assert_eq!(granted.code, Some(0), "{}", granted.err);
    assert!(granted.out.contains("per-user"), "{}", granted.out);
    let found = admin(&server, &["keys", "lookup", r#"{"request":{"user":"42"}}"#, "--format", "json"]);
    let found: Value = serde_json::from_str(&found.out).expect("it is JSON");
    assert_eq!(found["limits"][0]["name"], "per-user", "{found}");
    let stale = admin(&server, &["limits", "delete", "per-user", "--if-match", "1"]);
    assert_eq!(stale.code, Some(1));
    assert!(stale.err.contains("412") && stale.err.contains("version 2"), "{}", stale.err);
    let versions = admin(&server, &["versions", "list", "--format", "json", "--all", "--limit", "1"]);
    let versions: Value = serde_json::from_str(&versions.out).expect("it is JSON");
    assert_eq!(
        (versions[0]["version"].as_u64(), versions[0]["reason"].as_str()),
        (Some(2), Some("launch day"))
    );
    assert_eq!(versions.as_array().map(Vec::len), Some(2), "all pages");
    let lines = admin(&server, &["versions", "list", "--format", "csv"]).out;
    assert_eq!(lines.lines().count(), 3, "a head and two rows: {lines}");
}

fn a_mistake_is_told_with_its_place_and_changes_nothing(kind: DatabaseKind) {
    let server = PolicyServer::start(kind);
    let before = server.api.policy();
    let wrong = admin(&server, &["limits", "patch", "per-user", "{\"sustained\":{\"rate\":0}}"]);
    assert_eq!(wrong.code, Some(2), "the document is invalid");
    assert!(wrong.err.contains("error: limits[0].sustained.rate: 0 is out of range"), "{}", wrong.err);
    let unknown = admin(&server, &["limits", "get", "nope"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("there is no limit `nope`"), "{}", unknown.err);
    assert_eq!(admin(&server, &["limits", "fly"]).code, Some(2));
    assert_eq!(server.api.policy(), before);
    let file = server.place.home.write("admin.yaml", "token: secret-of-somebody: x\n");
    let broken = run(tidegate(&["admin", "whoami", "--connection", &file]));
    assert_eq!(broken.code, Some(2));
    assert!(!broken.err.contains("secret-of-somebody"), "{}", broken.err);
}

#[test]
fn what_is_not_valid_is_told_before_the_command_fails() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    assert_eq!(admin(&server, &["audit", "verify"]).code, Some(0));
    server.place.tamper("UPDATE audit_entries SET actor = 'somebody else' WHERE seq = 1");
    let told = admin(&server, &["audit", "verify"]);
    assert_eq!(told.code, Some(1), "as `tidegate audit verify`: {}", told.err);
    assert!(told.out.contains("valid: false\n") && told.out.contains("  seq: 1\n"), "{}", told.out);
    assert!(told.err.contains("the audit entry 1 was changed"), "{}", told.err);
    let told = admin(&server, &["audit", "verify", "--format", "json"]);
    let report: Value = serde_json::from_str(&told.out).expect("it is JSON");
    assert_eq!((told.code, &report["broken"]["seq"]), (Some(1), &json!(1)));
    let wrong = server.place.home.write("bad.yaml", "version: 1\nlimit: []\n");
    let told = admin(&server, &["validate", &wrong, "--format", "json"]);
    let report: Value = serde_json::from_str(&told.out).expect("it is JSON");
    assert_eq!(
        (told.code, &report["valid"], &report["problems"][0]["line"]),
        (Some(2), &json!(false), &json!(2))
    );
    let told = admin(&server, &["validate", &wrong]);
    assert!(told.code == Some(2) && told.out.contains("valid: false\n"), "{}", told.out);
    assert!(told.err.contains("bad.yaml:2:1: error: "), "{}", told.err);
}

#[test]
fn a_command_that_is_repeated_with_its_key_is_done_once() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    let limit = r#"{"name":"other","key":[],"sustained":{"rate":1}}"#;
    let create = || admin(&server, &["limits", "create", limit, "--idempotency-key", "launch-1"]);
    let (first, again) = (create(), create());
    assert_eq!((first.code, again.code), (Some(0), Some(0)), "{}{}", first.err, again.err);
    assert_eq!(first.out, again.out);
    let blocked = r#"{"who":{"user":"42"},"until":"2099-01-01T00:00:00Z"}"#;
    let block = || admin(&server, &["keys", "block", blocked, "--idempotency-key", "block-1"]);
    assert_eq!(block().out, block().out);
    let refused = admin(&server, &["limits", "create", limit, "--idempotency-key", "with a space"]);
    assert!(refused.code == Some(1) && refused.err.contains("Idempotency-Key"), "{}", refused.err);
}

#[test]
fn a_simulation_prints_its_decisions_as_lines() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    let trace = "{\"at_ms\":0,\"user\":\"1\"}\n{\"at_ms\":1,\"user\":\"1\"}\n";
    let simulated =
        admin(&server, &["simulate", &json!({ "trace": trace }).to_string(), "--format", "lines"]);
    let home = &server.place.home;
    let (policy, trace) = (home.write("p.yaml", POLICY), home.write("t.jsonl", trace));
    let printed = run(tidegate(&["simulate", "--policy", &policy, "--trace", &trace, "--quiet"]));
    assert_eq!((simulated.code, simulated.out), (Some(0), printed.out), "{}", simulated.err);
}

#[test]
fn an_id_that_begins_with_a_hyphen_is_no_flag() {
    let server = PolicyServer::start(DatabaseKind::Sqlite);
    let draft = server.place.home.write("draft.yaml", POLICY);
    let created = admin(&server, &["candidates", "create", &draft, "--name", "old"]);
    assert_eq!(created.code, Some(0), "{}", created.err);
    // Older versions gave such ids. What is found of the first one refers to its id, so that stays as it is.
    server.place.tamper(
        "INSERT INTO candidates (id, text, warnings, created_at, ends_at, author) \
         SELECT '-CzhQ_nw8vHq', text, warnings, created_at, ends_at, author FROM candidates",
    );
    let found = admin(&server, &["candidates", "get", "-CzhQ_nw8vHq", "--format", "json"]);
    assert!(found.out.contains("\"-CzhQ_nw8vHq\""), "{}{}", found.out, found.err);
    let deleted = admin(&server, &["candidates", "delete", "--reason", "tried", "-CzhQ_nw8vHq"]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.err);
    let gone = admin(&server, &["candidates", "delete", "-CzhQ_nw8vHq"]);
    assert!(gone.err.contains("there is no candidate `-CzhQ_nw8vHq`"), "{}", gone.err);
    let help = admin(&server, &["candidates", "delete", "-h"]);
    assert!(help.code == Some(0) && help.out.contains("Usage:"), "{}", help.out);
}

#[test]
fn an_error_says_which_member_is_wrong() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    let wrong = r#"{"who":{"user":"42"},"limit":"per-user","multiplier":1000}"#;
    let wrong = admin(&server, &["overrides", "create", wrong]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains(": /multiplier: it must be from 0.01 to 100"), "{}", wrong.err);
    let unknown = admin(&server, &["keys", "lookup", r#"{"request":{"usr":"42"}}"#]);
    assert!(unknown.err.contains(": /request/usr: "), "{}", unknown.err);
}

#[test]
fn answers_for_people_are_whole() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    let reason = "launch day: twice as much as usual, until the crowd of the first evening is gone";
    let body = json!({ "who": { "user": "42" }, "limit": "per-user", "multiplier": 2,
        "until": "2099-01-01T00:00:00Z", "reason": reason });
    let created = admin(&server, &["overrides", "create", &body.to_string()]);
    assert_eq!(created.code, Some(0), "{}", created.err);
    let draft = server.place.home.write("draft.yaml", &POLICY.replace("capacity: 5", "capacity: 1"));
    let created = admin(&server, &["candidates", "create", &draft, "--format", "json"]);
    let created: Value = serde_json::from_str(&created.out).expect("it is JSON");
    let id = created["id"].as_str().expect("it has an id");
    let path = format!("/videos/{}", "a".repeat(60));
    let request = json!({ "user": "43", "method": "GET", "path": path }).to_string();
    for _ in 0..2 {
        let headers = [("Content-Type", "application/json")];
        ask(server.server.socket("http"), "POST", "/v1/check", &headers, &request).expect(200);
    }
    let asked = r#"{"request":{"user":"42"}}"#;
    let explained = admin(&server, &["explain", asked]);
    let found = admin(&server, &["keys", "lookup", asked]);
    let report = admin(&server, &["candidates", "report", id]);
    let parts: [(&Ran, &[&str]); 3] = [
        (
            &explained,
            &[
                "  - name: per-user\n",
                "      before:\n        allowed: true\n        limit: 10\n        remaining: 10\n",
                "        descriptor  value\n        user        42\n",
                "        until: 2099-01-01T00:00:00Z\n",
                &format!("        reason: {reason}\n"),
            ],
        ),
        (&found, &["  - name: per-user\n", &format!("reason: {reason}\n"), "until: 2099-01-01T00:00:00"]),
        (
            &report,
            &[
                "examples:\n    - time: ",
                &format!("      path: {path}\n"),
                "      candidate:\n        allowed: false\n",
                "      live:\n        allowed: true\n",
            ],
        ),
    ];
    for (ran, parts) in parts {
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(!ran.out.contains('…') && !ran.out.contains("{\""), "something is cut or JSON:\n{}", ran.out);
        for part in parts {
            assert!(ran.out.contains(part), "{part:?} is missing in:\n{}", ran.out);
        }
    }
}

#[test]
fn the_stream_is_printed_as_lines() {
    let server = PolicyServer::start(DatabaseKind::Sqlite);
    let printed = admin(&server, &["stream", "--count", "2"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let line = |line: &str| serde_json::from_str::<Value>(line).expect("each line is JSON");
    let events: Vec<Value> = printed.out.lines().map(line).collect();
    let times: Vec<_> = events.iter().map(|event| event["time"].as_str().expect("it has a time")).collect();
    assert!(times.len() == 2 && times[0] < times[1], "{times:?}");
    let url = format!("http://{}", server.server.socket("admin"));
    let mut command = tidegate(&["admin", "stream", "--server", &url]);
    let refused = run({
        command.env("TIDEGATE_ADMIN_TOKEN", "wrong-token-0123456789-0123456789");
        command
    });
    assert!(refused.code == Some(1) && refused.err.contains("401"), "{}", refused.err);
    assert_eq!(admin(&server, &["stream", "--count", "0"]).code, Some(2));
}
