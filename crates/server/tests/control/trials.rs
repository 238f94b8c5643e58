//! Trying things out: validate, simulate, explain, import.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use tidegate_database::DatabaseKind;

use super::access::client::request;
use super::place::on_both;
use super::policy_client::PolicyServer;
use crate::support::server::{run, tidegate};

on_both!(
    a_simulation_decides_as_the_command_does,
    an_explanation_is_about_live_state,
    an_explanation_can_be_about_another_time,
    a_policy_is_checked_and_imported_without_being_used
);

/// Sends `body` to `/simulate`, and sends the answer when it has come.
fn start_simulation(server: &PolicyServer, body: &str, answered: mpsc::Sender<String>) -> TcpStream {
    let bearer = format!("Bearer {}", server.api.token());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let mut stream = TcpStream::connect(server.server.socket("admin")).expect("it listens");
    let text = request("POST", "/api/v1/simulate", &headers, body);
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = stream.try_clone().expect("there are file descriptors");
    std::thread::spawn(move || {
        let mut text = String::new();
        let _closed_early = answer.read_to_string(&mut text);
        _ = answered.send(text);
    });
    stream
}

#[test]
fn a_trial_ends_when_its_client_disconnects() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, TEXT);
    // Each would take until its time is up.
    let limit = |n: u32| format!("- {{ name: l{n}, key: [user], sustained: {{ rate: 1 }} }}\n");
    let policy = format!("version: 1\nlimits:\n{}", (0..5_000).map(limit).collect::<String>());
    let trace: String = (0..20_000).map(|n| format!("{{\"at_ms\":{n},\"user\":\"1\"}}\n")).collect();
    let long = json!({ "policy": policy, "trace": trace }).to_string();
    // Three more than there is room for.
    let (answered, answers) = mpsc::channel();
    let clients: Vec<TcpStream> =
        (0..20).map(|_| start_simulation(&server, &long, answered.clone())).collect();
    let answer =
        || answers.recv_timeout(Duration::from_secs(60)).expect("those that are refused do not wait");
    let first = [answer(), answer(), answer()];
    assert!(first.iter().any(|answer| answer.starts_with("HTTP/1.1 429")), "{first:?}");
    // The others have the turn or wait for it.
    for client in &clients {
        _ = client.shutdown(Shutdown::Both);
    }
    // It would wait for them, and be refused when it has waited too long.
    let checked = server.api.ask("POST", "/validate", &["Content-Type: application/yaml"], TEXT);
    assert_eq!(checked.expect(200).json()["valid"], true);
}

const TEXT: &str = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }\n";
const TRACE: &str =
    "{\"at_ms\":0,\"user\":\"1\"}\n{\"at_ms\":1,\"user\":\"1\"}\n{\"at_ms\":2,\"user\":\"1\"}\n";

fn a_simulation_decides_as_the_command_does(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, TEXT);
    let (api, home) = (&controlled.api, &controlled.place.home);
    let (policy, trace) = (home.write("p.yaml", TEXT), home.write("t.jsonl", TRACE));
    let printed = run(tidegate(&["simulate", "--policy", &policy, "--trace", &trace, "--quiet"]));
    let body = json!({ "trace": TRACE });
    let lines = api.ask(
        "POST",
        "/simulate",
        &["Content-Type: application/json", "Accept: application/x-ndjson"],
        &body.to_string(),
    );
    assert_eq!(lines.expect(200).body, printed.out);
    let answer = api.post("/simulate", &body).expect(200).json();
    assert_eq!(answer["summary"]["denied_by"], json!({ "a": 1 }));
    assert_eq!((answer["decisions"].as_array().map(Vec::len), &answer["left_out"]), (Some(3), &json!(0)));
    // Another policy, as text or as an object, or a version.
    let loose = TEXT.replace("capacity: 2", "capacity: 3");
    let allowed = |policy: serde_json::Value| {
        let answer = api.post("/simulate", &json!({ "trace": TRACE, "policy": policy })).expect(200).json();
        answer["summary"]["allowed"].as_u64()
    };
    assert_eq!(allowed(json!(loose)), Some(3));
    let object = json!({ "version": 1, "limits": [] });
    assert_eq!(allowed(object), Some(3));
    let of_version = api.post("/simulate", &json!({ "trace": TRACE, "version": 2 })).expect(200).json();
    assert_eq!(of_version["summary"]["denied"], 1);
    assert_eq!(api.post("/simulate", &json!({ "trace": TRACE, "version": 9 })).status, 404);
    assert_eq!(api.post("/simulate", &json!({ "trace": "{}\n" })).expect(422).json()["pointer"], "/trace");
    assert_eq!(api.post("/simulate", &json!({ "trace": TRACE, "policy": "limit: []" })).status, 422);
    assert_eq!(api.post("/simulate", &json!({ "trace": TRACE, "max_keys": 100_001 })).status, 400);
    assert_eq!(api.post("/simulate", &json!({ "trace": TRACE, "other": 1 })).status, 400);
    let keys: String = (0..20).map(|n| format!("{{\"at_ms\":0,\"user\":\"{n}\"}}\n")).collect();
    let refused = api.post("/simulate", &json!({ "trace": keys, "max_keys": 1 })).expect(422).json();
    assert_eq!(refused["pointer"], "/max_keys");
    let told = refused["detail"].as_str().unwrap_or_default();
    assert!(told.contains("raise `max_keys`, which is at most 100000") && !told.contains("--"), "{told}");
}

