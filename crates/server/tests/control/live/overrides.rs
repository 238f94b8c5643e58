//! Other numbers of a limit for some clients, for a while.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds, user};
use crate::control::access::client::Controlled;
use crate::support::within;

/// The entry of a limit in a decision.
fn limit(decision: &Value) -> (u64, u64) {
    let number = |member: &str| decision["limits"][0][member].as_u64().unwrap_or_default();
    (number("limit"), number("remaining"))
}

impl LiveFleet {
    fn add(&self, node: usize, body: &Value) -> String {
        let made = self.api(node, "POST", "/overrides", body).expect(201);
        let location = made.header("location").expect("where it is");
        location.strip_prefix("/api/v1").expect("a path of the API").to_owned()
    }

    /// Waits until every node shows this limit.
    fn all_show(&self, limit_of: u64, request: &Value) {
        for node in 0..self.servers.len() {
            let what = format!("{:?}: node {node} shows {limit_of} for {request}", self.shared);
            within(PATIENCE, &what, || limit(&self.peek(node, request)).0 == limit_of);
        }
    }
}

#[test]
fn an_override_is_in_force_everywhere_until_it_is_removed() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        for (path, name) in [("/limited", "per-user"), ("/window", "counted"), ("/log", "logged")] {
            let request = json!({ "user": "42", "path": path });
            assert_eq!(limit(&fleet.check(0, &request)), (5, 4), "{shared:?}: {name}");
            let body = json!({
                "who": { "user": "42" }, "limit": name, "multiplier": 2.4,
                "until": in_seconds(3_600), "reason": "a migration",
            });
            let path = fleet.add(0, &body);
            fleet.all_show(12, &request);
            // On one store, a bucket keeps its tokens and a window its count.
            if shared != Shared::Database {
                let left = if name == "per-user" { 4 } else { 11 };
                assert_eq!(limit(&fleet.peek(last, &request)), (12, left), "{shared:?}: {name}");
            }
            assert_eq!(limit(&fleet.peek(last, &json!({ "user": "43", "path": request["path"] }))).0, 5);
            // The newest wins.
            let lowered = json!({ "who": { "user": ["42", "44"] }, "limit": name, "multiplier": 0.4 });
            let newest = fleet.add(last, &lowered);
            fleet.all_show(2, &request);
            let shown = fleet.peek(0, &request);
            let id = newest.strip_prefix("/overrides/").expect("an id");
            assert_eq!(shown["limits"][0]["override"], id, "{shown}");
            let found =
                fleet.api(0, "POST", "/keys/lookup", &json!({ "request": request })).expect(200).json();
            assert_eq!(found["overrides"][0]["id"], id, "{found}");
            assert_eq!(found["overrides"].as_array().map(Vec::len), Some(1), "only what applies: {found}");
            fleet.api(last, "DELETE", &newest, &Value::Null).expect(200);
            fleet.all_show(12, &request);
            fleet.api(0, "DELETE", &path, &Value::Null).expect(200);
            fleet.all_show(5, &request);
            assert_eq!(fleet.peek(0, &request)["limits"][0].get("override"), None);
            fleet.api(last, "DELETE", &path, &Value::Null).expect(404);
        }
        within(PATIENCE, "the events say who did it", || {
            let added = fleet.events("override_added");
            added.iter().any(|event| event["reason"] == "a migration" && event["actor"].is_string())
                && !fleet.events("override_removed").is_empty()
        });
    }
}

#[test]
fn an_override_ends_by_itself_and_survives_a_restart() {
    for shared in [Shared::Strict, Shared::Database, Shared::Nothing] {
        let mut fleet = LiveFleet::start(shared);
        let kept = json!({
            "who": { "user": "42" }, "limit": "per-user",
            "sustained": { "rate": 60, "window": "hour" }, "burst": { "capacity": 30 },
        });
        let path = fleet.add(0, &kept);
        let brief =
            json!({ "who": { "user": "43" }, "limit": "per-user", "multiplier": 10, "until": in_seconds(4) });
        fleet.add(0, &brief);
        fleet.all_show(30, &user("42"));
        fleet.all_show(50, &user("43"));
        fleet.all_show(5, &user("43"));
        let listed = fleet.api(0, "GET", "/overrides", &Value::Null).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(listed["items"][0]["burst"], json!({ "capacity": 30 }));
        if shared == Shared::Nothing {
            continue;
        }
        for node in 0..fleet.servers.len() {
            fleet.restart(node);
            assert_eq!(limit(&fleet.peek(node, &user("42"))).0, 30, "{shared:?}");
        }
        fleet.api(0, "GET", &path, &Value::Null).expect(200);
    }
}

#[test]
fn when_an_override_was_last_used_is_shown() {
    for shared in [Shared::Database, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let path = fleet.add(0, &json!({ "who": { "user": "42" }, "limit": "per-user", "multiplier": 2 }));
        let shown = |node: usize| fleet.api(node, "GET", &path, &Value::Null).expect(200).json();
        fleet.all_show(10, &user("42"));
        assert_eq!(shown(0)["last_used"], Value::Null, "a look is no use");
        assert_eq!(limit(&fleet.check(last, &user("42"))), (10, 9));
        within(PATIENCE, "every node shows it", || {
            (0..fleet.servers.len()).all(|node| shown(node)["last_used"].is_string())
        });
        let listed = fleet.api(0, "GET", "/overrides", &Value::Null).expect(200).json();
        assert!(listed["items"][0]["last_used"].is_string(), "{listed}");
        let explained =
            fleet.api(last, "POST", "/explain", &json!({ "request": user("42") })).expect(200).json();
        let bucket = &explained["limits"][0]["bucket"];
        let id = path.strip_prefix("/overrides/").expect("an id");
        assert_eq!((&bucket["override"]["id"], &bucket["override"]["refused"]), (&id.into(), &false.into()));
    }
}

