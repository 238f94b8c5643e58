//! Several nodes on one database: they start at once, follow each other's versions, and go on without the database.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tidegate_database::DatabaseKind;

use super::access::client::{ApiReply, ask};
use super::place::{Place, on_both};
use crate::support::home::{Home, policy};
use crate::support::server::{ANYWHERE, Server, run, tidegate};
use crate::support::within;

on_both!(ten_nodes_start_on_an_empty_database_at_once, a_paused_node_catches_up_when_it_returns);

/// Longer than anything takes, also on a busy machine; nodes follow within a second.
const PATIENCE: Duration = Duration::from_secs(15);

fn ready(server: &Server) -> Value {
    ask(server.socket("admin"), "GET", "/readyz", &[], "").json()
}

fn running_version(server: &Server) -> u64 {
    ready(server)["policy_version"].as_u64().expect("it has a version")
}

/// The token of all servers here.
const TOKEN: &str = "token-of-the-fleet-0123456789abcdef";

fn start(args: &[&str]) -> Server {
    let mut command = tidegate(&[&["serve"], &ANYWHERE[..], args].concat());
    command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
    Server::start_with(command)
}

fn start_in(place: &Place) -> Server {
    let mut command = place.command(&[&["serve"], &ANYWHERE[..]].concat());
    command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
    Server::start_with(command)
}

/// Stops a node between two of its writes: one that is stopped during a write holds the lock of the database, and goes on
/// first.
fn pause(place: &Place, server: &Server) {
    within(PATIENCE * 4, "it is stopped between two writes", || {
        server.signal(Signal::STOP);
        within(PATIENCE, "all its threads are stopped", || server.is_stopped());
        let is_free = place.is_writable();
        if !is_free {
            server.signal(Signal::CONT);
        }
        is_free
    });
}

fn put_policy(address: SocketAddr, text: &str) -> ApiReply {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/yaml")];
    ask(address, "PUT", "/api/v1/policy", &headers, text)
}

/// What a check of one user says is the limit.
fn limit_of(server: &Server) -> u64 {
    let headers = [("Content-Type", "application/json")];
    let reply = ask(server.socket("http"), "POST", "/v1/peek", &headers, "{\"user\":\"u\"}");
    reply.json()["limit"].as_u64().expect("a limit applies")
}

fn ten_nodes_start_on_an_empty_database_at_once(kind: DatabaseKind) {
    let place = &Place::new(kind);
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..10).map(|_| scope.spawn(|| start_in(place))).collect();
        starting.into_iter().map(|one| one.join().expect("it starts")).collect()
    });
    assert!(servers.iter().all(|server| running_version(server) == 1));
    let published = put_policy(servers[0].socket("admin"), &policy(77));
    assert_eq!((published.status, published.json()["version"].as_u64()), (200, Some(2)), "{published:?}");
    for server in &servers {
        within(PATIENCE, "each runs the new version", || running_version(server) == 2);
        assert_eq!(limit_of(server), 77);
    }
}

fn a_paused_node_catches_up_when_it_returns(kind: DatabaseKind) {
    let place = Place::new(kind);
    let servers: Vec<Server> = (0..3).map(|_| start_in(&place)).collect();
    let put = |burst| put_policy(servers[1].socket("admin"), &policy(burst)).status;
    pause(&place, &servers[2]);
    assert_eq!(put(11), 200);
    assert_eq!((put(12), put(13)), (200, 200));
    within(PATIENCE, "the others follow", || running_version(&servers[0]) == 4);
    servers[2].signal(Signal::CONT);
    within(PATIENCE, "and so does the third", || {
        running_version(&servers[2]) == 4 && limit_of(&servers[2]) == 13
    });
}

#[test]
fn a_node_starts_by_what_it_ran_last_while_the_database_is_away() {
    let home = Home::new();
    let settings = |url: &str| format!("database: {{ url: \"{url}\", cache: last.yaml }}\n");
    let config = home.write("tidegate.yaml", &settings("sqlite:tidegate.db"));
    let server = start(&["--config", &config]);
    assert_eq!(put_policy(server.socket("admin"), &policy(31)).status, 200);
    within(PATIENCE, "the cache has it", || {
        std::fs::read_to_string(home.path("last.yaml")).is_ok_and(|text| text.contains("capacity: 31"))
    });
    drop(server);
    // Nothing listens there.
    home.write("tidegate.yaml", &settings("postgres://nobody@127.0.0.1:1/none"));
    let server = start(&["--config", &config]);
    assert_eq!((running_version(&server), limit_of(&server)), (2, 31));
    let ready = ready(&server);
    assert!(ready.to_string().contains("\"database\""), "{ready}");
}

#[test]
fn a_backup_is_restored_under_running_nodes() {
    let home = Home::new();
    let data = home.arg("data");
    let servers: Vec<Server> = (0..2).map(|_| start(&["--data", &data])).collect();
    let admin = servers[0].socket("admin");
    assert_eq!(put_policy(admin, &policy(21)).status, 200);
    let backup = home.arg("backup.db");
    let done = run(tidegate(&["backup", "--data", &data, "--out", &backup]));
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.err);
    assert_eq!(put_policy(admin, &policy(22)).status, 200);
    within(PATIENCE, "both run the third version", || servers.iter().all(|server| limit_of(server) == 22));
    let refused = run(tidegate(&["restore", "--data", &data, "--from", &backup]));
    assert_eq!(refused.code, Some(2), "not without a confirmation: {}", refused.err);
    let done = run(tidegate(&["restore", "--data", &data, "--from", &backup, "--yes"]));
    assert_eq!(done.code, Some(0), "{}", done.err);
    within(PATIENCE, "both are back", || servers.iter().all(|server| running_version(server) == 2));
    assert!(servers.iter().all(|server| limit_of(server) == 21));
}
