//! Candidates: drafts of the policy that decide beside the policy in force.

mod away;
mod fleet;
mod stopping;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::access::client::ask;
use super::names;
use super::place::on_both;
use super::policy_client::{Api, PolicyServer};
use crate::support::server::{run, tidegate};

on_both!(
    a_candidate_is_compared_reported_and_promoted,
    one_that_has_ended_by_itself_is_promoted,
    a_candidate_that_cannot_be_used_is_refused,
    candidates_survive_a_restart_and_are_removed,
    a_candidate_can_be_tried_out,
    resetting_a_user_resets_limits_that_only_the_draft_has,
    resetting_resets_a_limit_of_the_draft_where_no_other_applies,
    a_report_equals_a_simulation_of_the_same_requests,
);

const LIVE: &str = "version: 1\nlimits:\n- { name: per-user, key: [user], missing: skip, sustained: { rate: 1, window: hour }, burst: { capacity: 5 } }\n";

fn stricter(capacity: u32) -> String {
    LIVE.replace("per-user", "tried").replace("capacity: 5", &format!("capacity: {capacity}"))
}

/// Adds a candidate, and returns what the API answers.
#[track_caller]
fn add(api: &Api, path: &str, text: &str) -> Value {
    api.ask("POST", path, &["Content-Type: application/yaml"], text).expect(201).json()
}

fn id_of(candidate: &Value) -> String {
    candidate["id"].as_str().expect("it has an id").to_owned()
}

/// A user who has sent nothing yet.
fn new_user() -> String {
    static USERS: AtomicU64 = AtomicU64::new(0);
    format!("new-{}", USERS.fetch_add(1, Ordering::Relaxed))
}

/// Decides this many requests of a user, and returns how many were admitted.
fn check(server: &PolicyServer, user: &str, times: usize) -> usize {
    let body = json!({ "user": user, "method": "GET", "path": "/videos" }).to_string();
    let decide = |_: &usize| {
        let headers = [("Content-Type", "application/json")];
        ask(server.server.socket("http"), "POST", "/v1/check", &headers, &body).json()["allowed"] == true
    };
    (0..times).filter(decide).count()
}

fn a_candidate_is_compared_reported_and_promoted(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let api = &server.api;
    assert_eq!(api.read("/candidates")["items"], json!([]));
    let added = add(api, "/candidates?name=less&reason=why", &stricter(2));
    let id = id_of(&added);
    assert_eq!(
        (&added["name"], &added["reason"], &added["running"]),
        (&json!("less"), &json!("why"), &json!(true))
    );
    assert_eq!(names(&api.read("/candidates"), "id"), [id.as_str()]);
    let one = api.read(&format!("/candidates/{id}"));
    assert_eq!((&one["text"], &one["warnings"]), (&json!(stricter(2)), &json!([])));

    assert_eq!(check(&server, "42", 6), 5, "the candidate changes nothing");
    let report = api.read(&format!("/candidates/{id}/report"));
    let totals = json!({
        "both_admit": 2, "both_deny": 1, "newly_denied": 3, "newly_admitted": 0, "not_compared": 0,
    });
    assert_eq!(report["totals"], totals);
    let differing = &report["newly_denied"];
    assert_eq!(differing["by_limit"], json!({ "tried": 3 }));
    assert_eq!(differing["keys"], json!([{ "limit": "tried", "key": "42", "count": 3, "error": 0 }]));
    let example = &differing["examples"][0];
    assert_eq!((&example["user"], &example["path"]), (&json!("42"), &json!("/videos")));
    assert_eq!(
        (&example["live"]["allowed"], &example["candidate"]["limit"]),
        (&json!(true), &json!("tried"))
    );
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(1));
    let steps = report["steps"].as_array().expect("it has steps");
    assert_eq!(steps.iter().map(|step| step["newly_denied"].as_u64().unwrap()).sum::<u64>(), 3);

    let promote = format!("/candidates/{id}/promote?reason=good");
    assert_eq!(api.ask("POST", &promote, &["If-Match: \"1\""], "").status, 412);
    let promoted = api.ask("POST", &promote, &["If-Match: \"2\""], "").expect(200);
    assert_eq!(promoted.version(), 3);
    assert_eq!(api.policy(), stricter(2));
    // Once more would replace what was changed since.
    let again = api.ask("POST", &promote, &[], "").expect(409).json();
    assert!(again["detail"].as_str().is_some_and(|why| why.contains("version 3")), "{again}");
    let ended = &api.read("/candidates")["items"][0];
    assert_eq!((&ended["running"], &ended["promoted"]), (&json!(false), &json!(3)));
    assert_eq!(check(&server, "43", 3), 2, "it is in force");
    assert_eq!(api.read(&format!("/candidates/{id}/report"))["totals"], totals, "it compares no more");
    let audited = api.read("/audit?kind=candidate_added");
    assert_eq!(
        (&audited["items"][0]["reason"], audited["items"].as_array().map(Vec::len)),
        (&json!("why"), Some(1))
    );
    assert_eq!(api.read("/versions/3")["reason"], "good");
}

