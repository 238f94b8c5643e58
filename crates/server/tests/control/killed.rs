//! A server that is killed while it writes records.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rustix::process::Signal;
use tidegate_database::DatabaseKind;

use super::place::Place;
use super::{on_database, violations};
use crate::http::client::Client;
use crate::support::home::policy;
use crate::support::server::Server;

/// How many denials of different users a request leads to.
const DENIALS: usize = 1_000;
/// How many such requests a round has: enough that a thread finds no more room for open events, and they are written.
const BATCHES: usize = 14;

/// Denies each of many users once: the first request of each is allowed.
fn deny(client: &mut Client, round: usize, batch: usize) {
    let users = (0..DENIALS).map(|user| format!(r#"{{"user":"{round}-{batch}-{user}"}}"#));
    let body = format!(r#"{{"requests":[{}]}}"#, users.collect::<Vec<_>>().join(","));
    for _ in 0..2 {
        assert_eq!(client.post("/v1/check/batch", &body).status, 200);
    }
}

#[test]
fn a_server_that_is_killed_leaves_whole_records_and_a_chain_that_verifies() {
    let Place { home, url, .. } = &Place::new(DatabaseKind::Sqlite);
    let data = home.arg("data");
    let file = home.write("policy.yaml", &policy(1));
    let mut runner = TestRunner::new(Config::default());
    let instants = prop::collection::vec(0..400_u64, 5).new_tree(&mut runner).expect("numbers").current();
    let mut known = 0;
    for (round, millis) in instants.into_iter().enumerate() {
        let server = Server::start(&["--policy", &file, "--data", &data]);
        let mut client = Client::connect(server.socket("http"));
        (0..BATCHES).for_each(|batch| deny(&mut client, round, batch));
        // A change is an entry of the audit, and is written at once.
        home.replace("policy.yaml", &format!("{}# round {round}\n", policy(1)));
        server.signal(Signal::HUP);
        // The instant of the kill is the subject.
        std::thread::park_timeout(std::time::Duration::from_millis(millis));
        let seen = on_database(url, async |database| violations(database).await.len());
        server.signal(Signal::KILL);
        server.ended();
        let (rows, report) = on_database(url, async |database| {
            (violations(database).await, database.verify(|_, _| {}).await.unwrap())
        });
        assert_eq!(report.broken, None);
        assert!(rows.len() >= seen && rows.len() >= known, "{} rows, and {seen} were there", rows.len());
        known = rows.len();
        let mut users: Vec<&str> = rows.iter().filter_map(|row| row.violation.user_id.as_deref()).collect();
        users.sort_unstable();
        users.dedup();
        assert_eq!(users.len(), rows.len(), "each denial is there once, with its details");
        assert!(rows.iter().all(|row| row.violation.count == 1), "{rows:?}");
    }
    assert!(known > 0, "records were written before a kill");
}
