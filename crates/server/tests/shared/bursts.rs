//! Burst detectors of three servers on one Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::asking::{admin, delete, metric, post, serve};
use crate::support::home::Home;
use crate::support::redis::Redis;
use crate::support::server::Server;
use crate::support::within;

const POLICY: &str = "version: 1
limits: [{ name: all, key: [], sustained: { rate: 100000 } }]
bursts: [{ name: b, key: [user], window: 1s, threshold: 6, penalty: 60s }]
";

/// Long enough for a busy machine.
const SOON: Duration = Duration::from_secs(20);

type Servers = Vec<(Server, Home)>;

fn check(servers: &Servers, nth: usize) -> Value {
    post(&servers[nth % servers.len()].0, "/v1/check", r#"{"user":"a"}"#).1
}

/// Sends requests to all servers in turn until they are blocked; returns what detectors said.
fn until_blocked(servers: &Servers) -> Vec<Value> {
    let mut told = Vec::new();
    // Windows follow the clock of Redis, so the number of requests until the block is not known.
    for nth in 0..100_000 {
        let state = check(servers, nth)["burst"].clone();
        if !state.is_null() {
            told.push(state);
        }
        if told.last().is_some_and(|state| state == "blocked_temporarily") {
            break;
        }
    }
    told
}

/// The penalties that a server lists.
fn listed(server: &Server) -> Vec<Value> {
    let (status, page) = admin(server, "/debug/penalties");
    assert_eq!(status, 200, "{page}");
    let page: Value = serde_json::from_str(&page).expect("JSON");
    page["items"].as_array().expect("a list").clone()
}

/// Waits until a server lists one block, and returns its id.
fn listed_block(server: &Server) -> String {
    within(
        SOON,
        "it lists the block",
        || matches!(&listed(server)[..], [one] if one["kind"] == "block" && one["key"] == "a"),
    );
    listed(server)[0]["id"].as_str().expect("text").to_owned()
}

fn assert_blocked(servers: &Servers) {
    for nth in 0..servers.len() {
        let refused = check(servers, nth);
        let said = (refused["reason"].as_str(), refused["burst"].as_str());
        assert_eq!(said, (Some("burst_blocked"), Some("already_blocked")), "server {nth}: {refused}");
    }
}

#[test]
fn a_block_that_three_servers_reach_together_holds_on_each() {
    let redis = Redis::start();
    let servers: Servers = (0..3).map(|_| serve(&redis.settings("strict"), POLICY)).collect();
    let told = until_blocked(&servers);
    assert_eq!(told, ["warning_issued", "blocked_temporarily"], "each is told once among all servers");
    assert_blocked(&servers);
    let ids: Vec<String> = servers.iter().map(|(server, _home)| listed_block(server)).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "all list the same one: {ids:?}");
}

#[test]
fn a_block_outlives_redis_and_can_be_lifted_on_any_server() {
    let mut redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut servers: Servers = (0..3).map(|_| serve(&redis.settings("strict"), POLICY)).collect();
    until_blocked(&servers);
    // All list it, so it is on the disk.
    let ids: Vec<String> = servers.iter().map(|(server, _home)| listed_block(server)).collect();
    redis.kill();
    redis.restart();
    // This one has nothing to remember: it can know the block from Redis alone.
    servers.push(serve(&redis.settings("strict"), POLICY));
    for nth in 0..servers.len() {
        // Until it is connected again, a server that has not refused the client itself decides by what it knows.
        within(SOON, "Redis is used again", || check(&servers, nth)["reason"] == "burst_blocked");
    }
    assert_blocked(&servers);
    for (server, _home) in &servers {
        assert_eq!(listed_block(server), ids[0]);
    }
    let path = format!("/debug/penalties/{}", ids[0]);
    assert_eq!(delete(&servers[3].0, &path), 200, "by the server that has not seen the burst");
    for nth in 0..servers.len() {
        within(SOON, "the block has ended everywhere", || check(&servers, nth)["reason"] == "ok");
        assert_eq!(listed(&servers[nth].0), [] as [Value; 0], "server {nth}");
    }
    assert_eq!(delete(&servers[0].0, &path), 404, "it was lifted once");
}

