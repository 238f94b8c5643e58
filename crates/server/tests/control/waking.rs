//! Nodes with a shared store and a database: they wake each other, follow what the database has, and publish nothing that
//! the store cannot count.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_database::{HistoryFilter, PageRequest};
use tidegate_redis::{RedisClientOptions, WakeTopic, WakeUps};

use super::access::client::ask;
use super::fleet_node::{FleetNode, data_folder, send_to};
use super::{on_database, on_runtime};
use crate::support::home::{Home, policy};
use crate::support::postgres::Postgres;
use crate::support::redis::Redis;
use crate::support::server::{run, tidegate};
use crate::support::within;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a store on this Redis and its data in the folder `data` of a home.
fn start(home: &Home, redis: &Redis) -> FleetNode {
    let config = home.write("tidegate.yaml", &redis.settings("strict"));
    FleetNode::start(&["--config", &config, "--data", &data_folder(home)])
}

/// One of two nodes writes, and the message wakes the other.
fn wakes_the_other(start: impl Fn(&Redis) -> FleetNode) {
    let mut redis = Redis::start();
    let (writer, other) = (start(&redis), start(&redis));
    let woken = |node: &FleetNode| node.metric("tidegate_wake_ups_total");
    within(PATIENCE, "both are connected, and have looked", || woken(&writer) == 1 && woken(&other) == 1);
    let version = writer.put_policy(&policy(41));
    within(PATIENCE, "the message has arrived", || woken(&other) == 2 && woken(&writer) == 2);
    within(PATIENCE, "the other node runs it", || other.runs() == version);
    // Somebody else may use the channel: the nodes look, and find nothing new.
    assert_eq!(redis.cli(&["PUBLISH", "tidegate:1:wake", "policy"]), "2");
    within(PATIENCE, "they look", || woken(&other) == 3);
    assert_eq!(other.runs(), version);
    // Without the store, the database itself is looked at.
    redis.kill();
    let version = writer.put_policy(&policy(42));
    within(PATIENCE, "the other node runs it all the same", || other.runs() == version);
    other.server.logged(&["the store wakes no nodes"]);
}

#[test]
fn a_write_to_sqlite_wakes_the_other_nodes_by_the_store() {
    let home = Home::new();
    wakes_the_other(|redis| start(&home, redis));
}

#[test]
fn a_write_to_postgres_wakes_the_other_nodes_by_the_store() {
    let (home, postgres) = (Home::new(), Postgres::start());
    wakes_the_other(|redis| {
        let database = format!("database: {{ url: \"{}\" }}\n", postgres.url("postgres"));
        FleetNode::start(&[
            "--config",
            &home.write("s.yaml", &format!("{}{database}", redis.settings("strict"))),
        ])
    });
}

/// Each change tells the channel what it is about, and nothing else.
#[test]
fn a_change_wakes_those_who_follow_what_it_is_about() {
    let (home, redis) = (Home::new(), Redis::start());
    let config = home.write("tidegate.yaml", &(redis.settings("strict") + "trust: {}\n"));
    let node = FleetNode::start(&["--config", &config, "--data", &data_folder(&home)]);
    on_runtime(async {
        let options = RedisClientOptions::new(format!("redis://127.0.0.1:{}", redis.port));
        let channel = WakeUps::connect(&options, "tidegate").expect("a good address");
        let woken = async |topic| {
            let waited = tokio::time::timeout(PATIENCE, channel.woken(topic)).await;
            waited.unwrap_or_else(|_| panic!("no message about {topic:?}"));
        };
        for topic in [WakeTopic::Policy, WakeTopic::Live, WakeTopic::Trust] {
            // Whoever connects looks.
            woken(topic).await;
        }
        for (call, body, topic) in [
            ("PUT /trust/42", json!({ "email_verified": true }), WakeTopic::Trust),
            (
                "POST /trust/outcomes",
                json!({ "outcomes": [{ "user": "7", "successes": 1 }] }),
                WakeTopic::Trust,
            ),
            ("POST /keys/block", json!({ "who": { "user": "42" } }), WakeTopic::Live),
            ("POST /allow", json!({ "user": "7" }), WakeTopic::Policy),
        ] {
            let address = node.server.socket("admin");
            let sent = move || send_to(address, call, "application/json", &[], &body.to_string()).status;
            let status = tokio::task::spawn_blocking(sent).await.expect("it does not panic");
            assert!(matches!(status, 200 | 201), "{call}: {status}");
            woken(topic).await;
        }
    });
}

