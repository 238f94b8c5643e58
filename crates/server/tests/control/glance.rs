//! The figures of now and of the last hour, over all nodes of a fleet; the stream; `tidegate top`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::access::client::{Controlled, ask, request};
use super::place::on_both;
use crate::support::server::{Server, run, tidegate};
use crate::support::within;

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a node decide: of each user's requests, the first five are within the limit. Every fifth request names a tenant.
fn decide(server: &Server, users: std::ops::Range<u32>, requests: u32) {
    for user in users {
        for number in 0..requests {
            let tenant = if number % 5 == 0 { ",\"tenant\":\"shop\"" } else { "" };
            let body = format!("{{\"user\":\"{user}\"{tenant}}}");
            let headers = [("Content-Type", "application/json")];
            assert!(
                [200, 429].contains(&ask(server.socket("http"), "POST", "/v1/check", &headers, &body).status)
            );
        }
    }
}

/// The sum of a member over all steps.
fn sum(history: &Value, member: &str) -> u64 {
    let steps = history["steps"].as_array().expect("it has steps");
    steps.iter().map(|step| step[member].as_u64().unwrap_or_default()).sum()
}

fn limits_of(history: &Value) -> Vec<String> {
    let steps = history["steps"].as_array().expect("it has steps");
    let mut names: Vec<String> = steps
        .iter()
        .flat_map(|step| step["limits"].as_object().expect("it has limits").keys().cloned())
        .collect();
    names.sort();
    names.dedup();
    names
}

on_both!(
    the_overview_is_of_all_nodes_and_a_partner_sees_its_own,
    a_partner_sees_the_busy_keys_of_its_tenants_on_all_nodes,
);

fn the_overview_is_of_all_nodes_and_a_partner_sees_its_own(kind: DatabaseKind) {
    let one = Controlled::start(kind);
    let other = one.place.start(&[]);
    let get = |token: &str, path: &str| one.call(token, "GET", path, None).expect(200).json();
    decide(&one.server, 0..4, 10);
    decide(&other, 10..14, 10);
    within(PATIENCE, "both nodes and all decisions are seen", || {
        let overview = get(&one.admin, "/overview");
        let ready = overview["nodes"].as_array().map(|nodes| {
            nodes.iter().filter(|node| node["status"] == "ready" && node["mode"] == "local").count()
        });
        // The other node writes a step when it has ended: `live::figures` waits for that.
        let history = get(&one.admin, "/history");
        ready == Some(2) && sum(&history, "allowed") + sum(&history, "denied") >= 40
    });
    let overview = get(&one.admin, "/overview");
    let node = &overview["nodes"][0];
    assert_eq!(
        (&node["status"], &node["mode"], &node["version"]),
        (&"ready".into(), &"local".into(), &1.into())
    );
    assert_eq!((&overview["kill_switch"], &overview["overshoot_bound_tokens"]), (&false.into(), &0.into()));
    let asks =
        |command: &Value| command.as_str().is_some_and(|text| text.contains(&one.server.address("http")));
    assert_eq!(overview["commands"].as_array().map(Vec::len), Some(2), "{overview}");
    assert!(overview["commands"].as_array().into_iter().flatten().any(asks), "{overview}");
    let history = get(&one.admin, "/history");
    assert_eq!(history["step_seconds"], 30);
    assert!(limits_of(&history).contains(&"per-user".to_owned()), "{history}");
    assert!(sum(&history, "denied") > 0, "{history}");
    let keys = get(&one.admin, "/hot-keys?limit=3");
    assert_eq!(
        (keys["consumers"].as_array().map(Vec::len), keys["denied"][0]["limit"].is_string()),
        (Some(3), true)
    );
    let of_user = keys["denied"].as_array().expect("a list").iter().find(|key| key["limit"] == "per-user");
    let of_user = of_user.unwrap_or_else(|| panic!("{keys}"));
    assert_eq!(of_user["request"], json!({ "user": of_user["key"] }), "the request that has this key");

    let (_, partner) = one.token("viewer", Some("acme"));
    let seen = get(&partner, "/overview");
    assert!(
        seen.get("decisions_per_second").is_none()
            && seen.get("nodes").is_none()
            && seen.get("commands").is_none(),
        "{seen}"
    );
    let theirs = limits_of(&get(&partner, "/history"));
    assert!(theirs.iter().all(|name| ["tenant:acme", "tenant:shop"].contains(&name.as_str())), "{theirs:?}");
    assert!(!theirs.is_empty());
    let (_, stranger) = one.token("viewer", Some("other"));
    assert!(limits_of(&get(&stranger, "/history")).is_empty());
}

