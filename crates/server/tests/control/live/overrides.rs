//! Other numbers of a limit for some clients, for a while.

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds, user};
use crate::control::access::client::Controlled;
use crate::control::place::Place;
use crate::control::policy_client::PolicyServer;
use crate::support::within;

/// The entry of a limit in a decision.
fn limit(decision: &Value) -> (u64, u64) {
    let number = |member: &str| decision["limits"][0][member].as_u64().unwrap_or_default();
    (number("limit"), number("remaining"))
}

impl LiveFleet {
    pub(super) fn add(&self, node: usize, body: &Value) -> String {
        let made = self.api(node, "POST", "/overrides", body).expect(201);
        let location = made.header("location").expect("where it is");
        location.strip_prefix("/api/v1").expect("a path of the API").to_owned()
    }

    /// Waits until every node decides by an override.
    fn all_show_override(&self, request: &Value) {
        for node in 0..self.servers.len() {
            let what = format!("{:?}: node {node} has an override for {request}", self.shared);
            within(PATIENCE, &what, || self.peek(node, request)["limits"][0]["override"].is_string());
        }
    }

    /// Waits until every node shows this limit.
    pub(super) fn all_show(&self, limit_of: u64, request: &Value) {
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
            // A bucket keeps its tokens, at most the burst, and a window its count. A node that counts for itself has counted
            // nothing unless it was asked.
            let counting = if shared == Shared::Database { 0 } else { last };
            let keeps = |decision: Value, of: u64, used: u64, bucket: u64| {
                let left = if name == "per-user" { bucket } else { of - used };
                assert_eq!(limit(&decision), (of, left), "{shared:?}: {name}");
            };
            keeps(fleet.peek(counting, &request), 12, 1, 4);
            assert_eq!(limit(&fleet.peek(last, &json!({ "user": "43", "path": request["path"] }))).0, 5);
            // The newest wins.
            let lowered = json!({ "who": { "user": ["42", "44"] }, "limit": name, "multiplier": 0.4 });
            let newest = fleet.add(last, &lowered);
            fleet.all_show(2, &request);
            keeps(fleet.peek(counting, &request), 2, 1, 2);
            keeps(fleet.check(counting, &request), 2, 2, 1);
            let shown = fleet.peek(0, &request);
            let id = newest.strip_prefix("/overrides/").expect("an id");
            assert_eq!(shown["limits"][0]["override"], id, "{shown}");
            let found =
                fleet.api(0, "POST", "/keys/lookup", &json!({ "request": request })).expect(200).json();
            assert_eq!(found["overrides"][0]["id"], id, "{found}");
            assert_eq!(found["overrides"].as_array().map(Vec::len), Some(1), "only what applies: {found}");
            fleet.api(last, "DELETE", &newest, &Value::Null).expect(200);
            fleet.all_show(12, &request);
            keeps(fleet.peek(counting, &request), 12, 2, 1);
            fleet.api(0, "DELETE", &path, &Value::Null).expect(200);
            fleet.all_show(5, &request);
            keeps(fleet.peek(counting, &request), 5, 2, 1);
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

/// Whoever is denied takes nothing, and must not wait for what the numbers of before would bring.
#[test]
fn new_numbers_count_at_once_for_whoever_is_denied_already() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        let nodes = 0..fleet.servers.len();
        let deny_everywhere = |request: &Value| {
            for node in nodes.clone() {
                within(PATIENCE, "the bucket is empty", || fleet.check(node, request)["allowed"] == false);
            }
        };
        deny_everywhere(&user("42"));
        let fast = json!({ "who": { "user": "42" }, "limit": "per-user", "sustained": { "rate": 5, "window": "second" } });
        fleet.add(0, &fast);
        for node in nodes.clone() {
            let what = format!("{shared:?}: node {node} admits at the rate of the override");
            within(PATIENCE, &what, || fleet.check(node, &user("42"))["allowed"] == true);
        }
        let slow = json!({ "who": { "user": "43" }, "limit": "per-user", "sustained": { "rate": 1, "window": "day" } });
        let path = fleet.add(0, &slow);
        fleet.all_show_override(&user("43"));
        deny_everywhere(&user("43"));
        fleet.api(0, "DELETE", &path, &Value::Null).expect(200);
        for node in nodes.clone() {
            let what = format!("{shared:?}: node {node} waits for the rate of the limit");
            let wait = || fleet.peek(node, &user("43"))["retry_after_ms"].as_u64();
            within(PATIENCE, &what, || wait().is_some_and(|wait| wait <= 720_000));
        }
    }
}

