//! The whole document: reading, replacing, refusing.

use serde_json::json;
use tidegate_database::DatabaseKind;

use super::place::{Place, on_both};
use super::policy_client::PolicyServer;
use super::{limit, names};
use crate::support::home::policy;

on_both!(
    a_policy_is_read_as_it_was_written_or_as_json,
    a_change_is_in_force_at_once_and_an_unchanged_document_keeps_its_version,
    an_invalid_policy_is_answered_with_every_problem_and_nothing_is_written,
    a_warning_does_not_refuse_and_is_told,
    a_policy_from_a_file_or_the_program_cannot_be_changed_and_is_said_to_be_so
);

const TEXT: &str =
    "# ours\nversion: 1 # one\nlimits:\n# first\n- { name: a, key: [user], sustained: { rate: 5 } } # five\n";

fn a_policy_is_read_as_it_was_written_or_as_json(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let written = api.get("/policy").expect(200);
    assert_eq!((written.body.as_str(), written.header("content-type")), (TEXT, Some("application/yaml")));
    assert_eq!(written.header("etag"), Some("\"2\""));
    let json = api.ask("GET", "/policy", &["Accept: application/json"], "").expect(200);
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(
        json.json(),
        json!({ "version": 1, "limits": [{ "name": "a", "key": ["user"], "sustained": { "rate": 5 } }] })
    );
    // JSON stays JSON.
    let text = json.body.replace(":5", ":6");
    api.ask("PUT", "/policy", &["Content-Type: application/json"], &text).expect(200);
    let read = api.get("/policy").expect(200);
    assert_eq!((read.body.as_str(), read.header("content-type")), (text.as_str(), Some("application/json")));
}

fn a_change_is_in_force_at_once_and_an_unchanged_document_keeps_its_version(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, TEXT);
    let api = &controlled.api;
    let put = |text: &str, headers: &[&str]| {
        api.ask("PUT", "/policy?reason=try", &[&["Content-Type: application/yaml"], headers].concat(), text)
    };
    assert_eq!(put(TEXT, &[]).expect(200).version(), 2);
    let changed = TEXT.replace("rate: 5", "rate: 7");
    assert_eq!(put(&changed, &["If-Match: \"2\""]).expect(200).version(), 3);
    assert_eq!(api.policy(), changed);
    assert_eq!(api.read("/limits/a")["sustained"]["rate"], 7);
    assert_eq!(put(TEXT, &["If-Match: \"2\""]).status, 412);
    assert_eq!(put(TEXT, &["If-Match: W/\"2\""]).status, 400);
    assert_eq!(put(TEXT, &["If-Match: *"]).expect(200).version(), 4);
    assert_eq!(put(TEXT, &["Content-Type: text/html"]).status, 200, "the first content type counts");
    assert_eq!(api.ask("PUT", "/policy", &["Content-Type: text/html"], TEXT).status, 415);
    let newest = &api.read("/versions")["items"][0];
    assert_eq!((newest["version"].as_u64(), newest["reason"].as_str()), (Some(4), Some("try")));
    assert_eq!(newest["author"], "admin token");
}

fn an_invalid_policy_is_answered_with_every_problem_and_nothing_is_written(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let wrong = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 0 } }\n- { name: a, kye: [user] }\n";
    let refused = api.ask("PUT", "/policy", &["Content-Type: application/yaml"], wrong).expect(422);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let problems = refused.json()["problems"].clone();
    assert!(problems.as_array().is_some_and(|problems| problems.len() >= 3), "{problems}");
    let first = &problems[0];
    assert_eq!((first["path"].as_str(), first["line"].as_u64()), (Some("limits[0].sustained.rate"), Some(3)));
    for member in ["column", "saw", "want", "hint"] {
        assert!(first.get(member).is_some(), "{first}");
    }
    let json = api.ask("PUT", "/policy", &["Content-Type: application/json"], "version: 1\n").expect(422);
    assert!(json.json()["problems"].is_array());
    assert_eq!(api.post("/limits", &limit("b", 0)).status, 422);
    assert_eq!(api.patch("/limits/a", &json!({ "sustained": null })).status, 422);
    assert_eq!((api.policy().as_str(), api.read("/versions")["items"].as_array().unwrap().len()), (TEXT, 2));
}

fn a_warning_does_not_refuse_and_is_told(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let queue =
        json!({ "name": "q", "key": ["user"], "sustained": { "rate": 5 }, "queue": { "max_depth": 1 } });
    let told = api.post("/limits", &queue).expect(201).json();
    let is_about_it = |warning: &serde_json::Value| {
        warning["path"].as_str().is_some_and(|path| path.starts_with("limits[1]"))
    };
    assert!(told["warnings"].as_array().is_some_and(|warnings| warnings.iter().any(is_about_it)), "{told}");
    assert_eq!(api.read("/versions/3")["warnings"], told["warnings"]);
}

fn a_policy_from_a_file_or_the_program_cannot_be_changed_and_is_said_to_be_so(kind: DatabaseKind) {
    let place = Place::new(kind);
    let file = place.home.write("policy.yaml", &policy(5));
    let from_file = PolicyServer::start_in(place, &["--policy", &file]);
    let embedded = PolicyServer::without_database();
    for (controlled, word) in [(&from_file, "policy.yaml"), (&embedded, "--data")] {
        let api = &controlled.api;
        let before = api.policy();
        for refused in [
            api.ask("PUT", "/policy", &["Content-Type: application/yaml"], TEXT),
            api.post("/limits", &limit("b", 1)),
            api.patch("/limits/per-user", &json!({ "enabled": false })),
            api.delete("/limits/per-user"),
        ] {
            let refused = refused.expect(409).json();
            assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains(word)), "{refused}");
        }
        assert_eq!(api.policy(), before);
        let told = api.get("/policy").expect(200);
        assert!(told.header("x-read-only").is_some_and(|why| why.contains(word)), "{}", told.head);
        assert!(names(&api.read("/limits"), "name").contains(&"per-user".to_owned()));
    }
    let changeable = PolicyServer::with_policy(kind, TEXT);
    assert_eq!(changeable.api.get("/policy").expect(200).header("x-read-only"), None);
    assert_eq!(embedded.api.get("/versions").status, 409);
    assert_eq!(embedded.api.read("/nodes")["items"].as_array().map(Vec::len), Some(1));
}
