//! Nodes with a shared store and a database: they wake each other, follow what the database has, and publish nothing that
//! the store cannot count.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_database::{HistoryFilter, PageRequest};

use super::access::client::ask;
use super::policy_client::{PolicyServer, data_folder};
use super::{on_database, sqlite_url};
use crate::support::home::{Home, policy};
use crate::support::redis::Redis;
use crate::support::server::{run, tidegate};
use crate::support::within;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a store on this Redis and its data in the folder `data` of a home.
fn start(home: &Home, redis: &Redis) -> PolicyServer {
    let config = home.write("tidegate.yaml", &redis.settings("strict"));
    let data = data_folder(home);
    PolicyServer::start_in(Home::new(), &["--config", &config, "--data", &data])
}

fn metric(server: &PolicyServer, name: &str) -> u64 {
    let page = ask(server.server.socket("admin"), "GET", "/metrics", &[], "").body;
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

fn put(server: &PolicyServer, text: &str) -> u64 {
    let reply = server.api.ask("PUT", "/policy", &["Content-Type: application/yaml"], text).expect(200);
    reply.json()["version"].as_u64().expect("a version")
}

fn runs(server: &PolicyServer) -> u64 {
    metric(server, "tidegate_policy_version")
}

#[test]
fn a_write_wakes_the_other_nodes_by_the_store() {
    let (home, mut redis) = (Home::new(), Redis::start());
    let (writer, other) = (start(&home, &redis), start(&home, &redis));
    let woken = |server: &PolicyServer| metric(server, "tidegate_wake_ups_total");
    within(PATIENCE, "both are connected, and have looked", || woken(&writer) == 1 && woken(&other) == 1);
    let version = put(&writer, &policy(41));
    within(PATIENCE, "the message has arrived", || woken(&other) == 2 && woken(&writer) == 2);
    within(PATIENCE, "the other node runs it", || runs(&other) == version);
    // Somebody else may use the channel: the nodes look, and find nothing new.
    assert_eq!(redis.cli(&["PUBLISH", "tidegate:1:wake", "policy"]), "2");
    within(PATIENCE, "they look", || woken(&other) == 3);
    assert_eq!(runs(&other), version);
    // Without the store, the file itself is looked at.
    redis.kill();
    let version = put(&writer, &policy(42));
    within(PATIENCE, "the other node runs it all the same", || runs(&other) == version);
    other.server.logged(&["the store wakes no nodes"]);
}

#[test]
fn a_version_that_the_store_cannot_count_is_not_published() {
    let (home, redis) = (Home::new(), Redis::start());
    let server = start(&home, &redis);
    let good = json!({ "name": "good", "key": ["user"], "sustained": { "rate": 1 } });
    server.api.post("/limits", &good).expect(201);
    let before = server.api.policy();
    let slow = json!({ "name": "slow", "key": ["user"], "sustained": { "rate": 7, "window": "61d" } });
    let refused = server.api.post("/limits", &slow).expect(422).json();
    let problem = &refused["problems"][0];
    let limits = server.api.read("/limits?limit=1000")["items"].as_array().map_or(0, Vec::len);
    assert_eq!(problem["path"], format!("limits[{limits}]"), "{refused}");
    assert!(problem["line"].as_u64() > Some(1) && refused.to_string().contains("`slow`"), "{refused}");
    let tenant = json!({ "id": "acme", "rate_limit": { "sustained": { "rate": 7, "window": "61d" } } });
    let refused = server.api.post("/tenants", &tenant).expect(422).json();
    assert_eq!(refused["problems"][0]["path"], "tenants[0].rate_limit", "{refused}");
    assert_eq!(server.api.policy(), before, "nothing was written");
    // A node without the store can count them.
    let local = PolicyServer::start();
    local.api.post("/limits", &slow).expect(201);
}

#[test]
fn a_node_that_cannot_run_a_version_says_why_until_it_runs_another() {
    let (home, redis) = (Home::new(), Redis::start());
    let data = data_folder(&home);
    let shared = start(&home, &redis);
    let local = PolicyServer::start_in(Home::new(), &["--data", &data]);
    let slow = json!({ "name": "slow", "key": ["user"], "sustained": { "rate": 7, "window": "61d" } });
    local.api.post("/limits", &slow).expect(201);
    let errors = || -> Vec<Value> {
        let nodes = local.api.read("/nodes");
        let nodes = nodes["items"].as_array().expect("a list").iter();
        nodes.map(|node| node["error"].clone()).filter(|error| !error.is_null()).collect()
    };
    within(PATIENCE, "the node with the store says why", || {
        errors()
            .iter()
            .any(|error| error.to_string().contains("version 2") && error.to_string().contains("`slow`"))
    });
    assert_eq!((runs(&shared), runs(&local)), (1, 2), "and keeps the last good one");
    // Published through that node itself.
    shared.api.delete("/limits/slow").expect(200);
    within(PATIENCE, "it has no error any more", || errors().is_empty() && runs(&shared) == 3);
    let ready = ask(shared.server.socket("admin"), "GET", "/readyz", &[], "").body;
    assert!(!ready.contains("slow"), "{ready}");
}

#[test]
fn another_text_of_the_same_number_is_followed_after_a_restore() {
    let home = Home::new();
    let data = data_folder(&home);
    let [one, other] = [(); 2].map(|()| PolicyServer::start_in(Home::new(), &["--data", &data]));
    let backup = home.arg("backup.db");
    assert_eq!(run(tidegate(&["backup", "--data", &data, "--out", &backup])).code, Some(0));
    // The second version of the backup, and another second version.
    let elsewhere = Home::new();
    let copy = data_folder(&elsewhere);
    std::fs::copy(&backup, format!("{copy}/tidegate.db")).expect("a copy");
    {
        let there = PolicyServer::start_in(Home::new(), &["--data", &copy]);
        assert_eq!(put(&there, &policy(91)), 2);
    }
    let second = home.arg("second.db");
    assert_eq!(run(tidegate(&["backup", "--data", &copy, "--out", &second])).code, Some(0));
    assert_eq!(put(&one, &policy(92)), 2);
    within(PATIENCE, "both run it", || [&one, &other].iter().all(|node| node.api.policy().contains("92")));
    let restored = run(tidegate(&["restore", "--data", &data, "--from", &second, "--yes"]));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    within(PATIENCE, "both run the other text of that number", || {
        [&one, &other].iter().all(|node| node.api.policy().contains("91") && runs(node) == 2)
    });
}

#[test]
fn a_new_exemption_is_in_the_audit_once_with_who_and_why() {
    let home = Home::new();
    let data = data_folder(&home);
    let [one, other] = [(); 2].map(|()| PolicyServer::start_in(Home::new(), &["--data", &data]));
    let entry = json!({ "header:x-api-key": "secret-of-a-partner", "reason": "a partner" });
    one.api.post("/allow?reason=contract+7", &entry).expect(201);
    within(PATIENCE, "the other node runs it", || runs(&other) == 2);
    // It has what another node has published meanwhile, and adds one more.
    let version = put(&other, "version: 1\nallow: [{ user: \"7\" }, { user: \"8\" }]\n");
    within(PATIENCE, "the first runs it", || runs(&one) == version);
    put(&one, "version: 1\nallow: [{ user: \"8\" }, { user: \"7\" }] # in another order\n");
    let rows = on_database(&sqlite_url(&home), async |database| {
        let page =
            database.audit(&HistoryFilter::default(), &PageRequest::default()).await.expect("it answers");
        assert_eq!(database.verify(|_, _| {}).await.expect("it answers").broken, None);
        page.items
    });
    let added: Vec<_> = rows.iter().filter(|row| row.entry.event == "rate_limit_whitelist_added").collect();
    let versions: Vec<_> = added.iter().map(|row| row.entry.policy_version).collect();
    assert_eq!(versions, [Some(3), Some(3), Some(2)], "{added:#?}");
    assert!(added.iter().all(|row| row.entry.actor.is_some() && row.entry.node.is_some()), "{added:#?}");
    assert_eq!(added[2].entry.reason.as_deref(), Some("contract 7"));
    let mut users: Vec<_> = added[..2].iter().map(|row| row.entry.personal.user_id.as_deref()).collect();
    users.sort_unstable();
    assert_eq!(users, [Some("7"), Some("8")]);
    assert!(!format!("{rows:?}").contains("secret-of-a-partner"));
    let changes = rows.iter().filter(|row| row.entry.event == "rate_limit_config_updated").count();
    assert_eq!(changes, 4, "one for each version: {rows:#?}");
}
