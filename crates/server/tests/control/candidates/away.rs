//! A candidate that ends while the database is away.

use std::time::Duration;

use serde_json::json;
use tidegate::{Clock, MonotonicClock};
use tidegate_database::DatabaseKind;

use super::{LIVE, add, check, id_of, stricter};
use crate::control::live::fleet::{PATIENCE, in_seconds};
use crate::control::place::Place;
use crate::control::policy_client::PolicyServer;
use crate::support::home::Home;
use crate::support::postgres::Postgres;
use crate::support::within;

/// How long the candidates run: the database must have stopped before.
const BRIEF: Duration = Duration::from_secs(15);

#[test]
fn what_was_found_is_written_when_the_database_is_back() {
    let (home, mut postgres) = (Home::new(), Postgres::start());
    let url = postgres.url("postgres");
    home.write("database.yaml", &format!("database: {{ url: \"{url}\" }}\n"));
    let server = PolicyServer::start_in(Place { home, url, kind: DatabaseKind::Postgres }, &[]);
    let api = &server.api;
    api.ask("PUT", "/policy", &["Content-Type: application/yaml"], LIVE).expect(200);
    let clock = MonotonicClock::new();
    let end = clock.now().saturating_add(BRIEF.into());
    let until = in_seconds(BRIEF.as_secs() as i64);
    let add = |capacity| id_of(&add(api, &format!("/candidates?until={until}"), &stricter(capacity)));
    // Two that end at the same time.
    let candidates = [(add(2), 3), (add(4), 1)];

    postgres.stop();
    assert_eq!(check(&server, "42", 5), 5);
    assert!(clock.now() < end, "they have decided too");
    // The wall clock is the subject: both end while the database is away.
    while clock.now() < end.saturating_add(Duration::from_secs(2).into()) {
        std::thread::park_timeout(Duration::from_millis(200));
    }
    assert_eq!(check(&server, "43", 5), 5, "they decide no more");
    postgres.start_again();
    for (id, denied) in candidates {
        within(PATIENCE, "it is written", || {
            let report = api.get(&format!("/candidates/{id}/report"));
            report.status == 200 && report.json()["totals"]["newly_denied"] == json!(denied)
        });
        let report = api.read(&format!("/candidates/{id}/report"));
        assert_eq!(report["totals"]["both_admit"], json!(5 - denied), "{report}");
    }
}
