//! Redis stops, and starts again.

use std::time::Duration;

use super::asking::{admin, admits, metric, post, serve};
use crate::support::home::policy;
use crate::support::redis::Redis;
use crate::support::server::Server;
use crate::support::within;

/// One limit for each `on_store_error`; the plan of a request selects it.
const CHOICES: &str = "version: 1
limits:
- { name: local, match: { plan: local }, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
- { name: open, match: { plan: open }, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 }, on_store_error: open }
- { name: closed, match: { plan: closed }, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 }, on_store_error: closed }
";

/// Longer than it takes to notice that Redis is gone, with or without requests, also on a busy machine.
const NOTICED: Duration = Duration::from_secs(20);
/// Events are written every ten seconds; longer on a busy machine.
const WRITTEN: Duration = Duration::from_secs(40);
/// Longer than it takes until a restarted Redis is in use again: the simulator and `tests/real` hold it to two seconds.
const HEALED: Duration = Duration::from_secs(20);

fn ask(server: &Server, plan: &str) -> (u16, String) {
    let (status, said) = post(server, "/v1/check", &format!("{{\"user\":\"a\",\"plan\":\"{plan}\"}}"));
    (status, said["reason"].as_str().expect("a word").to_owned())
}

fn is_up(server: &Server) -> bool {
    metric(server, "tidegate_store_up") == 1.0
}

#[test]
fn each_limit_does_as_it_says_and_redis_is_used_again() {
    let mut redis = Redis::start();
    let (server, _home) = serve(&redis.settings("strict"), CHOICES);
    for plan in ["local", "open", "closed"] {
        assert_eq!(ask(&server, plan), (200, "ok".into()));
    }
    redis.kill();
    within(NOTICED, "the store is down", || !is_up(&server));
    assert_eq!(ask(&server, "closed"), (503, "store_unavailable".into()));
    let open: Vec<u16> = (0..5).map(|_| ask(&server, "open").0).collect();
    assert_eq!(open, [200; 5]);
    // The node's share is the whole limit, as there is no other node. Its local bucket starts full, as the usage so far
    // is only known to Redis.
    let local: Vec<u16> = (0..3).map(|_| ask(&server, "local").0).collect();
    assert_eq!(local, [200, 200, 429]);

    let (status, body) = admin(&server, "/readyz");
    assert_eq!(status, 200, "the other limits still decide: {body}");
    let body: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!((&body["status"], &body["unready"]), (&"degraded".into(), &serde_json::json!([])));
    let reasons: Vec<&str> = body["degraded"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|reason| reason["reason"].as_str())
        .collect();
    assert_eq!(reasons, ["store", "closed_limits"], "{body}");
    let detail = body["degraded"][1]["detail"].as_str().expect("text");
    assert!(detail.ends_with("these limits refuse every request: closed"), "{detail}");
    assert_eq!(metric(&server, "tidegate_degraded"), 1.0);
    for (choice, least) in [("local", 3.0), ("open", 5.0), ("closed", 1.0)] {
        let series = format!("tidegate_store_fallback_decisions_total{{choice=\"{choice}\"}}");
        assert!(metric(&server, &series) >= least, "{choice}");
    }
    server.logged(&["WARN", "the store does not answer", &format!("redis://127.0.0.1:{}", redis.port)]);

    redis.restart();
    within(HEALED, "the store is up", || is_up(&server));
    server.logged(&["the store answers again"]);
    assert_eq!(ask(&server, "closed"), (200, "ok".into()));
    assert_eq!((admin(&server, "/readyz").0, metric(&server, "tidegate_degraded")), (200, 0.0));
}

#[test]
fn a_strict_server_is_unready_without_its_store() {
    let mut redis = Redis::start();
    let settings = format!("readiness: strict\n{}", redis.settings("strict"));
    let (server, _home) = serve(&settings, &policy(2));
    assert_eq!((admin(&server, "/readyz").0, metric(&server, "tidegate_ready")), (200, 1.0));
    redis.kill();
    within(NOTICED, "the store is down", || !is_up(&server));
    let (status, body) = admin(&server, "/readyz");
    assert!(
        status == 503 && body.contains("\"status\":\"unready\"") && body.contains("\"store\""),
        "{status} {body}"
    );
    assert_eq!(metric(&server, "tidegate_ready"), 0.0);
}

#[test]
fn without_closed_limits_a_server_stays_ready() {
    let mut redis = Redis::start();
    let (server, _home) = serve(&redis.settings("hybrid"), &policy(2));
    assert!(admits(&server, "a"));
    redis.kill();
    within(NOTICED, "the store is down", || !is_up(&server));
    let (status, body) = admin(&server, "/readyz");
    assert!(status == 200 && body.contains("degraded") && body.contains("\"store\""), "{status} {body}");
    let admitted = (0..4).filter(|_| admits(&server, "a")).count();
    assert_eq!(admitted, 2);
}

#[test]
fn values_that_are_no_states_are_told_of() {
    let redis = Redis::start();
    let (server, _home) = serve(&redis.settings("strict"), &policy(2));
    assert!(admits(&server, "a"));
    let keys = redis.cli(&["KEYS", "*:1:*"]);
    // The others have a word in place of a hash: what nodes tell each other.
    let is_bucket = |key: &&str| {
        let tag = key.split(['{', '}']).nth(1).unwrap_or_default();
        tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let key = keys.lines().find(is_bucket).unwrap_or_else(|| panic!("no bucket in {keys}"));
    assert_eq!(redis.cli(&["SET", key, "nonsense"]), "OK");
    assert!(admits(&server, "a"), "as if it were untouched");
    server.logged(&["WARN", "replaced values in the store that Tidegate did not write"]);
    assert_eq!(metric(&server, "tidegate_store_errors_total{kind=\"poisoned\"}"), 1.0);
}

#[test]
fn each_outage_is_told_once_when_it_begins_and_once_when_it_ends() {
    let mut redis = Redis::start();
    let events = std::path::Path::new(&redis.dir).join("events.jsonl");
    let settings = format!("{}events: {{ file: {events:?} }}\n", redis.settings("strict"));
    let (server, _home) = serve(&settings, CHOICES);
    let told = || -> Vec<String> {
        let lines = std::fs::read_to_string(&events).unwrap_or_default();
        let names = lines.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            let name = event["event"].as_str().expect("a name").to_owned();
            name.starts_with("store_fallback").then_some(name)
        });
        names.collect()
    };
    let mut expected = Vec::new();
    for _ in 0..2 {
        redis.kill();
        within(NOTICED, "the store is down", || !is_up(&server));
        // Many requests fail, and it is one outage all the same.
        (0..20).for_each(|_| _ = ask(&server, "local"));
        expected.push("store_fallback_began");
        within(WRITTEN, "the beginning is told", || told() == expected);
        redis.restart();
        within(HEALED, "the store is up", || is_up(&server));
        (0..20).for_each(|_| _ = ask(&server, "local"));
        expected.push("store_fallback_ended");
        within(WRITTEN, "the end is told", || told() == expected);
    }
    drop(server);
    assert_eq!(told(), expected, "nothing is told twice");
}
