//! Strict mode: all nodes together enforce one limit.

use rustix::process::Signal;

use super::asking::{admin, admits, metric, pipeline, post, serve};
use crate::support::home::policy;
use crate::support::redis::Redis;

#[test]
fn two_servers_share_a_limit_to_the_last_token() {
    let redis = Redis::start();
    let (one, _home) = serve(&redis.settings("strict"), &policy(10));
    let (other, _other_home) = serve(&redis.settings("strict"), &policy(10));
    assert_eq!(one.told("store"), format!("strict on redis://127.0.0.1:{}", redis.port));
    let admitted = (0..14).filter(|n| admits(if n % 2 == 0 { &one } else { &other }, "a")).count();
    assert_eq!(admitted, 10);
    let (status, denied) = post(&other, "/v1/check", r#"{"user":"a"}"#);
    assert_eq!((status, &denied["reason"]), (429, &"token_bucket_exceeded".into()));
    let wait = denied["retry_after_ms"].as_u64().expect("a number");
    assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
    // Tokens refunded on one node can be spent on the other.
    assert_eq!(post(&one, "/v1/refund", r#"{"request":{"user":"a"},"cost":2}"#).1["remaining"], 2);
    assert_eq!(post(&one, "/v1/peek", r#"{"user":"a"}"#).1["remaining"], 2);
    assert!(metric(&one, "tidegate_store_calls_total") >= 7.0);
    assert_eq!(metric(&one, "tidegate_lease_overshoot_bound_tokens{limit=\"per-user\"}"), 0.0);
    assert_eq!((admin(&one, "/readyz").0, metric(&one, "tidegate_degraded")), (200, 0.0));
    one.signal(Signal::TERM);
    assert_eq!(one.ended().code(), Some(0));
}

#[test]
fn a_batch_is_decided_in_its_order() {
    let redis = Redis::start();
    let (server, _home) = serve(&redis.settings("strict"), &policy(100));
    // The first call loads the scripts into Redis and is slow; later calls could overtake it.
    assert!(admits(&server, "other"));
    let requests = vec![r#"{"user":"a"}"#; 150].join(",");
    let (status, said) = post(&server, "/v1/check/batch", &format!("{{\"requests\":[{requests}]}}"));
    assert_eq!(status, 200);
    let remaining: Vec<i64> = said["decisions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|decision| decision["allowed"] == true)
        .map(|decision| decision["remaining"].as_i64().expect("a number"))
        .collect();
    assert_eq!(remaining, (0..100).rev().collect::<Vec<i64>>());
}

#[test]
fn buckets_without_a_policy_are_shared_by_both_protocols_and_answered_in_order() {
    let redis = Redis::start();
    let (one, _home) = serve(&redis.settings("strict"), &policy(1));
    let (other, _other_home) = serve(&redis.settings("strict"), &policy(1));
    // The first call loads the scripts into Redis and is slow; later calls could overtake it.
    assert_eq!(post(&one, "/v1/throttle", r#"{"key":"other","capacity":1,"rate":1,"window":"1s"}"#).0, 200);
    // More commands than may wait for the store at once, mixed with commands that are answered locally.
    let commands: String = (0..600).map(|n| format!("CL.THROTTLE key 399 1 86400\r\nECHO {n}\r\n")).collect();
    let answers = pipeline(&one.address("resp"), &commands);
    let echoes = answers.split("\r\n").filter(|line| line.len() < 4 && line.parse::<u32>().is_ok());
    assert!(echoes.eq((0..600).map(|n| n.to_string()).collect::<Vec<_>>()), "not in order");
    let mut said = answers.split("*5\r\n").skip(1).map(|answer| answer.split("\r\n").collect::<Vec<_>>());
    for remaining in (0..400).rev() {
        let answer = said.next().expect("an answer for each");
        assert_eq!(answer[..3], [":0", ":400", &format!(":{remaining}")], "{answer:?}");
    }
    assert!(said.all(|answer| answer[..3] == [":1", ":400", ":0"]));
    assert!(answers.ends_with("+OK\r\n"));

    let body = r#"{"key":"key","capacity":400,"rate":1,"window":"86400s"}"#;
    let (status, denied) = post(&other, "/v1/throttle", body);
    assert_eq!((status, &denied["remaining"]), (429, &0.into()));
    let more = pipeline(
        &other.address("resp"),
        "CL.THROTTLE key 399 1 86400\r\nCL.THROTTLE key 399 1 86400 x\r\nTG.CHECK user a\r\n",
    );
    assert!(more.starts_with("*5\r\n:1\r\n:400\r\n"), "{more}");
    assert!(more.contains("-ERR quantity is not an integer: 'x'\r\n*7\r\n:1\r\n:1\r\n:0\r\n"), "{more}");
    assert!(!admits(&one, "a"), "the other has spent it");
}