#[test]
fn a_version_that_the_store_cannot_count_is_not_published() {
    let (home, redis) = (Home::new(), Redis::start());
    let server = start(&home, &redis);
    let good = json!({ "name": "good", "key": ["user"], "sustained": { "rate": 1 } });
    server.post("/limits", &good).expect(201);
    let before = server.read("/policy").body;
    let slow = json!({ "name": "slow", "key": ["user"], "sustained": { "rate": 7, "window": "61d" } });
    let refused = server.post("/limits", &slow).expect(422).json();
    let problem = &refused["problems"][0];
    let limits = server.read("/limits?limit=1000").json()["items"].as_array().map_or(0, Vec::len);
    assert_eq!(problem["path"], format!("limits[{limits}]"), "{refused}");
    assert!(problem["line"].as_u64() > Some(1) && refused.to_string().contains("`slow`"), "{refused}");
    let tenant = json!({ "id": "acme", "rate_limit": { "sustained": { "rate": 7, "window": "61d" } } });
    let refused = server.post("/tenants", &tenant).expect(422).json();
    assert_eq!(refused["problems"][0]["path"], "tenants[0].rate_limit", "{refused}");
    assert_eq!(server.read("/policy").body, before, "nothing was written");
    // A node without the store can count them.
    let elsewhere = Home::new();
    let local = FleetNode::start(&["--data", &data_folder(&elsewhere)]);
    local.post("/limits", &slow).expect(201);
}

#[test]
fn a_node_that_cannot_run_a_version_says_why_until_it_runs_another() {
    let (home, redis) = (Home::new(), Redis::start());
    let data = data_folder(&home);
    let shared = start(&home, &redis);
    let local = FleetNode::start(&["--data", &data]);
    let slow = json!({ "name": "slow", "key": ["user"], "sustained": { "rate": 7, "window": "61d" } });
    local.post("/limits", &slow).expect(201);
    let errors = || -> Vec<Value> {
        let nodes = local.read("/nodes").json();
        let nodes = nodes["items"].as_array().expect("a list").iter();
        nodes.map(|node| node["error"].clone()).filter(|error| !error.is_null()).collect()
    };
    within(PATIENCE, "the node with the store says why", || {
        errors()
            .iter()
            .any(|error| error.to_string().contains("version 2") && error.to_string().contains("`slow`"))
    });
    assert_eq!((shared.runs(), local.runs()), (1, 2), "and keeps the last good one");
    // Published through that node itself.
    shared.send("DELETE /limits/slow", "application/json", &[], "").expect(200);
    within(PATIENCE, "it has no error any more", || errors().is_empty() && shared.runs() == 3);
    let ready = ask(shared.server.socket("admin"), "GET", "/readyz", &[], "").body;
    assert!(!ready.contains("slow"), "{ready}");
}

#[test]
fn another_text_of_the_same_number_is_followed_after_a_restore() {
    let home = Home::new();
    let data = data_folder(&home);
    let [one, other] = [(); 2].map(|()| FleetNode::start(&["--data", &data]));
    let backup = home.arg("backup.db");
    assert_eq!(run(tidegate(&["backup", "--data", &data, "--out", &backup])).code, Some(0));
    // The second version of the backup, and another second version.
    let elsewhere = Home::new();
    let copy = data_folder(&elsewhere);
    std::fs::copy(&backup, format!("{copy}/tidegate.db")).expect("a copy");
    {
        let there = FleetNode::start(&["--data", &copy]);
        assert_eq!(there.put_policy(&policy(91)), 2);
    }
    let second = home.arg("second.db");
    assert_eq!(run(tidegate(&["backup", "--data", &copy, "--out", &second])).code, Some(0));
    assert_eq!(one.put_policy(&policy(92)), 2);
    within(PATIENCE, "both run it", || {
        [&one, &other].iter().all(|node| node.read("/policy").body.contains("92"))
    });
    let restored = run(tidegate(&["restore", "--data", &data, "--from", &second, "--yes"]));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    within(PATIENCE, "both run the other text of that number", || {
        [&one, &other].iter().all(|node| node.read("/policy").body.contains("91") && node.runs() == 2)
    });
}

#[test]
fn a_new_exemption_is_in_the_audit_once_with_who_and_why() {
    let home = Home::new();
    let data = data_folder(&home);
    let [one, other] = [(); 2].map(|()| FleetNode::start(&["--data", &data]));
    let entry = json!({ "header:x-api-key": "secret-of-a-partner", "reason": "a partner" });
    one.post("/allow?reason=contract+7", &entry).expect(201);
    within(PATIENCE, "the other node runs it", || other.runs() == 2);
    // It has what another node has published meanwhile, and adds one more.
    let version = other.put_policy("version: 1\nallow: [{ user: \"7\" }, { user: \"8\" }]\n");
    within(PATIENCE, "the first runs it", || one.runs() == version);
    one.put_policy("version: 1\nallow: [{ user: \"8\" }, { user: \"7\" }] # in another order\n");
    let rows = on_database(&format!("sqlite:{data}/tidegate.db"), async |database| {
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
