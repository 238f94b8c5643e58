//! Facts and outcomes of users in both databases: on every node, in the audit, and erased.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::fleet_node::{FleetNode, send_to};
use super::place::{Place, on_both};
use crate::http::client::Client;
use crate::support::within;

/// Longer than anything takes, also on a busy machine; nodes follow within a second.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

const POLICY: &str = "version: 1\nadaptive: { trust: true }\nlimits:\n\
    - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 100 } }\n";

on_both!(
    three_nodes_follow_what_is_told,
    a_batch_is_one_entry_of_the_audit_and_is_counted_once,
    facts_of_a_batch_are_in_the_audit_of_each_user,
    an_erased_user_is_forgotten_by_running_nodes,
);

fn node(place: &Place) -> FleetNode {
    let settings = format!("database: {{ url: \"{}\" }}\ntrust: {{}}\n", place.url);
    FleetNode::start(&["--config", &place.home.write("trusting.yaml", &settings)])
}

fn put(node: &FleetNode, user: &str, facts: &Value) -> Value {
    let call = format!("PUT /trust/{user}");
    node.send(&call, "application/json", &[("X-Reason", "checked")], &facts.to_string()).expect(200).json()
}

/// The capacity of a user's bucket on a node.
fn capacity(node: &FleetNode, user: &str) -> Value {
    let mut client = Client::connect(node.server.socket("http"));
    client.post("/v1/peek", json!({ "user": user }).to_string()).json()["limit"].clone()
}

#[track_caller]
fn all_hold(nodes: &[FleetNode], user: &str, wanted: u64) {
    for (number, node) in nodes.iter().enumerate() {
        within(PATIENCE, &format!("node {number} holds {wanted} for {user}"), || {
            capacity(node, user) == wanted
        });
    }
}

fn three_nodes_follow_what_is_told(kind: DatabaseKind) {
    let place = Place::new(kind);
    let mut nodes = [(); 3].map(|()| node(&place));
    nodes[0].put_policy(POLICY);
    put(&nodes[0], "ann", &json!({ "email_verified": true, "success_rate": 0.5 }));
    all_hold(&nodes, "ann", 145);
    nodes[1].post("/trust/outcomes", &json!({ "outcomes": [{ "user": "ann", "successes": 1 }] })).expect(200);
    all_hold(&nodes, "ann", 170);
    nodes[2] = node(&place);
    assert_eq!(capacity(&nodes[2], "ann"), 170, "from the first request on");
    put(&nodes[2], "ann", &json!({}));
    all_hold(&nodes, "ann", 150);
}

