//! A running server decides, reports its health and readiness, and reloads its policy.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::home::{Home, policy};
use crate::support::server::{Ran, Server, run, tidegate};
use crate::support::within;

/// The status and body of the response to a plain request.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn check(server: &Server, more: &[&str]) -> Ran {
    let url = server.told("http");
    run(tidegate(&[&["check", "--server", &url], more].concat()))
}

#[test]
fn a_request_is_decided_by_the_policy_in_force() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(2));
    let server = Server::start(&["--policy", &file]);
    let ran = check(&server, &["--peek", "user=42"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("allowed") && ran.out.contains("per-user: 2 of 2 left"), "{}", ran.out);
    assert_eq!(check(&server, &["user=42"]).code, Some(0));
    assert_eq!(check(&server, &["user=42"]).code, Some(0));
    let ran = check(&server, &["user=42"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("denied (token_bucket_exceeded) by per-user; retry after"), "{}", ran.out);

    home.replace("policy.yaml", &policy(2).replace("per-user", "renamed"));
    server.logged(&["policy reloaded"]);
    let ran = check(&server, &["--format", "json", "user=42"]);
    let decision: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(
        (decision["allowed"].as_bool(), &decision["limits"][0]["name"]),
        (Some(true), &"renamed".into())
    );
}

#[test]
fn the_commands_of_the_banner_work() {
    let server = Server::start(&[]);
    let curl = server.banner.lines().find(|line| line.contains("curl")).expect("it is there").trim();
    let body = curl.split('\'').nth(1).expect("it is quoted");
    let fields: Vec<String> = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(body)
        .expect("it is JSON")
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().expect("it is text")))
        .collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let ran = check(&server, &fields);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("per-user: 49 of 50 left"), "{}", ran.out);

    let redis = server.banner.lines().find(|line| line.contains("redis-cli")).expect("it is there");
    let command: Vec<&str> = redis.split_whitespace().skip_while(|word| *word != "CL.THROTTLE").collect();
    let mut stream = TcpStream::connect(server.address("resp")).expect("somebody listens");
    stream.write_all(format!("{}\r\nQUIT\r\n", command.join(" ")).as_bytes()).expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    assert!(answer.starts_with("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"), "{answer}");
}

#[test]
fn the_kill_switch_admits_everything() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let args = [
        "serve",
        "--policy",
        &file,
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--admin",
        "off",
    ];
    let mut command = tidegate(&args);
    command.env("TIDEGATE_KILL_SWITCH", "allow");
    let server = Server::start_with(command);
    for _ in 0..3 {
        assert_eq!(check(&server, &["user=42"]).code, Some(0));
    }
}

#[test]
fn readiness_tells_of_a_bad_edit_and_of_draining() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let server = Server::start(&["--policy", &file]);
    let admin = server.address("admin");
    assert_eq!(get(&admin, "/healthz").0, 200);
    assert_eq!(get(&admin, "/readyz").0, 200);
    home.write("policy.yaml", "version: 1\nlimts: []\n");
    server.logged(&["stays in force"]);
    let (status, body) = get(&admin, "/readyz");
    assert!(status == 200 && body.contains("policy") && body.contains(":2:1"), "{status} {body}");
    server.signal(Signal::TERM);
    server.logged(&["stop signal received; draining"]);
    assert_eq!(get(&admin, "/readyz").0, 503);
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_server_with_tls_is_asked_by_its_certificate() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("it can be made");
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    let settings = home.write("settings.yaml", "tls: { cert: cert.pem, key: key.pem }\n");
    let server = Server::start(&["--config", &settings]);
    let ran = check(&server, &["--ca", &home.arg("cert.pem"), "user=42"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = check(&server, &["user=42"]);
    assert_eq!(ran.code, Some(1), "nobody else trusts it");
    assert!(ran.err.contains("no TLS with") || ran.err.contains("certificate"), "{}", ran.err);
}

#[test]
fn it_says_when_most_requests_meet_no_limit() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(5));
    let server = Server::start(&["--policy", &file]);
    let admin = server.address("admin");
    let notes = || {
        let (status, body) = get(&admin, "/readyz");
        let body: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
        assert_eq!((status, &body["status"]), (200, &"ready".into()), "a note is no problem");
        body["notes"].clone()
    };
    assert_eq!(notes(), serde_json::json!([]));
    // The window is at least as long as it takes until the note is there.
    within(Duration::from_secs(30), "it is noted", || {
        for _ in 0..5 {
            assert_eq!(check(&server, &["path=/"]).code, Some(0));
        }
        notes() != serde_json::json!([])
    });
    assert_eq!(notes()[0]["reason"], "no_limit");
    let detail = notes()[0]["detail"].as_str().expect("text").to_owned();
    assert!(
        detail.contains("100 % of the last")
            && detail.ends_with("had no `user`; limits that need it: per-user"),
        "{detail}"
    );
    server.logged(&["WARN", "most requests meet no limit", "`user`"]);
    let (_, page) = get(&admin, "/metrics");
    assert!(
        page.lines().any(|line| line.starts_with("tidegate_no_limit_total{missing=\"user\"} ")),
        "{page}"
    );
}
