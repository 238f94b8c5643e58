//! Sessions of browsers, and wrong tokens.

use std::time::Duration;

use tidegate_database::DatabaseKind;

use super::client::{Controlled, ask};
use crate::control::place::{Place, on_both};
use crate::support::within;

on_both!(
    a_session_acts_for_pages_of_this_server_only,
    a_login_needs_a_token_and_comes_from_no_other_site,
    wrong_tokens_are_events_and_slow_their_address_down
);

/// Logs in with a token in a form, and returns the cookie.
fn log_in(server: &Controlled, token: &str) -> String {
    let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    let reply = ask(server.address(), "POST", "/console/login", &headers, &format!("token={token}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json()["role"], "admin");
    let cookie = reply.header("set-cookie").expect("a cookie");
    for part in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().expect("the pair");
    assert!(pair.starts_with("__Host-tidegate=tgs_"), "{pair}");
    pair.to_owned()
}

fn a_session_acts_for_pages_of_this_server_only(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let cookie = log_in(&server, &server.admin);
    let with = |method: &str, path: &str, site: &str, body: &str| {
        let headers =
            [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", site), ("Content-Type", "application/json")];
        ask(server.address(), method, path, &headers, body).status
    };
    let wanted = "{\"role\":\"viewer\"}";
    assert_eq!(with("GET", "/api/v1/whoami", "same-origin", ""), 200);
    assert_eq!(with("GET", "/api/v1/whoami", "none", ""), 200);
    assert_eq!(with("POST", "/api/v1/tokens", "same-origin", wanted), 201);
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(with("POST", "/api/v1/tokens", site, wanted), 403, "{site}");
        assert_eq!(with("POST", "/console/logout", site, ""), 403, "{site}");
    }
    assert_eq!(with("GET", "/api/v1/whoami", "cross-site", ""), 403);
    assert_eq!(with("POST", "/console/logout", "same-origin", ""), 200);
    assert_eq!(with("GET", "/api/v1/whoami", "same-origin", ""), 401);
}

fn a_login_needs_a_token_and_comes_from_no_other_site(kind: DatabaseKind) {
    let server = Controlled::start(kind);
    let post = |media_type: &str, site: &str, body: &str| {
        let headers = [("Content-Type", media_type), ("Sec-Fetch-Site", site)];
        ask(server.address(), "POST", "/console/login", &headers, body)
    };
    let json = format!("{{\"token\":\"{}\"}}", server.admin);
    assert_eq!(post("application/json", "same-origin", &json).status, 200);
    let foreign = post("application/json", "cross-site", &json);
    assert_eq!((foreign.status, foreign.header("set-cookie")), (403, None));
    assert_eq!(post("application/json", "same-origin", "{\"token\":\"tga_wrong\"}").status, 401);
    assert_eq!(post("application/json", "same-origin", "{\"tokn\":1}").status, 400);
    assert_eq!(post("text/plain", "same-origin", &json).status, 415);
    assert_eq!(ask(server.address(), "GET", "/console/login", &[], "").status, 405);
    assert_eq!(ask(server.address(), "GET", "/console/other", &[], "").status, 404);
}

fn wrong_tokens_are_events_and_slow_their_address_down(kind: DatabaseKind) {
    let server = Controlled::start_in(Place::new(kind), "events: { file: events.jsonl }\n");
    // Loopback is a trusted proxy, and names the addresses of clients.
    let from = |address: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("X-Forwarded-For", address)];
        ask(server.address(), "GET", "/api/v1/whoami", &headers, "")
    };
    assert_eq!(from("203.0.113.7", &server.admin).status, 200);
    let statuses: Vec<u16> =
        (0..12).map(|number| from("203.0.113.7", &format!("wrong{number}")).status).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert!(statuses[10..].contains(&429), "{statuses:?}");
    let slowed = from("203.0.113.7", "wrong");
    if slowed.status == 429 {
        let wait: u64 = slowed.header("retry-after").expect("it says when").parse().expect("a number");
        assert!((1..=6).contains(&wait), "{wait}");
    }
    assert_eq!(from("203.0.113.8", "wrong").status, 401, "others are not held up");
    assert_eq!(from("203.0.113.7", &server.admin).status, 200, "nor is who was known before");
    within(Duration::from_secs(20), "the events are written", || {
        let events = std::fs::read_to_string(server.place.home.path("events.jsonl")).unwrap_or_default();
        let is_one = |line: &&str| {
            line.contains("\"event\":\"invalid_credentials\"")
                && line.contains("\"kind\":\"admin_api\"")
                && line.contains("\"ip\":\"203.0.113.7\"")
        };
        assert!(!events.contains("wrong0"), "the token is not told");
        events.lines().filter(is_one).count() >= 10
    });
}