/// Somebody looks at it the next morning.
fn one_that_has_ended_by_itself_is_promoted(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let api = &server.api;
    let until = super::live::fleet::in_seconds(2);
    let id = id_of(&add(api, &format!("/candidates?until={until}"), &stricter(2)));
    let shown = || api.read(&format!("/candidates/{id}"));
    crate::support::within(super::live::fleet::PATIENCE, "it ends", || shown()["running"] == false);
    let end = shown()["until"].clone();
    let key = ["Idempotency-Key: once"];
    let promoted = api.ask("POST", &format!("/candidates/{id}/promote"), &key, "").expect(200);
    assert_eq!((&shown()["promoted"], &shown()["until"]), (&json!(promoted.version()), &end));
    let repeated = api.ask("POST", &format!("/candidates/{id}/promote"), &key, "").expect(200);
    assert_eq!(repeated.version(), promoted.version());
}

fn a_candidate_that_cannot_be_used_is_refused(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let api = &server.api;
    let post = |path: &str, text: &str| api.ask("POST", path, &["Content-Type: application/yaml"], text);
    let wrong = post("/candidates", "version: 1\nlimit: []\n").expect(422).json();
    assert_eq!(wrong["problems"][0]["path"], "limit");
    let json_only = api.ask("POST", "/candidates", &["Content-Type: application/json"], LIVE);
    assert_eq!(json_only.status, 422);
    assert_eq!(post("/candidates?until=2001-01-01T00:00:00Z", LIVE).status, 400);
    assert_eq!(post("/candidates?until=2999-01-01T00:00:00Z", LIVE).status, 400);
    assert_eq!(api.read("/candidates")["items"], json!([]), "nothing is written");

    let key = ["Content-Type: application/yaml", "Idempotency-Key: once"];
    let first = api.ask("POST", "/candidates", &key, LIVE).expect(201);
    let again = api.ask("POST", "/candidates", &key, LIVE).expect(201);
    assert_eq!((first.json(), first.header("location")), (again.json(), again.header("location")));
    for _ in 1..4 {
        add(api, "/candidates", LIVE);
    }
    let full = post("/candidates", LIVE).expect(409).json();
    assert!(full["detail"].as_str().is_some_and(|why| why.contains("4 candidates")), "{full}");
    assert_eq!(api.read("/candidates?limit=3")["items"].as_array().map(Vec::len), Some(3));
    let next = api.read("/candidates?limit=3")["next"].as_str().expect("there is more").to_owned();
    assert_eq!(api.read(&format!("/candidates?cursor={next}"))["items"].as_array().map(Vec::len), Some(1));

    let without = PolicyServer::without_database();
    let refused = without.api.get("/candidates").expect(409).json();
    assert!(refused["detail"].as_str().is_some_and(|why| why.contains("--data")), "{refused}");
}

