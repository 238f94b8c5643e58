//! What the server writes about what happens, and how `tidegate events` shows it.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::http::client::Client;
use crate::support::home::{Home, policy};
use crate::support::server::{Ran, Server, run, tidegate};
use crate::support::within;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The lines of the events file.
fn lines(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path("events.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

fn shown(home: &Home, args: &[&str]) -> Ran {
    run(tidegate(&[&["events", "--file", &home.arg("events.jsonl")], args].concat()))
}

/// The value of a metric.
fn metric(server: &Server, series: &str) -> u64 {
    let mut client = Client::connect(server.socket("admin"));
    client.send("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let page = client.answer().body;
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{page}")).parse().expect("a number")
}

#[test]
fn what_happened_is_in_the_file_when_the_server_has_stopped_and_adds_up() {
    let home = Home::new();
    let (file, settings) = (
        home.write("policy.yaml", &policy(2)),
        home.write("settings.yaml", "events: { file: events.jsonl, node: node-7 }\n"),
    );
    let server = Server::start(&["--policy", &file, "--config", &settings]);
    let mut client = Client::connect(server.socket("http"));
    for _ in 0..7 {
        client.post("/v1/check", r#"{"user":"42","ip":"192.0.2.7","path":"/api/videos"}"#);
    }
    let head =
        format!("host: 127.0.0.1\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\ncontent-length: 13");
    client.send(format!("POST /v1/check HTTP/1.1\r\n{head}\r\n\r\n{{\"user\":\"42\"}}"));
    assert_eq!(client.answer().status, 429);
    for _ in 0..3 {
        client.post("/v1/throttle", r#"{"key":"job:1","capacity":1,"rate":1,"window":"60s"}"#);
    }
    let denied = metric(&server, r#"tidegate_decisions_total{limit="per-user",outcome="denied"}"#);
    let throttled = metric(&server, r#"tidegate_throttle_decisions_total{outcome="denied"}"#);
    assert_eq!((denied, throttled), (6, 2));
    let allow = "allow: [{ \"header:x-api-key\": partner-key, reason: partner }]\n";
    home.write("policy.yaml", &format!("{}{allow}", policy(3)));
    server.logged(&["policy reloaded", "version=2"]);
    within(Duration::from_secs(20), "changes are written at once", || !lines(&home).is_empty());
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));

    let events = lines(&home);
    let [by_user, by_key] = named(&events, "rate_limit_exceeded")[..] else { panic!("{events:?}") };
    let (by_user, by_key) =
        if by_user["limit"] == "per-user" { (by_user, by_key) } else { (by_key, by_user) };
    assert_eq!((by_user["count"].as_u64(), by_key["count"].as_u64()), (Some(denied), Some(throttled)));
    assert_eq!((&by_key["key"], &by_key["limit"]), (&"job:1".into(), &"throttle".into()));
    for (member, value) in [
        ("severity", "warning"),
        ("user", "42"),
        ("key", "42"),
        ("kind", "token_bucket"),
        ("node", "node-7"),
        ("trace_id", TRACE),
    ] {
        assert_eq!(by_user[member], value, "{member}: {by_user}");
    }
    assert_eq!((&by_user["ip"], &by_user["endpoint"]), (&Value::Null, &Value::Null), "not the same in all");
    let [updated] = named(&events, "rate_limit_config_updated")[..] else { panic!("{events:?}") };
    assert_eq!((&updated["limit"], &updated["kind"]), (&"per-user".into(), &"changed".into()));
    assert_eq!(updated["policy_version"], 2);
    let [allowed] = named(&events, "rate_limit_whitelist_added")[..] else { panic!("{events:?}") };
    assert!(!allowed.to_string().contains("partner-key"), "{allowed}");

    let text = shown(&home, &["--user", "42", "--since", "1h"]);
    assert_eq!((text.out.lines().count(), text.code), (1, Some(0)), "{}", text.out);
    assert!(text.out.contains("rate_limit_exceeded 6 times since"), "{}", text.out);
    let json = shown(&home, &["--format", "json", "--event", "rate_limit_config_updated"]);
    assert_eq!(serde_json::from_str::<Value>(&json.out).expect("one line"), *updated);
    assert_eq!(shown(&home, &["--since", "soon"]).code, Some(2));
    let by_settings = run(tidegate(&["events", "--config", &settings, "--limit", "throttle"]));
    assert_eq!(by_settings.out.lines().count(), 1, "{}", by_settings.out);
}

#[test]
fn events_go_to_standard_output_and_an_impossible_file_is_refused() {
    let home = Home::new();
    let settings = home.write("settings.yaml", "events: { stdout: true }\n");
    let mut command = tidegate(&["serve", "--config", &settings]);
    command.args(crate::support::server::ANYWHERE).env("TIDEGATE_KILL_SWITCH", "allow");
    let server = Server::start_with(command);
    let line = server.printed("kill_switch_changed");
    let event: Value = serde_json::from_str(&line).expect("a line is JSON");
    assert_eq!((&event["kind"], &event["count"]), (&"on".into(), &1.into()));
    assert!(!home.path("events.jsonl").exists(), "only standard output was asked for");

    let settings = home.write("bad.yaml", "events: { file: nowhere/events.jsonl }\n");
    let refused = run(tidegate(&["serve", "--config", &settings]));
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("events.file: cannot open"), "{}", refused.err);
    let missing = shown(&home, &[]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("the server writes it if its settings have `events`"), "{}", missing.err);
}

/// The trust of a user, as the admin listener tells it.
fn trust_of(server: &Server, user: &str) -> Value {
    let mut client = Client::connect(server.socket("admin"));
    client.send(format!("GET /debug/trust?user={user} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    let mut report: Value = serde_json::from_str(&client.answer().body).expect("JSON");
    report["age_seconds"].take();
    report
}

/// Limits on users and on addresses; the events files are so small that they are full after a few lines.
#[test]
fn violations_count_after_a_restart() {
    let home = Home::new();
    let rate = "sustained: { rate: 1, window: day }";
    let policy = format!(
        "version: 1\nadaptive: {{ trust: true }}\nlimits:\n\
         - {{ name: per-user, key: [user], match: {{ path: /user }}, {rate}, burst: {{ capacity: 1 }} }}\n\
         - {{ name: per-address, key: [ip], match: {{ path: /address }}, {rate}, burst: {{ capacity: 1 }} }}\n\
         - {{ name: all, key: [], match: {{ path: /all }}, {rate}, burst: {{ capacity: 1 }} }}\n"
    );
    let policy = home.write("policy.yaml", &policy);
    home.write("trust.yaml", "users: [{ user: a, email_verified: true, success_rate: 0.9 }]\n");
    let settings = home.write(
        "settings.yaml",
        "events: { file: events.jsonl, max_bytes: 1024, keep: 9 }\ntrust: { file: trust.yaml, score_life: 1ms }\n",
    );
    let start = || Server::start(&["--policy", &policy, "--config", &settings]);
    let server = start();
    let mut client = Client::connect(server.socket("http"));
    let mut ask = |path: &str, user: Option<&str>| {
        let request = serde_json::json!({"user": user, "path": path, "ip": "192.0.2.7"});
        let mut request = request.as_object().expect("an object").clone();
        request.retain(|_, value| !value.is_null());
        client.post("/v1/check", Value::from(request).to_string()).status
    };
    // Four by the limit on users, two by the limit on addresses; none by the limit of all, and none without a user.
    for user in ["a", "a", "a", "a", "b", "b"] {
        ask("/user", Some(user));
    }
    for user in ["c", "d"] {
        ask("/all", Some(user));
    }
    for user in ["e", "f", "g"] {
        ask("/address", Some(user));
    }
    assert_eq!(ask("/address", None), 429);
    let users = ["a", "b", "c", "d", "e", "f", "g"];
    let violations = |reports: &[Value; 7]| -> Vec<u64> {
        let count = |report: &Value| report["inputs"]["violations_30d"].as_u64().expect("a number");
        reports.iter().map(count).collect()
    };
    let reports = |server: &Server| users.map(|user| trust_of(server, user));
    let is_told = || violations(&reports(&server)) == [3, 1, 0, 0, 0, 1, 1];
    within(
        Duration::from_secs(20),
        "scores follow violations when the ones that are kept have ended",
        is_told,
    );
    let before = reports(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    let lines_before = std::fs::read_to_string(home.path("events.jsonl")).unwrap();
    assert!(home.path("events.jsonl.1").exists(), "one file is full: {lines_before}");
    std::fs::write(home.path("events.jsonl"), format!("{lines_before}no event\n")).unwrap();

    let server = start();
    server.logged(&["were read from the events", "violations=6"]);
    server.logged(&["are not events and were skipped", "lines=1"]);
    assert_eq!(reports(&server), before);
    let shown = run(tidegate(&["events", "--config", &settings, "--user", "a"]));
    assert!(shown.out.contains("violation=true"), "{}", shown.out);
}
