//! What is kept of resets and grants: the audit, the answers to repeated requests, and no secrets.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::fleet::{LiveFleet, PATIENCE, Shared};
use crate::control::access::client::{ApiReply, Controlled, ask};
use crate::control::fleet_node::FleetNode;
use crate::control::place::{Place, on_both};
use crate::support::redis::Redis;
use crate::support::within;

on_both!(
    a_repeated_request_is_done_once,
    no_secret_is_kept_that_no_key_depends_on,
    a_restricted_token_changes_only_what_is_its_own,
    an_action_that_the_store_does_not_answer_is_told_as_such,
);

const POLICY: &str = "version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 5, window: hour } }
- { name: per-key, key: [\"header:x-api-key\"], missing: skip, sustained: { rate: 5, window: hour } }
";

/// A node on a database, and on a Redis if there is one.
fn node(place: &Place, redis: Option<&Redis>) -> FleetNode {
    let store = redis.map(|redis| redis.settings("strict")).unwrap_or_default();
    let settings = format!("{store}database: {{ url: \"{}\" }}\n", place.url);
    let config = place.home.write("node.yaml", &settings);
    FleetNode::start(&["--config", &config, "--policy", &place.home.write("policy.yaml", POLICY)])
}

fn user() -> Value {
    json!({ "user": "42" })
}

fn grant(tokens: u32) -> Value {
    json!({ "request": user(), "limit": "per-user", "tokens": tokens })
}

/// A POST with an idempotency key.
fn repeat(node: &FleetNode, path: &str, key: &str, body: &Value) -> ApiReply {
    let headers = [("Idempotency-Key", key)];
    node.send(&format!("POST {path}"), "application/json", &headers, &body.to_string())
}

fn check(node: &FleetNode) -> bool {
    let headers = [("Content-Type", "application/json")];
    ask(node.server.socket("http"), "POST", "/v1/check", &headers, &user().to_string()).status == 200
}

/// The audit entries of one event, newest first.
fn audit(node: &FleetNode, event: &str) -> Vec<Value> {
    let found = node.read(&format!("/audit?kind={event}&limit=1000")).json();
    found["items"].as_array().expect("a list").clone()
}

fn a_repeated_request_is_done_once(kind: DatabaseKind) {
    let (place, redis) = (Place::new(kind), Redis::start());
    for shared in [None, Some(&redis)] {
        let node = node(&place, shared);
        let name = |key: &str| format!("{key}-{}", shared.is_some());
        (0..5).for_each(|_| assert!(check(&node)));
        assert!(!check(&node));
        for remaining in [2, 2, 2] {
            let granted = repeat(&node, "/keys/grant", &name("g"), &grant(2)).expect(200).json();
            assert_eq!(
                (&granted["changed"], &granted["limits"][0]["remaining"]),
                (&json!(["per-user"]), &remaining.into())
            );
        }
        let other = repeat(&node, "/keys/grant", &name("g"), &grant(3)).expect(409);
        assert!(other.body.contains("used for another request"), "{}", other.body);
        assert!(check(&node));
        // The answer tells how the bucket is now.
        let again = repeat(&node, "/keys/grant", &name("g"), &grant(2)).expect(200).json();
        assert_eq!(again["limits"][0]["remaining"], 1);
        assert_eq!(audit(&node, "key_granted").len(), if shared.is_some() { 3 } else { 1 });
        let reset = json!({ "request": user(), "reason": "sorry" });
        for remaining in [5, 4] {
            let answer = repeat(&node, "/keys/reset", &name("r"), &reset).expect(200).json();
            assert_eq!(answer["limits"][0]["remaining"], remaining);
            assert!(check(&node));
        }
        let block = json!({ "who": { "user": "666", "header:x-api-key": "zqsecret-key" } });
        let first = repeat(&node, "/keys/block", &name("b"), &block).expect(201);
        let second = repeat(&node, "/keys/block", &name("b"), &block).expect(201);
        assert_eq!(first.json()["id"], second.json()["id"]);
        assert_eq!(first.header("location"), second.header("location"));
        assert!(!second.body.contains("zqsecret"), "{}", second.body);
        let doubled = json!({ "who": { "user": "77" }, "limit": "per-user", "multiplier": 2 });
        let twice = [(), ()].map(|()| repeat(&node, "/overrides", &name("o"), &doubled).expect(201).json());
        assert_eq!(twice[0]["id"], twice[1]["id"]);
        // A request that is refused has used no key.
        let wrong = json!({ "request": user(), "limit": "none", "tokens": 1 });
        repeat(&node, "/keys/grant", &name("w"), &wrong).expect(422);
        repeat(&node, "/keys/grant", &name("w"), &grant(1)).expect(200);
        node.send("DELETE /keys/live/nope", "application/json", &[], "").expect(404);
    }
}

#[test]
fn a_node_without_a_database_remembers_answers_too() {
    for shared in [Shared::Nothing, Shared::Strict] {
        let fleet = LiveFleet::start(shared);
        let request = json!({ "user": "42", "path": "/limited" });
        let once = |tokens: u32| {
            let body = json!({ "request": request, "limit": "per-user", "tokens": tokens });
            fleet.api_with(0, "POST", "/keys/grant", &[("Idempotency-Key", "one")], &body)
        };
        (0..5).for_each(|_| assert_eq!(fleet.check(0, &request)["allowed"], true));
        for _ in 0..3 {
            assert_eq!(once(1).expect(200).json()["limits"][0]["remaining"], 1, "{shared:?}");
        }
        once(2).expect(409);
    }
}

/// Other nodes need what the keys depend on, and nothing more.
fn no_secret_is_kept_that_no_key_depends_on(kind: DatabaseKind) {
    let place = Place::new(kind);
    let node = node(&place, None);
    let asked = json!({
        "user": "42", "path": "/videos?token=zqsecret-path", "query": "token=zqsecret-query",
        "jwt": { "sub": "zqsecret-claim" },
        "headers": { "authorization": "zqsecret-header", "x-api-key": "needed-key" },
    });
    let reset = json!({ "request": asked, "reason": "why" });
    let changed = repeat(&node, "/keys/reset", "k", &reset).expect(200).json();
    assert_eq!(changed["changed"], json!(["per-user", "per-key"]));
    let kept = |sql| place.texts(sql).join("\n");
    let entries = kept("SELECT body FROM live_entries");
    assert!(entries.contains("needed-key") && entries.contains("42"), "{entries}");
    let audit = audit(&node, "key_reset");
    let [entry] = audit.as_slice() else { panic!("one action is one entry: {audit:?}") };
    let said = (&entry["user"], &entry["reason"], &entry["detail"]["limits"]);
    assert_eq!(said, (&"42".into(), &"why".into(), &json!(["per-user", "per-key"])), "{entry}");
    assert!(entry["actor"].is_string() && entry["detail"]["who"]["path"] == "/videos", "{entry}");
    let answers = kept("SELECT body FROM idempotent_answers");
    for text in [entries, answers.clone(), audit[0].to_string()] {
        assert!(!text.contains("zqsecret"), "{text}");
    }
    for text in [answers, audit[0].to_string()] {
        assert!(!text.contains("needed-key"), "{text}");
    }
    // Parameters in the path are the query.
    let in_path = json!({ "user": "43", "path": "/videos;id=zqsecret-session?token=zqsecret-path" });
    let granted = json!({ "request": in_path, "limit": "per-user", "tokens": 1 });
    node.post("/keys/grant", &granted).expect(200);
    let [granted] = &self::audit(&node, "key_granted")[..] else { panic!("one action is one entry") };
    assert_eq!(granted["detail"]["who"]["path"], "/videos", "{granted}");
    for text in [granted.to_string(), kept("SELECT body FROM live_entries")] {
        assert!(!text.contains("zqsecret"), "{text}");
    }
    // When it has ended, it is removed by the next change.
    place.tamper("UPDATE live_entries SET ends_at = created_at");
    node.post("/keys/grant", &grant(1)).expect(200);
    let entries = kept("SELECT body FROM live_entries");
    assert!(!entries.contains("needed-key"), "{entries}");
}

fn a_restricted_token_changes_only_what_is_its_own(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let (_, operator) = server.token("operator", None);
    let (_, parent) = server.token("operator", Some("acme"));
    let (_, own) = server.token("operator", Some("shop"));
    let limit = json!({ "name": "per-shopper", "key": ["tenant", "user"], "sustained": { "rate": 5 } });
    server.call(&server.admin, "POST", "/limits", Some(limit)).expect(201);
    let body = json!({ "request": { "tenant": "shop", "user": "1" } });
    let reset =
        |token: &str| server.call(token, "POST", "/keys/reset", Some(body.clone())).expect(200).json();
    assert_eq!(reset(&operator)["changed"], json!(["per-user", "per-shopper", "tenant:shop"]));
    // What counts a whole tenant divides the limit of its parent.
    assert_eq!(reset(&parent)["changed"], json!(["per-shopper"]));
    assert_eq!(reset(&own)["changed"], json!(["per-shopper"]));
    let granted = |token: &str, limit: &str, status: u16| {
        let body = json!({ "request": { "tenant": "shop", "user": "1" }, "limit": limit, "tokens": 1 });
        server.call(token, "POST", "/keys/grant", Some(body)).expect(status);
    };
    for token in [&parent, &own] {
        granted(token, "per-shopper", 200);
        granted(token, "tenant:shop", 403);
        granted(token, "per-user", 403);
        granted(token, "tenant:none", 422);
    }
    let shared = json!({
        "name": "anonymous", "key": ["tenant", "user"], "missing": "shared",
        "sustained": { "rate": 5, "window": "hour" },
    });
    server.call(&server.admin, "POST", "/limits", Some(shared)).expect(201);
    changes_no_bucket_that_all_tenants_share(&server, [&parent, &own]);
    assert_eq!(
        reset(&own)["changed"],
        json!(["per-shopper", "anonymous"]),
        "with the key it is one caller's own"
    );
    for path in ["/keys/reset", "/keys/lookup"] {
        let outside = json!({ "request": { "tenant": "other" } });
        server.call(&parent, "POST", path, Some(outside)).expect(404);
        let nobody = json!({ "request": { "user": "1" } });
        server.call(&parent, "POST", path, Some(nobody)).expect(400);
    }
    let found = server.call(&own, "POST", "/keys/lookup", Some(body.clone())).expect(200).json();
    assert_eq!(found["penalties"], json!([]));
    assert_eq!(found["explanation"]["limits"][0].get("match"), None, "{found}");
    let audit = server.call(&own, "GET", "/audit?kind=key_reset", None).expect(200).json();
    assert_eq!(audit["items"].as_array().map(Vec::len), Some(5), "{audit}");
}

/// Requests without the key of `anonymous` share one bucket, whatever tenant they name.
fn changes_no_bucket_that_all_tenants_share(server: &Controlled, restricted: [&str; 2]) {
    let left = |tenant: &str| {
        let body = json!({ "request": { "tenant": tenant } });
        let found = server.call(&server.admin, "POST", "/keys/lookup", Some(body)).expect(200).json();
        let limits = found["limits"].as_array().expect("a list").clone();
        let shared = limits.iter().find(|limit| limit["name"] == "anonymous");
        shared.and_then(|limit| limit["remaining"].as_u64()).expect("the limit applies")
    };
    let headers = [("Content-Type", "application/json")];
    let of_other = json!({ "tenant": "other" }).to_string();
    assert_eq!(ask(server.server.socket("http"), "POST", "/v1/check", &headers, &of_other).status, 200);
    assert_eq!(left("shop"), 4, "it is one bucket");
    let request = json!({ "tenant": "shop" });
    for token in restricted {
        let all = json!({ "request": request });
        let reset = server.call(token, "POST", "/keys/reset", Some(all)).expect(200).json();
        assert_eq!(reset["changed"], json!([]), "{reset}");
        let named = json!({ "request": request, "limit": "anonymous", "tokens": 1 });
        let refused = server.call(token, "POST", "/keys/grant", Some(named)).expect(403);
        assert!(refused.body.contains("those of other tenants too"), "{}", refused.body);
        let named = json!({ "request": request, "limit": "anonymous" });
        server.call(token, "POST", "/keys/reset", Some(named)).expect(403);
    }
    assert_eq!(left("other"), 4);
    let reset =
        server.call(&server.admin, "POST", "/keys/reset", Some(json!({ "request": request }))).expect(200);
    assert!(reset.body.contains("\"anonymous\""), "{}", reset.body);
    assert_eq!(left("other"), 5);
}

fn an_action_that_the_store_does_not_answer_is_told_as_such(kind: DatabaseKind) {
    let (place, mut redis) = (Place::new(kind), Redis::start());
    let node = node(&place, Some(&redis));
    assert!(check(&node));
    redis.kill();
    let refused = repeat(&node, "/keys/grant", "g", &grant(2)).expect(503);
    assert!(refused.body.contains("may have been done or not"), "{}", refused.body);
    let kinds: Vec<Value> = audit(&node, "key_granted").iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["grant_failed", "grant"]);
    // Nobody knows whether it was done, so that it is not done again.
    let again = repeat(&node, "/keys/grant", "g", &grant(2)).expect(409);
    assert!(again.body.contains("was begun before"), "{}", again.body);
}

/// If the database is away, nothing is done: there is nothing that the audit does not have.
#[test]
fn nothing_is_done_that_the_audit_cannot_have() {
    let (place, redis) = (Place::new(DatabaseKind::Sqlite), Redis::start());
    let node = node(&place, Some(&redis));
    (0..5).for_each(|_| assert!(check(&node)));
    place.tamper("ALTER TABLE audit_entries RENAME TO away");
    let reset = json!({ "request": user() });
    assert!(node.post("/keys/reset", &reset).status >= 500);
    assert!(!check(&node), "the bucket is as it was");
    place.tamper("ALTER TABLE away RENAME TO audit_entries");
    within(PATIENCE, "it is back", || node.post("/keys/reset", &reset).status == 200);
    assert!(check(&node));
}