fn candidates_survive_a_restart_and_are_removed(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let id = id_of(&add(&server.api, "/candidates", &stricter(1)));
    assert_eq!(check(&server, "42", 2), 2);
    let PolicyServer { server: running, place, .. } = server;
    running.stopped();
    let server = PolicyServer::start_in(place, &[]);
    let api = &server.api;
    let report = format!("/candidates/{id}/report");
    crate::support::within(super::live::fleet::PATIENCE, "the candidate runs again", || {
        check(&server, &new_user(), 1);
        api.read(&report)["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2)
    });
    let found = api.read(&report);
    assert_eq!(found["totals"]["newly_denied"], 1, "what was found before the restart: {found}");
    api.delete(&format!("/candidates/{id}")).expect(200);
    assert_eq!(api.get(&report).status, 404);
    assert_eq!(api.delete(&format!("/candidates/{id}")).status, 404);
    assert_eq!(api.ask("POST", &format!("/candidates/{id}/promote"), &[], "").status, 404);
    assert_eq!(api.read("/audit?kind=candidate_removed")["items"].as_array().map(Vec::len), Some(1));
}

fn a_candidate_can_be_tried_out(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let api = &server.api;
    let id = id_of(&add(api, "/candidates", &stricter(2)));
    assert_eq!(check(&server, "42", 2), 2);
    let explain = |user: &str| {
        let body = json!({ "request": { "user": user }, "candidate": id });
        api.post("/explain", &body).expect(200).json()
    };
    let spent = explain("42");
    assert_eq!(spent["decision"]["violated_rule"], "tried", "by what the candidate has counted: {spent}");
    assert_eq!(explain("43")["decision"]["allowed"], true);
    let trace = "{\"at_ms\":0,\"user\":\"1\"}\n".repeat(3);
    let simulated = api.post("/simulate", &json!({ "trace": trace, "candidate": id })).expect(200).json();
    assert_eq!(simulated["summary"]["denied_by"], json!({ "tried": 1 }));
    assert_eq!(api.post("/simulate", &json!({ "trace": trace, "candidate": "nope" })).status, 404);
    let both = json!({ "trace": trace, "candidate": id, "version": 1 });
    assert_eq!(api.post("/simulate", &both).status, 400);

    // One that has ended is explained by its document.
    api.ask("POST", &format!("/candidates/{id}/promote"), &[], "").expect(200);
    assert_eq!(explain("42")["decision"]["allowed"], true);
}

/// A server decides in real time, so that the limits must not refill between requests.
fn resetting_a_user_resets_limits_that_only_the_draft_has(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let (api, user) = (&server.api, new_user());
    let id = id_of(&add(api, "/candidates?reason=why", &stricter(2)));
    let left = || {
        let asked = json!({ "request": { "user": user }, "candidate": id });
        api.post("/explain", &asked).expect(200).json()["decision"]["limits"][0]["remaining"].clone()
    };
    let reset = |asked: &Value| api.post("/keys/reset", asked).expect(200).json()["changed"].clone();
    check(&server, &user, 2);
    assert_eq!(left(), json!(0));
    let request = json!({ "user": user });
    assert_eq!(
        reset(&json!({ "request": request, "limit": "per-user", "reason": "why" })),
        json!(["per-user"])
    );
    assert_eq!(left(), json!(0), "only the limit that was named");
    assert_eq!(reset(&json!({ "request": request, "reason": "why" })), json!(["per-user"]));
    assert_eq!(left(), json!(2));
}

fn resetting_resets_a_limit_of_the_draft_where_no_other_applies(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, LIVE);
    let api = &server.api;
    let id = id_of(&add(api, "/candidates", &stricter(2).replace("[user]", "[client]")));
    let request = json!({ "client": "app" });
    let left = || {
        let asked = json!({ "request": request, "candidate": id });
        api.post("/explain", &asked).expect(200).json()["decision"]["limits"][0]["remaining"].clone()
    };
    let headers = [("Content-Type", "application/json")];
    ask(server.server.socket("http"), "POST", "/v1/check", &headers, &request.to_string()).expect(200);
    assert_eq!(left(), json!(1));
    let reset = |request: &Value| api.post("/keys/reset", &json!({ "request": request })).expect(200).json();
    let resets = || api.read("/audit?kind=key_reset")["items"].as_array().map(Vec::len);
    reset(&json!({ "ip": "203.0.113.7" }));
    assert_eq!((left(), resets()), (json!(1), Some(0)), "there is nothing to reset");
    assert_eq!(reset(&request), json!({ "changed": [], "limits": [] }));
    assert_eq!((left(), resets()), (json!(2), Some(1)));
}