/// A burst that a server decides without Redis, except for the first requests, and then silence: the warning is counted,
/// listed, and in the file, once.
fn a_single_burst_is_told(mode: &str, rate: u32) {
    let redis = Redis::start();
    let settings = format!("{}events: {{ file: events.jsonl, node: node-7 }}\n", redis.settings(mode));
    let policy = format!(
        "version: 1\nlimits: [{{ name: all, key: [], sustained: {{ rate: {rate}, window: hour }} }}]\n\
         bursts: [{{ name: b, key: [user, \"header:x-api-key\"], window: 1h, threshold: 20, penalty: 60s }}]\n"
    );
    let (server, home) = serve(&settings, &policy);
    // More than twice the threshold, in case the hour ends meanwhile.
    for _ in 0..50 {
        post(&server, "/v1/check", r#"{"user":"a","headers":{"x-api-key":"secret-of-a"}}"#);
    }
    let warned = r#"tidegate_burst_actions_total{action="warned"}"#;
    within(SOON, "the warning is counted without a further request", || metric(&server, warned) == 1.0);
    within(SOON, "it is listed", || listed(&server).len() == 1);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0), "{mode}");
    let text = std::fs::read_to_string(home.path("events.jsonl")).expect("there are events");
    assert!(!text.contains("secret-of-a"), "{mode}: {text}");
    let events = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
    let mut warnings: Vec<Value> = events.collect();
    warnings.retain(|event| event["event"] == "burst_detected_warning");
    let [warning] = &warnings[..] else { panic!("{mode}: {text}") };
    assert_eq!((&warning["count"], &warning["policy_version"]), (&1.into(), &1.into()), "{mode}: {warning}");
    for (member, value) in
        [("severity", "warning"), ("limit", "b"), ("kind", "burst"), ("user", "a"), ("node", "node-7")]
    {
        assert_eq!(warning[member], value, "{mode}: {warning}");
    }
    assert!(warning["key"].as_str().is_some_and(|key| key.starts_with("a, secr…#")), "{mode}: {warning}");
}

/// A client that goes away while Redis is asked takes no warning with it: the next request of the key reports it.
#[test]
fn a_warning_is_told_though_its_client_has_gone() {
    let redis = Redis::start();
    let policy = "version: 1\nlimits: []\n\
                  bursts: [{ name: b, key: [user], window: 24h, threshold: 5, penalty: 60s }]\n";
    let (server, _home) = serve(&redis.settings("strict"), policy);
    let warned = || metric(&server, r#"tidegate_burst_actions_total{action="warned"}"#);
    let body = r#"{"user":"a"}"#;
    for _ in 0..5 {
        post(&server, "/v1/check", body);
    }
    assert_eq!(warned(), 0.0);
    // Soon, because a connection to Redis that is silent for long is replaced, and what was sent on it is lost.
    let mut control = TcpStream::connect(("127.0.0.1", redis.port)).expect("Redis listens");
    let mut ask_redis = |command: &str| {
        control.write_all(format!("{command}\r\n").as_bytes()).expect("it can be sent");
        let mut answer = [0; 4_096];
        let length = control.read(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let address = server.address("http");
    let mut client = TcpStream::connect(&address).expect("somebody listens");
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    ask_redis("CLIENT PAUSE 600000 WRITE");
    client.write_all(request.as_bytes()).expect("it can be sent");
    within(SOON, "Redis is asked", || !ask_redis("INFO clients").contains("blocked_clients:0"));
    drop(client);
    let open = || metric(&server, r#"tidegate_connections{listener="http"}"#);
    within(SOON, "the server has noticed that the client has gone", || open() == 0.0);
    ask_redis("CLIENT UNPAUSE");
    post(&server, "/v1/check", body);
    within(SOON, "the warning is counted", || warned() == 1.0);
}

#[test]
fn a_single_burst_is_told_where_leases_decide() {
    a_single_burst_is_told("hybrid", 100_000);
}

#[test]
fn a_single_burst_is_told_where_a_remembered_denial_decides() {
    a_single_burst_is_told("strict", 1);
}
