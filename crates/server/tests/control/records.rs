//! What a server writes to its database: what happened, once, and adding up to the counters.

use std::time::Duration;

use rustix::process::Signal;
use tidegate_database::{AuditEntry, DatabaseKind, HistoryFilter, PageRequest, UnixMillis, Violation};

use super::place::{Place, on_both};
use super::{on_database, record_violations, violations};
use crate::http::client::Client;
use crate::support::server::Server;
use crate::support::within;

on_both!(
    what_happened_is_in_the_database_when_the_server_has_stopped_and_adds_up,
    following_a_version_of_the_database_adds_nothing_to_its_audit,
    what_is_old_or_too_much_is_removed_and_the_rest_verifies,
    denials_are_written_while_the_server_runs
);

const POLICY: &str = "version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
- { name: by-key, match: { path: /keyed }, key: [\"header:x-api-key\"], algorithm: sliding_window,
    sustained: { rate: 1, window: hour } }
block: [{ ip: 192.0.2.66, reason: abuse }]
";

/// The value of a metric.
fn metric(server: &Server, series: &str) -> u64 {
    let mut client = Client::connect(server.socket("admin"));
    client.send("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let page = client.answer().body;
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{page}")).parse().expect("a number")
}

fn what_happened_is_in_the_database_when_the_server_has_stopped_and_adds_up(kind: DatabaseKind) {
    let place = Place::new(kind);
    let file = place.home.write("policy.yaml", POLICY);
    let server = place.start(&["--policy", &file]);
    let mut client = Client::connect(server.socket("http"));
    for user in ["1", "2", "1", "1", "2", "1", "1"] {
        client.post("/v1/check", format!(r#"{{"user":"{user}","ip":"192.0.2.7"}}"#));
    }
    for _ in 0..4 {
        let body = r#"{"path":"/keyed","headers":{"x-api-key":"a-secret-of-a-client"}}"#;
        client.post("/v1/check", body);
    }
    for _ in 0..3 {
        assert_eq!(client.post("/v1/check", r#"{"user":"9","ip":"192.0.2.66"}"#).status, 429);
    }
    let denied = |limit: &str| format!("tidegate_decisions_total{{limit=\"{limit}\",outcome=\"denied\"}}");
    let counted = [metric(&server, &denied("per-user")), metric(&server, &denied("by-key"))];
    assert_eq!(counted, [3, 3]);
    place.home.replace("policy.yaml", &POLICY.replace("capacity: 2", "capacity: 3"));
    server.logged(&["policy reloaded", "version=2"]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));

    let (rows, audit, report) = on_database(&place.url, async |database| {
        let rows = violations(database).await;
        let audit = database.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items;
        (rows, audit, database.verify(|_, _| {}).await.unwrap())
    });
    let total = |event: &str, limit: Option<&str>| -> u64 {
        let of = |row: &&tidegate_database::ViolationRow| {
            row.violation.event == event && row.violation.limit_name.as_deref() == limit
        };
        rows.iter().filter(of).map(|row| row.violation.count).sum()
    };
    assert_eq!(total("rate_limit_exceeded", Some("per-user")), counted[0], "{rows:?}");
    assert_eq!(total("sliding_window_limit_exceeded", Some("by-key")), counted[1], "{rows:?}");
    assert_eq!(total("request_blocked", None), 3, "{rows:?}");
    assert!(rows.iter().all(|row| row.violation.node.is_some()), "{rows:?}");
    assert!(!format!("{rows:?}").contains("a-secret-of-a-client"), "{rows:?}");
    // The file is this node's own, so its change is recorded here.
    let changes: Vec<&AuditEntry> =
        audit.iter().map(|row| &row.entry).filter(|entry| entry.policy_version == Some(2)).collect();
    assert_eq!(changes.len(), 1, "{audit:?}");
    assert_eq!(changes[0].limit_name.as_deref(), Some("per-user"));
    assert_eq!(report.broken, None);
}

fn following_a_version_of_the_database_adds_nothing_to_its_audit(kind: DatabaseKind) {
    let place = Place::new(kind);
    let server = place.start(&[]);
    on_database(&place.url, async |database| {
        let active = database.active_version().await.unwrap().expect("the first version");
        let text = active.text.expect("it is kept").replace("version: 1", "version: 1 # changed");
        let entry = AuditEntry { event: "rate_limit_config_updated".into(), ..AuditEntry::default() };
        let new = tidegate_database::NewVersion { text, warnings: "[]".into(), entry, ..Default::default() };
        database.publish(new).await.unwrap();
    });
    server.logged(&["policy updated from the database", "version=2"]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    let entries = on_database(&place.url, async |database| {
        let filter =
            HistoryFilter { kind: Some("rate_limit_config_updated".into()), ..HistoryFilter::default() };
        database.audit(&filter, &PageRequest::default()).await.unwrap().items.len()
    });
    assert_eq!(entries, 2, "the first start, and the change");
}

fn what_is_old_or_too_much_is_removed_and_the_rest_verifies(kind: DatabaseKind) {
    let place = Place::new(kind);
    let old = UnixMillis::new(1_700_000_000_000);
    on_database(&place.url, async |database| {
        let entry =
            AuditEntry { time: old, event: "kill_switch_changed".into(), count: 1, ..AuditEntry::default() };
        database.append(vec![entry; 1_500]).await.unwrap();
        let violation =
            Violation { requested_at: old, event: "rate_limit_exceeded".into(), ..Violation::default() };
        record_violations(database, vec![violation; 1_500]).await;
    });
    let settings =
        format!("database: {{ url: \"{}\", retention: {{ audit: 30d, violations: 1d }} }}\n", place.url);
    let settings = place.home.write("settings.yaml", &settings);
    let server = Server::start(&["--config", &settings]);
    server.logged(&["old records were removed", "audit=1500", "violations=1500"]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    let (report, left) = on_database(&place.url, async |database| {
        (database.verify(|_, _| {}).await.unwrap(), violations(database).await.len())
    });
    assert_eq!((report.broken, report.first_kept, left), (None, 1_501, 0));
}

fn denials_are_written_while_the_server_runs(kind: DatabaseKind) {
    let place = Place::new(kind);
    let file = place.home.write("policy.yaml", POLICY);
    let server = place.start(&["--policy", &file]);
    let mut client = Client::connect(server.socket("http"));
    for _ in 0..5 {
        client.post("/v1/check", r#"{"user":"42"}"#);
    }
    within(Duration::from_secs(20), "open events are written every ten seconds", || {
        on_database(&place.url, async |database| violations(database).await)
            .iter()
            .any(|row| row.violation.count == 3)
    });
    assert_eq!(metric(&server, "tidegate_events_written_total{sink=\"database\"}"), 1);
    assert_eq!(metric(&server, "tidegate_records_waiting"), 0);
}
