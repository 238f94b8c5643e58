//! `tidegate admin`: the admin API from a terminal and from scripts.

use serde_json::Value;
use tidegate_database::DatabaseKind;

use super::place::on_both;
use super::policy_client::PolicyServer;
use crate::support::server::{Ran, run, tidegate};

on_both!(every_kind_of_route_has_a_command, a_mistake_is_told_with_its_place_and_changes_nothing);

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