#[test]
fn wrong_overrides_are_refused() {
    let fleet = LiveFleet::start(Shared::Nothing);
    let body = |more: Value| {
        let mut body = json!({ "who": { "user": "1" }, "limit": "per-user" });
        for (name, value) in more.as_object().expect("members") {
            body[name] = value.clone();
        }
        body
    };
    for (status, pointer, more) in [
        (422, "/multiplier", json!({})),
        (422, "/multiplier", json!({ "multiplier": 0 })),
        (422, "/multiplier", json!({ "multiplier": 0.005 })),
        (422, "/multiplier", json!({ "multiplier": 100.01 })),
        (422, "/multiplier", json!({ "multiplier": 1.005 })),
        (422, "/multiplier", json!({ "multiplier": 2, "burst": { "capacity": 5 } })),
        (422, "/sustained", json!({ "sustained": { "rate": 0 } })),
        (422, "/sustained", json!({ "sustained": { "rate": 1, "window": "nothing" } })),
        (422, "/sustained", json!({ "limit": "counted", "sustained": { "rate": 5, "window": "7h" } })),
        (422, "/burst", json!({ "burst": { "capacity": 0 } })),
        (422, "/burst", json!({ "limit": "counted", "burst": { "capacity": 5 } })),
        (
            422,
            "/multiplier",
            json!({ "limit": "logged", "sustained": null, "multiplier": 100, "until": "2001-01-01T00:00:00Z" }),
        ),
        (422, "/limit", json!({ "limit": "nope", "multiplier": 2 })),
        (422, "/who", json!({ "who": {}, "multiplier": 2 })),
        (422, "/who", json!({ "who": { "ip": "nowhere" }, "multiplier": 2 })),
        (400, "", json!({ "multiplier": "2" })),
        (400, "", json!({ "multiplier": 2, "more": 1 })),
    ] {
        let body = body(more);
        let refused = fleet.api(0, "POST", "/overrides", &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        if body.get("until").is_none() {
            assert!(pointer.is_empty() || refused.body.contains(pointer), "{body}: {}", refused.body);
        }
    }
    fleet.api(0, "GET", "/overrides/nope", &Value::Null).expect(404);
}

#[test]
fn ancestors_still_bind_and_a_tenant_changes_only_what_is_below_it() {
    let server = Controlled::start(DatabaseKind::Sqlite);
    let (_, admin) = server.token("admin", None);
    let (_, own) = server.token("operator", Some("acme"));
    let (_, viewer) = server.token("viewer", Some("acme"));
    let ask = |token: &str, method: &str, path: &str, body: &Value| {
        server.call(token, method, path, Some(body.clone()).filter(|body| !body.is_null()))
    };
    let body =
        |tenant: &str, limit: &str| json!({ "who": { "tenant": tenant }, "limit": limit, "multiplier": 10 });
    // A private limit binds nobody below.
    let enforced =
        json!({ "id": "acme", "rate_limit": { "sharing": "enforce", "sustained": { "rate": 9 } } });
    ask(&admin, "PUT", "/tenants/acme", &enforced).expect(200);
    let made = ask(&own, "POST", "/overrides", &body("shop", "tenant:shop")).expect(201).json();
    let asked = json!({ "request": { "tenant": "shop" } });
    let explained = ask(&admin, "POST", "/explain", &asked).expect(200).json();
    let limits = explained["decision"]["limits"].as_array().expect("limits");
    let shop = limits.iter().find(|limit| limit["name"] == "tenant:shop").expect("it applies");
    assert_eq!(shop["limit"], 9, "three times ten, but its parent has nine: {explained}");
    // Neither its own limit, nor one of the whole policy, nor somebody else's.
    ask(&own, "POST", "/overrides", &body("acme", "tenant:acme")).expect(403);
    ask(&own, "POST", "/overrides", &body("shop", "per-user")).expect(404);
    ask(&own, "POST", "/overrides", &body("other", "tenant:other")).expect(404);
    ask(
        &own,
        "POST",
        "/overrides",
        &json!({ "who": { "user": "1" }, "limit": "tenant:shop", "multiplier": 2 }),
    )
    .expect(403);
    let others = ask(&admin, "POST", "/overrides", &body("other", "tenant:other")).expect(201).json();
    let above = ask(&admin, "POST", "/overrides", &body("shop", "per-user")).expect(201).json();
    let path = |made: &Value| format!("/overrides/{}", made["id"].as_str().expect("an id"));
    ask(&own, "GET", &path(&others), &Value::Null).expect(404);
    ask(&own, "DELETE", &path(&above), &Value::Null).expect(403);
    let listed = ask(&viewer, "GET", "/overrides", &Value::Null).expect(200).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    ask(&own, "DELETE", &path(&made), &Value::Null).expect(200);
    let audit = ask(&admin, "GET", "/audit?kind=override_added", &Value::Null).expect(200).json();
    assert_eq!(audit["items"].as_array().map(Vec::len), Some(3), "{audit}");
}