fn a_report_equals_a_simulation_of_the_same_requests(kind: DatabaseKind) {
    let live = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 3 } }\n";
    let tried = "version: 1\nlimits:\n- { name: b, key: [tenant], sustained: { rate: 1, window: day }, burst: { capacity: 9 } }\nblock: [{ user: \"2\" }]\n";
    let server = PolicyServer::with_policy(kind, live);
    let api = &server.api;
    let id = id_of(&add(api, "/candidates", tried));
    let requests: Vec<Value> =
        (0..24).map(|n| json!({ "user": format!("{}", n % 5), "tenant": format!("t{}", n % 2) })).collect();
    let decide = |request: &Value| {
        let headers = [("Content-Type", "application/json")];
        let reply = ask(server.server.socket("http"), "POST", "/v1/check", &headers, &request.to_string());
        reply.json()["allowed"] == true
    };
    let decided: Vec<bool> = requests.iter().map(decide).collect();
    let line = |request: &Value| {
        let mut line = request.clone();
        line["at_ms"] = json!(0);
        line.to_string() + "\n"
    };
    let trace: String = requests.iter().map(line).collect();
    let simulated = |body: Value| -> Vec<bool> {
        let answer = api.post("/simulate", &body).expect(200).json();
        let decisions = answer["decisions"].as_array().expect("decisions").clone();
        decisions.iter().map(|decision| decision["allowed"] == true).collect()
    };
    assert_eq!(simulated(json!({ "trace": trace, "version": 2 })), decided);
    let by_candidate = simulated(json!({ "trace": trace, "candidate": id }));
    let count = |live: bool, tried: bool| {
        decided.iter().zip(&by_candidate).filter(|pair| *pair == (&live, &tried)).count()
    };
    let expected = json!({
        "both_admit": count(true, true),
        "both_deny": count(false, false),
        "newly_denied": count(true, false),
        "newly_admitted": count(false, true),
        "not_compared": 0,
    });
    assert!(count(true, false) > 0 && count(false, true) > 0, "{expected}");
    assert_eq!(api.read(&format!("/candidates/{id}/report"))["totals"], expected);
}

#[test]
fn candidates_have_commands() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, LIVE);
    let draft = server.place.home.write("draft.yaml", &stricter(1));
    let admin = |args: &[&str]| {
        let mut command = tidegate(&[&["admin", "candidates"], args].concat());
        command.env("TIDEGATE_ADMIN_URL", format!("http://{}", server.server.socket("admin")));
        command.env("TIDEGATE_ADMIN_TOKEN", server.api.token());
        run(command)
    };
    let created = admin(&["create", &draft, "--name", "less", "--format", "json"]);
    let created: Value =
        serde_json::from_str(&created.out).unwrap_or_else(|_| panic!("{}{}", created.out, created.err));
    let id = id_of(&created);
    assert!(admin(&["list"]).out.contains(&id));
    assert!(admin(&["report", &id]).out.contains("newly_denied"));
    assert!(admin(&["promote", &id, "--if-match", "2"]).out.contains('3'));
    assert!(admin(&["delete", &id]).out.contains(&id));
}