/// Nodes write the bucket when they learn of the change. If the store does not answer then, they do it when it does.
#[test]
fn new_numbers_count_though_the_store_was_away_when_they_changed() {
    let fleet = LiveFleet::start(Shared::Both);
    let nodes = 0..fleet.servers.len();
    let slow =
        json!({ "who": { "user": "43" }, "limit": "per-user", "sustained": { "rate": 1, "window": "day" } });
    let path = fleet.add(0, &slow);
    fleet.all_show_override(&user("43"));
    within(PATIENCE, "the bucket is empty", || fleet.check(0, &user("43"))["allowed"] == false);
    fleet.signal_redis(Signal::STOP);
    fleet.api(0, "DELETE", &path, &Value::Null).expect(200);
    for node in nodes.clone() {
        let what = format!("node {node} has no override any more");
        within(PATIENCE, &what, || fleet.peek(node, &user("43"))["limits"][0].get("override").is_none());
        within(PATIENCE, &format!("node {node} decides without its store"), || !fleet.has_store(node));
    }
    fleet.signal_redis(Signal::CONT);
    for node in nodes {
        within(PATIENCE, &format!("node {node} has its store again"), || fleet.has_store(node));
        let what = format!("node {node} waits for the rate of the limit");
        let wait = || fleet.peek(node, &user("43"))["retry_after_ms"].as_u64();
        within(PATIENCE, &what, || wait().is_some_and(|wait| (1..=720_000).contains(&wait)));
    }
}