fn a_batch_is_one_entry_of_the_audit_and_is_counted_once(kind: DatabaseKind) {
    let place = Place::new(kind);
    let nodes = [(); 2].map(|()| node(&place));
    let outcomes: Vec<Value> =
        (0..1_000).map(|user| json!({ "user": user.to_string(), "successes": 1 })).collect();
    let body = json!({ "outcomes": outcomes }).to_string();
    // Repeated on another node, also at the same time.
    std::thread::scope(|scope| {
        for node in [0, 1, 0] {
            let (body, address) = (&body, nodes[node].server.socket("admin"));
            scope.spawn(move || {
                let headers = [("Idempotency-Key", "nightly")];
                let told =
                    send_to(address, "POST /trust/outcomes", "application/json", &headers, body).expect(200);
                assert_eq!(told.json(), json!({ "users": 1_000 }));
            });
        }
    });
    put(&nodes[1], "999", &json!({ "email_verified": false }));
    within(PATIENCE, "both nodes have the last user", || {
        nodes.iter().all(|node| node.read("/trust/999").json()["facts"] == json!({ "email_verified": false }))
    });
    assert_eq!(nodes[1].read("/trust/999").json()["outcomes"], json!({ "successes": 1, "failures": 0 }));
    let audit = nodes[0].read("/audit?kind=trust_changed").json();
    let items = audit["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2, "{audit}");
    assert_eq!((&items[1]["kind"], &items[1]["count"]), (&"outcomes".into(), &1_000.into()));
    assert_eq!((&items[0]["kind"], &items[0]["user"]), (&"facts".into(), &"999".into()));
    assert_eq!((&items[0]["reason"], &items[0]["actor"].is_string()), (&"checked".into(), &true));
    assert_eq!(items[0]["detail"]["facts"], json!({ "email_verified": false }));
}

fn facts_of_a_batch_are_in_the_audit_of_each_user(kind: DatabaseKind) {
    let place = Place::new(kind);
    let node = node(&place);
    let audit = || node.read("/audit?kind=trust_changed&limit=1000").json()["items"].clone();
    for empty in [("/trust/facts", json!({ "facts": [] })), ("/trust/outcomes", json!({ "outcomes": [] }))] {
        assert_eq!(node.post(empty.0, &empty.1).expect(200).json(), json!({ "users": 0 }));
    }
    assert_eq!(audit(), json!([]), "nothing was changed");
    let facts =
        |number: u32| json!({ "user": format!("u{number}"), "email_verified": number.is_multiple_of(2) });
    let batch = json!({ "facts": (0..1_000).map(facts).collect::<Vec<Value>>() });
    node.post("/trust/facts?reason=import", &batch).expect(200);
    let items = audit();
    let items = items.as_array().expect("a list");
    assert_eq!(items.len(), 1_000);
    for (user, is_verified) in [("u0", true), ("u999", false)] {
        let entry = items.iter().find(|entry| entry["user"] == user);
        let entry = entry.unwrap_or_else(|| panic!("{user} is not in the audit"));
        assert_eq!((&entry["kind"], &entry["count"]), (&"facts".into(), &1.into()));
        assert_eq!((&entry["reason"], &entry["actor"].is_string()), (&"import".into(), &true));
        assert_eq!(entry["detail"]["facts"], json!({ "email_verified": is_verified }));
    }
    let erased = place.run(&["audit", "erase", "--user", "u7", "--yes"]);
    assert_eq!(erased.code, Some(0), "{}", erased.err);
    assert!(audit().as_array().expect("a list").iter().all(|entry| entry["user"] != "u7"));
}

fn an_erased_user_is_forgotten_by_running_nodes(kind: DatabaseKind) {
    let place = Place::new(kind);
    let nodes = [(); 2].map(|()| node(&place));
    for user in ["mallory", "ann"] {
        put(&nodes[0], user, &json!({ "email_verified": true }));
    }
    let score = |node: &FleetNode, user: &str| node.read(&format!("/trust/{user}")).json()["score"].clone();
    within(PATIENCE, "both nodes know both", || {
        nodes.iter().all(|node| score(node, "mallory") == 0.2 && score(node, "ann") == 0.2)
    });
    let erased = place.run(&["audit", "erase", "--user", "mallory", "--yes"]);
    assert_eq!(erased.code, Some(0), "{}", erased.err);
    within(PATIENCE, "no node knows the user", || nodes.iter().all(|node| score(node, "mallory") == 0.0));
    assert!(nodes.iter().all(|node| score(node, "ann") == 0.2));
    assert_eq!(place.texts("SELECT user_id FROM trust_accounts"), ["ann"]);
}

#[test]
fn without_trust_in_the_settings_the_routes_say_so() {
    let place = Place::new(DatabaseKind::Sqlite);
    let settings = format!("database: {{ url: \"{}\" }}\n", place.url);
    let node = FleetNode::start(&["--config", &place.home.write("plain.yaml", &settings)]);
    for (call, body) in
        [("GET /trust/1", ""), ("PUT /trust/1", "{}"), ("POST /trust/outcomes", "{\"outcomes\":[]}")]
    {
        let refused = node.send(call, "application/json", &[], body).expect(409);
        assert!(refused.body.contains("add `trust: {}` to the settings"), "{}", refused.body);
    }
}