fn an_explanation_is_about_live_state(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, TEXT);
    let api = &controlled.api;
    let http = controlled.server.told("http");
    let explain = |body: serde_json::Value| api.post("/explain", &body).expect(200).json();
    let remaining = |answer: &serde_json::Value| answer["limits"][0]["bucket"]["before"]["remaining"].clone();
    let request = json!({ "user": "1" });
    assert_eq!(remaining(&explain(json!({ "request": request }))), 2);
    let checked = run(tidegate(&["check", "--server", &http, "user=1"]));
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let after = explain(json!({ "request": request }));
    assert_eq!((remaining(&after), &after["decision"]["allowed"]), (json!(1), &json!(true)));
    assert_eq!(remaining(&explain(json!({ "request": request }))), 1, "explaining takes nothing");
    assert_eq!(
        remaining(&explain(json!({ "request": request, "policy": TEXT }))),
        2,
        "a policy of its own is unused"
    );
    assert_eq!(remaining(&explain(json!({ "request": request, "version": 2 }))), 2);
    assert_eq!(api.post("/explain", &json!({ "request": request, "version": 9 })).status, 404);
    assert_eq!(
        api.post("/explain", &json!({ "request": request, "version": 2, "policy": TEXT })).status,
        400
    );
    assert_eq!(api.post("/explain", &json!({ "request": { "usr": "1" } })).status, 400);
    assert_eq!(api.post("/explain", &json!({})).status, 400);
}

fn an_explanation_can_be_about_another_time(kind: DatabaseKind) {
    let text = format!("{TEXT}block:\n- {{ user: \"1\", until: 2035-01-01T00:00:00Z }}\n");
    let controlled = PolicyServer::with_policy(kind, &text);
    let api = &controlled.api;
    let reason = |body: serde_json::Value| {
        api.post("/explain", &body).expect(200).json()["decision"]["reason"].as_str().map(str::to_owned)
    };
    for policy in [json!({}), json!({ "version": 2 }), json!({ "policy": text })] {
        let at = |at: &str| {
            let mut body = policy.clone();
            body["request"] = json!({ "user": "1" });
            body["at"] = json!(at);
            reason(body)
        };
        assert_eq!(at("2034-12-31T23:59:59.999Z").as_deref(), Some("blocked"), "{policy}");
        assert_eq!(at("2035-01-01T00:00:00Z").as_deref(), Some("ok"), "{policy}");
    }
    // Of live state nothing is used: the bucket is full at any other time.
    let http = controlled.server.told("http");
    assert_eq!(run(tidegate(&["check", "--server", &http, "user=2"])).code, Some(0));
    let explained =
        api.post("/explain", &json!({ "request": { "user": "2" }, "at": "2030-01-01T00:00:00Z" }));
    assert_eq!(explained.expect(200).json()["limits"][0]["bucket"]["before"]["remaining"], 2);
    let wrong = api.post("/explain", &json!({ "request": {}, "at": "tomorrow" }));
    assert_eq!(wrong.expect(400).json()["pointer"], "/at");
}

fn a_policy_is_checked_and_imported_without_being_used(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, TEXT);
    let api = &controlled.api;
    let checked = api
        .ask("POST", "/validate", &["Content-Type: application/yaml"], "version: 1\nlimit: []\n")
        .expect(200)
        .json();
    assert_eq!((checked["valid"].as_bool(), checked["problems"][0]["line"].as_u64()), (Some(false), Some(2)));
    let limitador = "- { namespace: a, max_value: 10, seconds: 60, conditions: [], variables: [user_id] }\n";
    let file = controlled.place.home.write("limits.yaml", limitador);
    let printed = run(tidegate(&["import", "--from", "limitador", &file]));
    let imported = api
        .ask("POST", "/import?from=limitador", &["Content-Type: application/yaml"], limitador)
        .expect(200)
        .json();
    assert_eq!(imported["policy"].as_str(), Some(printed.out.as_str()));
    let rows = "key_pattern,scope,rate_per_second,burst_capacity\nuser:{user_id},user,10,50\n";
    let table = api.ask("POST", "/import?from=rules", &["Content-Type: text/csv"], rows).expect(200).json();
    assert!(table["policy"].as_str().is_some_and(|policy| policy.contains("rate: 10")), "{table}");
    assert_eq!(api.ask("POST", "/import?from=limitador", &[], "nothing").status, 422);
    assert_eq!(api.ask("POST", "/import?from=other", &[], "x").status, 400);
    assert_eq!(api.ask("POST", "/import", &[], "x").status, 400);
    assert_eq!(api.policy(), TEXT);
}