#[test]
fn when_an_override_was_last_used_is_shown() {
    for shared in [Shared::Strict, Shared::Database, Shared::Nothing] {
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
        (422, "/burst", json!({ "burst": {} })),
        (422, "/burst", json!({ "sustained": { "rate": 5 }, "burst": {} })),
        (422, "/burst", json!({ "burst": { "capacity": 5, "allowance": 2 } })),
        (422, "/limit", json!({ "limit": "nope", "burst": { "allowance": 2 } })),
        (422, "/burst", json!({ "limit": "counted", "burst": { "capacity": 5 } })),
        (
            422,
            "/multiplier",
            json!({ "limit": "logged", "sustained": null, "multiplier": 100, "until": "2001-01-01T00:00:00Z" }),
        ),
        (422, "/limit", json!({ "limit": "nope", "multiplier": 2 })),
        (422, "/sustained", json!({ "limit": "logged", "sustained": { "rate": 5001, "window": "hour" } })),
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
    for (told, more) in [
        (
            "`counted` counts per day",
            json!({ "limit": "counted", "sustained": { "rate": 1, "window": "366d" } }),
        ),
        ("or a duration such as", json!({ "sustained": { "rate": 1, "window": "fortnight" } })),
        ("must be a whole number from 1 to", json!({ "sustained": { "rate": 0 } })),
        ("must be a whole number from 1 to", json!({ "burst": { "capacity": 0 } })),
        ("did you mean `per-user`?", json!({ "limit": "per_usr", "multiplier": 2 })),
        ("expected a number", json!({ "multiplier": "2" })),
    ] {
        let body = body(more);
        let refused = fleet.api(0, "POST", "/overrides", &body);
        assert!(refused.body.contains(told), "{body}: {}", refused.body);
    }
}

/// Such an override would never apply.
#[test]
fn numbers_that_the_store_cannot_count_are_refused() {
    let daily = json!({ "who": { "tenant": "1" }, "limit": "daily", "multiplier": 0.37 });
    let fleet = LiveFleet::start(Shared::Strict);
    let refused = fleet.api(0, "POST", "/overrides", &daily).expect(422).json();
    assert_eq!(refused["pointer"], "/multiplier", "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|why| why.contains("cannot count")), "{refused}");
    let alone = LiveFleet::start(Shared::Nothing);
    let path = alone.add(0, &daily);
    alone.api(0, "DELETE", &path, &Value::Null).expect(200);
}

/// Otherwise a cut to three an hour would be a raise to three a second.
#[test]
fn a_rate_without_a_window_is_in_the_window_of_the_limit() {
    for shared in [Shared::Strict, Shared::Database, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        for (name, window) in [("per-user", "hour"), ("counted", "day"), ("logged", "hour")] {
            let wanted = json!({ "who": { "user": "42" }, "limit": name, "sustained": { "rate": 3 } });
            let made = fleet.api(0, "POST", "/overrides", &wanted).expect(201).json();
            let meant = json!({ "rate": 3, "window": window });
            assert_eq!(made["sustained"], meant, "{shared:?}: {made}");
            let path = format!("/overrides/{}", made["id"].as_str().expect("an id"));
            let shown = fleet.api(0, "GET", &path, &Value::Null).expect(200).json();
            assert_eq!(shown["sustained"], meant, "{shared:?}: {shown}");
        }
        fleet.all_show(3, &json!({ "user": "42", "path": "/window" }));
        let asked = json!({ "request": user("42") });
        let found = fleet.api(0, "POST", "/keys/lookup", &asked).expect(200).json();
        let limit = &found["explanation"]["limits"][0]["bucket"]["limit"];
        assert!(limit.as_str().is_some_and(|limit| limit.contains("1 per 1200s")), "{shared:?}: {found}");
        if shared == Shared::Database {
            let audit = fleet.api(0, "GET", "/audit?kind=override_added", &Value::Null).expect(200).json();
            let windows = audit["items"].as_array().expect("a list").iter();
            let windows: Vec<&Value> = windows.map(|item| &item["detail"]["sustained"]["window"]).collect();
            assert_eq!(windows, ["hour", "day", "hour"], "{audit}");
        }
    }
}

#[test]
fn a_window_is_demanded_where_the_limit_has_several() {
    const POLICY: &str = "version: 1
limits:
- { name: bucket, sustained: { rate: 10, window: 90s } }
- { name: per-ip, algorithm: sliding_window, key: [ip], sustained: { rate: 20, window: minute } }
tenants:
- { id: top, rate_limit: { sharing: enforce, sustained: { rate: 10, window: minute } } }
- { id: below, parent: top, rate_limit: { sustained: { rate: 9, window: second } } }
";
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, POLICY);
    let add = |limit: &str, sustained: Value| {
        let body = json!({ "who": { "user": "42" }, "limit": limit, "sustained": sustained });
        server.api.post("/overrides", &body)
    };
    for (limit, window) in [("bucket", "90s"), ("per-ip", "minute"), ("tenant:top", "minute")] {
        for rate in [json!({ "rate": 3 }), json!({ "rate": 3, "window": null })] {
            let made = add(limit, rate).expect(201).json();
            assert_eq!(made["sustained"], json!({ "rate": 3, "window": window }), "{limit}");
        }
    }
    let told = |limit: &str, sustained: Value| {
        let refused = add(limit, sustained).expect(422).json();
        assert_eq!(refused["pointer"], "/sustained", "{refused}");
        refused["detail"].as_str().unwrap_or_default().to_owned()
    };
    // Its own rate is by the second, and what its parent leaves it by the minute.
    let several = told("tenant:below", json!({ "rate": 3 }));
    assert!(several.contains("different windows (second, minute): give a window"), "{several}");
    add("tenant:below", json!({ "rate": 3, "window": "second" })).expect(201);
    // Less than one a window, and no whole number of them.
    for rate in [5, 61] {
        let hourly = told("per-ip", json!({ "rate": rate, "window": "hour" }));
        assert_eq!(hourly, "`per-ip` counts per minute: give a whole number for that window");
    }
    add("per-ip", json!({ "rate": 120, "window": "hour" })).expect(201);
}

/// Each of three nodes has a third of a rate, which it may write with a longer window.
#[test]
fn the_window_of_a_limit_is_not_that_of_a_share() {
    let place = Place::new(DatabaseKind::Sqlite);
    let settings = place.home.write("nodes.yaml", "store: { nodes: 3 }\n");
    let server = PolicyServer::start_in(place, &["--config", &settings]);
    let policy = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 10, window: minute } }\n";
    server.api.ask("PUT", "/policy", &["Content-Type: application/yaml"], policy).expect(200);
    let body = json!({ "who": { "user": "42" }, "limit": "a", "sustained": { "rate": 6 } });
    let made = server.api.post("/overrides", &body).expect(201).json();
    assert_eq!(made["sustained"], json!({ "rate": 6, "window": "minute" }));
    let body = json!({ "who": { "user": "42" }, "limit": "a", "burst": { "allowance": 1.5 } });
    let made = server.api.post("/overrides", &body).expect(201).json();
    assert_eq!(made["burst"], json!({ "capacity": 15 }), "of the rate that is written in the policy");
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
    // Of other limits it does not even learn the names.
    let unknown = ask(&own, "POST", "/overrides", &body("shop", "tenant:shop/othr"));
    assert!(unknown.status >= 400 && !unknown.body.contains("did you mean"), "{}", unknown.body);
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