/// The limits and keys of a list of busy keys, sorted, with their counts.
fn keys_of(lists: &Value, list: &str) -> Vec<(String, String, u64)> {
    let text = |key: &Value, member: &str| key[member].as_str().expect("it is text").to_owned();
    let keys = lists[list].as_array().expect("a list").iter();
    let mut keys: Vec<_> = keys
        .map(|key| (text(key, "limit"), text(key, "key"), key["count"].as_u64().expect("a number")))
        .collect();
    keys.sort();
    keys
}

/// Of one user's requests for each tenant, both nodes deny some.
fn a_partner_sees_the_busy_keys_of_its_tenants_on_all_nodes(kind: DatabaseKind) {
    let one = Controlled::start(kind);
    let limit = "{ name: per-caller, key: [tenant, user], sustained: { rate: 2, window: hour } }";
    let policy = format!(
        "version: 1\nlimits:\n- {limit}\ntenants:\n- {{ id: acme }}\n- {{ id: shop, parent: acme }}\n- {{ id: other }}\n"
    );
    let bearer = format!("Bearer {}", one.admin);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/yaml")];
    ask(one.address(), "PUT", "/api/v1/policy", &headers, &policy).expect(200);
    let two = one.place.start(&[]);
    for (tenant, server) in [("shop", &one.server), ("shop", &two), ("other", &one.server), ("other", &two)] {
        for _ in 0..7 {
            let (headers, body) =
                ([("Content-Type", "application/json")], json!({ "tenant": tenant, "user": "42" }));
            ask(server.socket("http"), "POST", "/v1/check", &headers, &body.to_string());
        }
    }
    let (_, partner) = one.token("viewer", Some("acme"));
    let (_, stranger) = one.token("viewer", Some("other"));
    let key = |tenant: &str, count| ("per-caller".to_owned(), format!("{tenant}, 42"), count);
    let both = |count| vec![key("other", count), key("shop", count)];
    for address in [one.address(), two.socket("admin")] {
        let get = |token: &str| {
            let bearer = format!("Bearer {token}");
            ask(address, "GET", "/api/v1/hot-keys", &[("Authorization", &bearer)], "").expect(200).json()
        };
        // Each node admits two and denies five of each.
        within(PATIENCE, "the keys of both nodes are summed", || {
            let all = get(&one.admin);
            (keys_of(&all, "denied"), keys_of(&all, "consumers")) == (both(10), both(4))
        });
        for (token, tenant) in [(&partner, "shop"), (&stranger, "other")] {
            let seen = get(token);
            assert_eq!(keys_of(&seen, "denied"), [key(tenant, 10)], "{seen}");
            assert_eq!(keys_of(&seen, "consumers"), [key(tenant, 4)], "{seen}");
            assert!(seen["since"].is_string(), "{seen}");
        }
    }
}

#[test]
fn the_stream_sends_an_overview_each_second() {
    let server = Controlled::start(DatabaseKind::Sqlite);
    let bearer = format!("Bearer {}", server.admin);
    let mut connection = TcpStream::connect(server.address()).expect("it listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    let asked = request("GET", "/api/v1/stream", &[("Authorization", &bearer)], "");
    connection.write_all(asked.as_bytes()).expect("it reads");
    let lines = BufReader::new(connection).lines().map(|line| line.expect("it goes on"));
    let (mut events, mut times) = (0, Vec::new());
    for line in lines {
        events += usize::from(line == "event: overview");
        if let Some(data) = line.strip_prefix("data: ") {
            let overview: Value = serde_json::from_str(data).expect("it is JSON");
            times.push(overview["time"].as_str().expect("it has a time").to_owned());
        }
        if times.len() == 3 {
            break;
        }
    }
    assert_eq!(events, 3);
    assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
}

#[test]
fn top_prints_a_screen() {
    let server = Controlled::start(DatabaseKind::Sqlite);
    decide(&server.server, 0..2, 10);
    within(PATIENCE, "its first figures are there", || {
        server.call(&server.admin, "GET", "/overview", None).json()["nodes"][0]["status"] == "ready"
    });
    let url = format!("http://{}", server.address());
    let mut command = tidegate(&["top", "--server", &url]);
    command.env("TIDEGATE_ADMIN_TOKEN", &server.admin);
    let ran = run(command);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for part in [" a second   allowed ", "denied/s", "key, in the last minute", "ready", "(local)"] {
        assert!(ran.out.contains(part), "{part} is missing in:\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "it is not a terminal");
    let mut command = tidegate(&["top", "--server", &url, "--format", "json"]);
    command.env("TIDEGATE_ADMIN_TOKEN", "wrong-token-0123456789-0123456789");
    let refused = run(command);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("401"), "{}", refused.err);
}
