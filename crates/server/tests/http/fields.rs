//! Header fields of responses, compared exactly.

use super::Server;

#[test]
fn the_families_of_a_limit() {
    let server = Server::start();
    let mut client = server.connect();
    let allowed = client.post("/v1/check", r#"{"client":"app"}"#);
    for (name, value) in [
        ("ratelimit-policy", r#""per-client";q=2;w=60"#),
        ("ratelimit", r#""per-client";r=1;t=30"#),
        ("ratelimit-limit", "2"),
        ("ratelimit-remaining", "1"),
        ("ratelimit-reset", "30"),
        ("x-ratelimit-limit", "2"),
        ("x-ratelimit-remaining", "1"),
    ] {
        assert_eq!(allowed.header(name), Some(value), "{name}");
    }
    assert_eq!((allowed.header("retry-after"), allowed.header("cache-control")), (None, None));
    client.post("/v1/check", r#"{"client":"app"}"#);
    let denied = client.post("/v1/check", r#"{"client":"app"}"#);
    let wait = denied.header("retry-after").expect("a wait helps").to_owned();
    assert!(["29", "30"].contains(&&*wait), "{wait}");
    assert_eq!(denied.json()["retry_after"].to_string(), wait);
    for (name, value) in [
        ("ratelimit", &*format!(r#""per-client";r=0;t={wait}"#)),
        ("ratelimit-reset", &wait),
        ("cache-control", "no-store"),
        ("x-ratelimit-rule", "per-client"),
        ("x-ratelimit-reason", "token_bucket_exceeded"),
    ] {
        assert_eq!(denied.header(name), Some(value), "{name}");
    }
    let reset: u64 = denied.header("x-ratelimit-reset").and_then(|text| text.parse().ok()).expect("a number");
    assert!(reset > 1_700_000_000, "seconds of the epoch");
}

#[test]
fn the_family_of_draft_seven() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = || client.post("/v1/check", r#"{"domain":"edge"}"#);
    let allowed = ask();
    assert_eq!(allowed.header("ratelimit"), Some("limit=2, remaining=1, reset=30"));
    assert_eq!(allowed.header("ratelimit-policy"), Some("2;w=60"));
    ask();
    let denied = ask();
    let wait = denied.header("retry-after").expect("a wait helps");
    assert_eq!(denied.header("ratelimit"), Some(&*format!("limit=2, remaining=0, reset={wait}")));
    assert_eq!(denied.header("x-ratelimit-limit"), None, "the family takes the place of the default");
}

#[test]
fn headers_that_are_off_leave_the_wait() {
    let server = Server::start();
    let mut client = server.connect();
    client.post("/v1/check", r#"{"plan":"free"}"#);
    let denied = client.post("/v1/check", r#"{"plan":"free"}"#);
    assert_eq!(denied.status, 429);
    assert_eq!(
        (denied.header("retry-after"), denied.header("cache-control")),
        (Some("3600"), Some("no-store"))
    );
    for name in ["x-ratelimit-limit", "x-ratelimit-rule", "x-ratelimit-reason", "ratelimit"] {
        assert_eq!(denied.header(name), None, "{name}");
    }
}
