//! The figures of a fleet where there are very many limits, while the database is away, and when a node ends.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_database::{DatabaseKind, HistoryRecord, KeptSteps};

use super::access::client::{Controlled, ask};
use super::on_database;
use super::place::{Place, on_both};
use crate::support::home::Home;
use crate::support::postgres::Postgres;
use crate::support::server::Server;
use crate::support::within;

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where a step of half a minute has to end.
const STEP_PATIENCE: Duration = Duration::from_secs(90);
/// More than are named in one answer.
const TENANTS: usize = 60;

on_both!(
    every_tenant_has_its_true_count_whoever_else_is_busy,
    what_a_node_has_decided_is_there_after_it_has_ended,
    what_a_node_writes_late_is_seen,
);

fn get(server: &Controlled, token: &str, path: &str) -> Value {
    server.call(token, "GET", path, None).expect(200).json()
}

/// Sends a request to a node so many times.
fn decide(server: &Server, request: &Value, times: usize) {
    for _ in 0..times {
        let headers = [("Content-Type", "application/json")];
        let status = ask(server.socket("http"), "POST", "/v1/check", &headers, &request.to_string()).status;
        assert!([200, 429].contains(&status), "{status}");
    }
}

fn put_policy(server: &Controlled, policy: &str) {
    let bearer = format!("Bearer {}", server.admin);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/yaml")];
    ask(server.address(), "PUT", "/api/v1/policy", &headers, policy).expect(200);
}

/// The sum over all steps of what is found in each.
fn sum(history: &Value, found: impl Fn(&Value) -> u64) -> u64 {
    history["steps"].as_array().expect("it has steps").iter().map(found).sum()
}

fn decided(counted: &Value) -> u64 {
    ["allowed", "denied"].iter().map(|member| counted[member].as_u64().unwrap_or_default()).sum()
}

fn every_tenant_has_its_true_count_whoever_else_is_busy(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let tenant =
        |number: usize| format!("- {{ id: t{number}, rate_limit: {{ sustained: {{ rate: 9 }} }} }}\n");
    let tenants: String = (0..TENANTS).map(tenant).collect();
    put_policy(&server, &format!("version: 1\nlimits: []\ntenants:\n{tenants}"));
    let tokens: Vec<String> =
        [3, 58].map(|number| server.token("viewer", Some(&format!("t{number}"))).1).into();
    // The node has read its counters under the new policy before the first decision.
    within(PATIENCE, "it counts", || {
        get(&server, &server.admin, "/overview")["nodes"][0]["status"] == "ready"
    });
    let rounds = 4_usize;
    for _ in 0..rounds {
        for number in 0..TENANTS {
            decide(&server.server, &json!({ "tenant": format!("t{number}") }), 1);
        }
    }
    let made = (rounds * TENANTS) as u64;
    within(PATIENCE, "all decisions are seen", || {
        let history = get(&server, &server.admin, "/history");
        sum(&history, decided) >= made
    });
    let history = get(&server, &server.admin, "/history");
    let of_limits = |step: &Value| {
        let named = step["limits"].as_object().expect("it has limits").values();
        assert!(named.clone().all(|limit| limit.get("error").is_none()), "one node knows all: {step}");
        assert!(named.len() <= 50, "{step}");
        named.map(decided).sum::<u64>() + decided(&step["other_limits"])
    };
    assert_eq!(sum(&history, of_limits), made, "what is named, and the others: {history}");
    for (token, number) in tokens.iter().zip([3, 58]) {
        let history = get(&server, token, "/history");
        let name = format!("tenant:t{number}");
        assert_eq!(sum(&history, |step| decided(&step["limits"][&name])), rounds as u64, "{history}");
        assert!(history.get("incomplete").is_none(), "{history}");
        let mut last = Value::Null;
        within(PATIENCE, "it sees its own limit while all others are as busy", || {
            for number in 0..TENANTS {
                decide(&server.server, &json!({ "tenant": format!("t{number}") }), 1);
            }
            last = get(&server, token, "/overview");
            last["limits"].as_array().is_some_and(|limits| !limits.is_empty())
        });
        assert_eq!(
            (last["limits"].as_array().map(Vec::len), &last["limits"][0]["name"]),
            (Some(1), &json!(name))
        );
        assert!(last.get("other_limits").is_none(), "nobody else's decisions are shown: {last}");
    }
}

#[test]
fn a_hot_key_leads_to_the_request_that_has_it() {
    let server = Controlled::start(DatabaseKind::Sqlite);
    let users = [r"DOMAIN\ann", "e\u{301}", "\u{e02}\u{e49}"];
    for user in users {
        decide(&server.server, &json!({ "user": user }), 8);
    }
    within(PATIENCE, "the keys are seen", || {
        let keys = get(&server, &server.admin, "/hot-keys");
        let consumers = keys["consumers"].as_array().expect("a list");
        users.iter().all(|user| consumers.iter().any(|key| key["request"]["user"] == *user))
    });
    let keys = get(&server, &server.admin, "/hot-keys");
    for key in keys["consumers"].as_array().expect("a list") {
        let found =
            server.call(&server.admin, "POST", "/keys/lookup", Some(json!({ "request": key["request"] })));
        let limits = found.expect(200).json()["limits"].clone();
        let used = |limit: &Value| limit["name"] == key["limit"] && limit["remaining"] != limit["limit"];
        let buckets = limits.as_array().expect("a list");
        // A bucket that is full again says nothing; one of a user who does not exist never was anything else.
        assert!(
            buckets.iter().any(used) || buckets.iter().any(|limit| limit["name"] == key["limit"]),
            "{key} {limits}"
        );
    }
}

