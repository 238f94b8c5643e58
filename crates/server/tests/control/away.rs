//! A database that is away for ten seconds under load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tidegate::{Clock, MonotonicClock};

use super::{on_database, violations};
use crate::http::client::Client;
use crate::support::home::{Home, policy};
use crate::support::postgres::Postgres;
use crate::support::server::Server;

/// How long the database is away.
const AWAY: Duration = Duration::from_secs(10);
/// Far fewer than may wait.
const USERS: u64 = 200;

/// Asks for decisions until told to stop. Returns how many were denied.
fn load(address: SocketAddr, stop: &AtomicBool, decided: &AtomicU64) -> u64 {
    let mut client = Client::connect(address);
    let mut denied = 0;
    for user in (0..USERS).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let body = format!(r#"{{"user":"{user}","ip":"192.0.2.7"}}"#);
        let head = format!("host: localhost\r\ncontent-length: {}", body.len());
        // At once: else each request would wait for the acknowledgement of its head.
        client.send(format!("POST /v1/check HTTP/1.1\r\n{head}\r\n\r\n{body}"));
        let answer = client.answer();
        assert!([200, 429].contains(&answer.status), "{answer:?}");
        denied += u64::from(answer.status == 429);
        decided.fetch_add(1, Ordering::Relaxed);
    }
    denied
}

#[test]
fn a_database_that_is_away_stops_no_decision_and_loses_no_event() {
    let home = Home::new();
    let mut postgres = Postgres::start();
    let file = home.write("policy.yaml", &policy(1));
    let settings =
        home.write("settings.yaml", &format!("database: {{ url: \"{}\" }}\n", postgres.url("postgres")));
    let server = Server::start(&["--policy", &file, "--config", &settings]);
    let address = server.socket("http");
    let (stop, decided) = (AtomicBool::new(false), AtomicU64::new(0));
    let denied = std::thread::scope(|scope| {
        let denying = scope.spawn(|| load(address, &stop, &decided));
        postgres.stop();
        let clock = MonotonicClock::new();
        let back = clock.now().saturating_add(AWAY.into());
        let mut before = 0;
        // The wall clock is the subject: decisions go on during every second of it.
        while clock.now() < back {
            std::thread::park_timeout(Duration::from_secs(1));
            let now = decided.load(Ordering::Relaxed);
            assert!(now > before, "no decision within a second");
            before = now;
        }
        server.logged(&["records wait for the database"]);
        postgres.start_again();
        server.logged(&["records are written to the database again"]);
        stop.store(true, Ordering::Relaxed);
        denying.join().expect("every decision was answered")
    });
    assert!(denied > USERS, "the load was enough to deny");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    let (rows, report) = on_database(&postgres.url("postgres"), async |database| {
        (violations(database).await, database.verify(|_, _| {}).await.unwrap())
    });
    assert_eq!(rows.iter().map(|row| row.violation.count).sum::<u64>(), denied, "every denial, once");
    assert!(rows.iter().all(|row| row.violation.user_id.is_some()), "with its details");
    assert_eq!(report.broken, None);
}
