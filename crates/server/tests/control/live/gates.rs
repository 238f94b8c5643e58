//! Clients that are blocked or exempt for a while.

use serde_json::{Value, json};

use tidegate_database::DatabaseKind;

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds, user};
use crate::control::access::client::Controlled;
use crate::support::within;

#[test]
fn a_block_and_an_exemption_are_in_force_everywhere_until_they_are_removed() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let body = json!({ "who": { "user": "42" }, "until": in_seconds(3_600), "reason": "abuse" });
        let made = fleet.api(0, "POST", "/keys/block", &body).expect(201);
        let location = made.header("location").expect("where it is").to_owned();
        fleet.all_say("blocked", &user("42"));
        let blocked = fleet.check(last, &user("42"));
        assert_eq!((&blocked["violated_rule"], &blocked["limit"]), (&"block".into(), &(-1).into()));
        assert!(blocked["retry_after_ms"].as_u64().is_some_and(|wait| wait <= 3_600_000), "{blocked}");
        fleet.all_say("ok", &user("43"));
        // An exemption does not lift a block, and lifts a limit.
        fleet.api(last, "POST", "/keys/allow", &json!({ "who": { "user": ["42", "44"] } })).expect(201);
        fleet.all_say("allowlisted", &user("44"));
        fleet.all_say("blocked", &user("42"));
        let listed = fleet.api(last, "GET", "/keys/live", &Value::Null).expect(200).json();
        let kinds: Vec<&str> = listed["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["allow", "block"], "newest first");
        assert_eq!(listed["items"][1]["reason"], "abuse");
        // Any node can end it.
        let path = location.strip_prefix("/api/v1").expect("a path of the API");
        fleet.api(last, "DELETE", path, &Value::Null).expect(200);
        fleet.all_say("allowlisted", &user("42"));
        fleet.api(0, "DELETE", path, &Value::Null).expect(404);
        within(PATIENCE, "the events say who did it", || {
            fleet.events("key_blocked").iter().any(|event| {
                event["user"] == "42" && event["reason"] == "abuse" && event["actor"].is_string()
            })
        });
    }
}

#[test]
fn what_is_known_stays_in_force_while_redis_is_away() {
    let mut fleet = LiveFleet::start(Shared::Strict);
    fleet.api(0, "POST", "/keys/block", &json!({ "who": { "user": "42" } })).expect(201);
    fleet.all_say("blocked", &user("42"));
    fleet.lose_redis();
    fleet.all_say("blocked", &user("42"));
    let refused = fleet.api(0, "POST", "/keys/block", &json!({ "who": { "user": "43" } }));
    assert_eq!(refused.status, 503, "{}", refused.body);
}

#[test]
fn wrong_bodies_are_refused() {
    let fleet = LiveFleet::start(Shared::Nothing);
    for (status, body) in [
        (422, json!({ "who": {} })),
        (422, json!({ "who": { "ip": "nowhere" } })),
        (422, json!({ "who": { "enabled": false } })),
        (422, json!({ "who": { "user": "1" }, "until": "2001-01-01T00:00:00Z" })),
        (422, json!({ "who": { "user": "1" }, "until": "tomorrow" })),
        (422, json!({ "who": { "user": "1" }, "reason": "x".repeat(2_000) })),
        (400, json!({ "user": "1" })),
        (400, json!({ "who": { "user": "1" }, "more": 1 })),
    ] {
        let refused = fleet.api(0, "POST", "/keys/block", &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    let pages = |path: &str| fleet.api(0, "GET", path, &Value::Null);
    for name in ["a", "b", "c"] {
        fleet.api(0, "POST", "/keys/block", &json!({ "who": { "user": name } })).expect(201);
    }
    let first = pages("/keys/live?limit=2").json();
    let next = first["next"].as_str().expect("there is more");
    let second = pages(&format!("/keys/live?limit=2&cursor={next}")).json();
    assert_eq!(
        (first["items"].as_array().map(Vec::len), second["items"].as_array().map(Vec::len)),
        (Some(2), Some(1))
    );
    assert_eq!(second["next"], Value::Null);
    assert_eq!(pages("/keys/live?q=%22b%22").json()["items"].as_array().map(Vec::len), Some(1));
    pages("/keys/live?cursor=x").expect(400);
}

#[test]
fn secrets_are_masked_and_a_tenant_cannot_lift_what_others_have_imposed() {
    let server = Controlled::start(DatabaseKind::Sqlite);
    let (_, admin) = server.token("admin", None);
    let (_, operator) = server.token("operator", None);
    let (_, own) = server.token("operator", Some("acme"));
    let ask = |token: &str, method: &str, path: &str, body: &Value| {
        server.call(token, method, path, Some(body.clone()).filter(|body| !body.is_null()))
    };
    let who = json!({ "who": { "tenant": "shop", "header:x-api-key": "secret-key-1" } });
    let made = ask(&admin, "POST", "/keys/block", &who).expect(201);
    assert_eq!(made.json()["who"]["header:x-api-key"], "secret-key-1");
    for token in [&operator, &own] {
        let listed = ask(token, "GET", "/keys/live", &Value::Null).expect(200);
        assert!(listed.body.contains("shop") && !listed.body.contains("secret-key-1"), "{}", listed.body);
    }
    let asked = json!({ "request": { "tenant": "shop", "headers": { "x-api-key": "secret-key-1" } } });
    let explained = ask(&operator, "POST", "/explain", &asked).expect(200);
    assert_eq!(explained.json()["gate"]["live"], true, "{}", explained.body);
    assert!(!explained.json()["gate"].to_string().contains("secret-key-1"), "{}", explained.body);
    let path = format!("/keys/live/{}", made.json()["id"].as_str().expect("an id"));
    ask(&own, "DELETE", &path, &Value::Null).expect(403);
    // What it has added itself it may remove; about others it may not say anything.
    ask(&own, "POST", "/keys/block", &json!({ "who": { "user": "1" } })).expect(403);
    ask(&own, "POST", "/keys/block", &json!({ "who": { "tenant": ["shop", "other"] } })).expect(404);
    let made =
        ask(&own, "POST", "/keys/block", &json!({ "who": { "tenant": "shop", "user": "1" } })).expect(201);
    let path = format!("/keys/live/{}", made.json()["id"].as_str().expect("an id"));
    ask(&own, "DELETE", &path, &Value::Null).expect(200);
    let audit = ask(&admin, "GET", "/audit?kind=key_blocked", &Value::Null).expect(200);
    assert_eq!(audit.json()["items"].as_array().map(Vec::len), Some(2), "{}", audit.body);
    assert!(!audit.body.contains("secret-key-1"), "{}", audit.body);
    let removed = ask(&own, "GET", "/audit?kind=live_entry_removed", &Value::Null).expect(200).json();
    assert_eq!(removed["items"][0]["detail"]["who"]["user"], "1");
}