fn what_a_node_has_decided_is_there_after_it_has_ended(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    within(PATIENCE, "it counts", || {
        get(&server, &server.admin, "/overview")["nodes"][0]["status"] == "ready"
    });
    decide(&server.server, &json!({ "user": "42" }), 12);
    let Controlled { server: first, admin, place } = server;
    first.signal(Signal::TERM);
    assert_eq!(first.ended().code(), Some(0));
    // Most likely within the same step.
    let next = Controlled { server: place.start(&[]), admin, place };
    decide(&next.server, &json!({ "user": "43" }), 3);
    within(PATIENCE, "the decisions of both are there", || {
        let history = get(&next, &next.admin, "/history");
        let all = sum(&history, decided);
        assert!(all <= 15, "none is counted twice: {history}");
        all >= 12 && sum(&history, |step| decided(&step["limits"]["per-user"])) >= 12
    });
}

/// Others have read the hour before, and keep what they have read.
fn what_a_node_writes_late_is_seen(kind: DatabaseKind) {
    const KEPT: KeptSteps = KeptSteps { step_millis: 30_000, count: 120 };
    let server = Controlled::start(kind);
    let allowed = || sum(&get(&server, &server.admin, "/history"), decided);
    let step = |history: &Value| history["steps"].as_array().and_then(|steps| steps.last()).cloned();
    let mut newest = None;
    within(PATIENCE, "it counts", || {
        newest = step(&get(&server, &server.admin, "/history"));
        newest.is_some()
    });
    let time = newest.expect("it was found")["time"].as_str().expect("it has a time").to_owned();
    let time: jiff::Timestamp = time.parse().expect("RFC 3339");
    let number = u64::try_from(time.as_millisecond()).expect("after 1970") / KEPT.step_millis;
    let write = |node: &str, step: u64, allowed: u64| {
        let figures = json!({
            "millis": 1, "allowed": allowed, "denied": {}, "limits": {}, "times": {},
            "other_limits": { "allowed": 0, "denied": 0 },
        });
        let record = HistoryRecord { node: node.to_owned(), step, figures: figures.to_string() };
        on_database(&server.place.url, async |database| database.keep_history(&record, KEPT).await.unwrap());
    };
    let mut all = 0;
    for (node, step, more) in
        [("a", number - 50, 1), ("b", number - 50, 10), ("a", number - 49, 100), ("b", number - 100, 1_000)]
    {
        write(node, step, more);
        all += more;
        within(PATIENCE, "what was written is seen", || allowed() == all);
    }
}

#[test]
fn while_the_database_is_away_a_node_shows_itself_and_says_so() {
    let home = Home::new();
    let mut postgres = Postgres::start();
    let url = postgres.url("postgres");
    home.write("database.yaml", &format!("database: {{ url: \"{url}\" }}\n"));
    let server = Controlled::start_in(Place { home, url: url.clone(), kind: DatabaseKind::Postgres }, "");
    let is_whole = |path: &str| get(&server, &server.admin, path).get("incomplete").is_none();
    within(PATIENCE, "it counts", || {
        get(&server, &server.admin, "/overview")["nodes"][0]["status"] == "ready"
    });
    assert!(is_whole("/overview") && is_whole("/history") && is_whole("/hot-keys"));
    decide(&server.server, &json!({ "user": "42" }), 12);
    postgres.stop();
    for path in ["/overview", "/history", "/hot-keys"] {
        within(PATIENCE, &format!("{path} says what is missing"), || {
            let shown = get(&server, &server.admin, path);
            shown["incomplete"]["database"].as_str().is_some_and(|note| note.contains("does not answer"))
        });
    }
    let overview = get(&server, &server.admin, "/overview");
    assert_eq!(overview["nodes"].as_array().map(Vec::len), Some(1), "{overview}");
    let keys = get(&server, &server.admin, "/hot-keys");
    assert!(keys["consumers"].as_array().is_some_and(|keys| !keys.is_empty()), "{keys}");
    // The wall clock is the subject: a step ends while it cannot be written.
    let mut history = Value::Null;
    within(STEP_PATIENCE, "a step has ended", || {
        decide(&server.server, &json!({ "user": "43" }), 1);
        history = get(&server, &server.admin, "/history");
        let steps = history["steps"].as_array().expect("it has steps");
        steps.iter().filter(|step| decided(step) > 0).count() >= 2
    });
    postgres.start_again();
    for path in ["/overview", "/history", "/hot-keys"] {
        within(PATIENCE, &format!("{path} is whole again"), || is_whole(path));
    }
    within(PATIENCE, "the step that had ended is written", || {
        on_database(&url, async |database| !database.history_between(0, u64::MAX).await.unwrap().is_empty())
    });
}
