//! Looking up, resetting and granting the keys of a request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds};
use crate::http::client::Client;
use crate::support::within;

const PATHS: [&str; 3] = ["/limited", "/window", "/log"];

fn request(path: &str) -> Value {
    json!({ "user": "42", "path": path })
}

/// How many of ten requests a node admits.
fn admitted(fleet: &LiveFleet, node: usize, path: &str) -> usize {
    (0..10).filter(|_| fleet.check(node, &request(path))["allowed"] == true).count()
}

/// How many are admitted of ten requests to each node.
fn admitted_by_all(fleet: &LiveFleet, path: &str) -> usize {
    (0..fleet.servers.len()).map(|node| admitted(fleet, node, path)).sum()
}

/// Waits until a node admits a request.
#[track_caller]
fn admits(fleet: &LiveFleet, node: usize, path: &str) {
    let what = format!("{:?} {path}: node {node} knows of it", fleet.shared);
    within(PATIENCE, &what, || fleet.check(node, &request(path))["allowed"] == true);
}

/// Once every node has followed an action: not after a while, since a node forgets a denial by itself after five seconds.
#[track_caller]
fn admits_at_once(fleet: &LiveFleet, node: usize, path: &str) {
    let decision = fleet.check(node, &request(path));
    // On a busy machine Redis may answer too late, and then the node has decided by itself.
    let admits = decision["allowed"] == true || decision["degraded"] == true;
    assert!(admits, "{:?} {path}: node {node} remembers its denial: {decision}", fleet.shared);
}

/// Takes all that there is, so that every node denies and remembers it. In hybrid mode a node asks for what is left only now
/// and then, so the buckets are looked at too.
#[track_caller]
fn deny_everywhere(fleet: &LiveFleet, path: &str) {
    let body = json!({ "request": request(path) });
    let left = |node: usize| {
        let found = fleet.api(node, "POST", "/keys/lookup", &body).expect(200).json();
        found["limits"][0]["remaining"].as_u64().expect("it has a bucket")
    };
    within(PATIENCE, &format!("{:?} {path}: all is taken", fleet.shared), || {
        admitted_by_all(fleet, path) == 0 && (0..fleet.servers.len()).all(|node| left(node) == 0)
    });
}

#[test]
fn a_reset_and_a_grant_reach_every_node_and_let_no_more_through() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        for path in PATHS {
            resets_reach_every_node(&fleet, path);
        }
        grants_reach_every_node(&fleet);
        no_grant_exceeds_the_capacity(&fleet);
        within(PATIENCE, "the events say who did it", || {
            let granted = fleet.events("key_granted");
            granted.iter().any(|event| event["reason"] == "sorry" && event["user"] == "42")
        });
    }
}

fn resets_reach_every_node(fleet: &LiveFleet, path: &str) {
    let (shared, nodes) = (fleet.shared, fleet.servers.len());
    // In hybrid mode the first node that is asked may lease all that is left: there is a reset for each of them.
    let rounds = if shared == Shared::Hybrid { nodes } else { 1 };
    for first in 0..rounds {
        deny_everywhere(fleet, path);
        let asked = (first + nodes - 1) % nodes;
        let reset = fleet.api(asked, "POST", "/keys/reset", &json!({ "request": request(path) })).expect(200);
        assert_eq!(reset.json()["limits"][0]["remaining"], 5, "{shared:?} {path}: {}", reset.body);
        assert_eq!(reset.json()["changed"].as_array().map(Vec::len), Some(1));
        fleet.all_have_followed(asked);
        let told = first..first + nodes / rounds;
        told.clone().for_each(|node| admits_at_once(fleet, node, path));
        let all = told.len() + admitted_by_all(fleet, path);
        match shared {
            Shared::Strict | Shared::Both => assert_eq!(all, 5, "{path}"),
            Shared::Hybrid => assert!(all <= 5, "{path}: {all}"),
            Shared::Database | Shared::Nothing => assert_eq!(all, 5 * nodes, "{path}"),
        }
    }
}

fn grants_reach_every_node(fleet: &LiveFleet) {
    let (shared, nodes) = (fleet.shared, fleet.servers.len());
    let body = json!({ "request": request("/limited"), "limit": "per-user", "tokens": 2, "reason": "sorry" });
    // Where nodes count together, the first one that is asked may take all of it: there is a grant for each of them.
    let rounds = if shared.has_shared_limits() { nodes } else { 1 };
    for first in 0..rounds {
        deny_everywhere(fleet, "/limited");
        let asked = (first + nodes - 1) % nodes;
        let granted = fleet.api(asked, "POST", "/keys/grant", &body).expect(200).json();
        assert_eq!(granted["changed"], json!(["per-user"]));
        fleet.all_have_followed(asked);
        let told = first..first + nodes / rounds;
        told.clone().for_each(|node| admits_at_once(fleet, node, "/limited"));
        let all = told.len() + admitted_by_all(fleet, "/limited");
        match shared {
            Shared::Strict | Shared::Both => assert_eq!(all, 2, "{shared:?}"),
            Shared::Hybrid => assert!(all <= 2, "{all}"),
            Shared::Database | Shared::Nothing => assert_eq!(all, 2 * nodes, "{shared:?}"),
        }
    }
}

fn no_grant_exceeds_the_capacity(fleet: &LiveFleet) {
    let last = fleet.servers.len() - 1;
    let body = json!({ "request": request("/limited"), "limit": "per-user", "tokens": 4_000_000 });
    let granted = fleet.api(last, "POST", "/keys/grant", &body).expect(200).json();
    if fleet.shared == Shared::Hybrid {
        // Other nodes may have leased some of it by then, and then the answer shows less. What a node leases and does not
        // use in time is lost, so that fewer than five may be admitted, and never more.
        admits(fleet, last, "/limited");
        let all = 1 + admitted_by_all(fleet, "/limited") + admitted_by_all(fleet, "/limited");
        assert!(all <= 5, "{all}");
    } else {
        assert_eq!(granted["limits"][0]["remaining"], 5, "{:?}: {granted}", fleet.shared);
    }
}

/// Each of three nodes that count for themselves has a third of the limit, and gets a third of a grant; the node that is
/// asked also gets what is left over.
#[test]
fn a_grant_is_divided_among_nodes_that_divide_the_limit() {
    let fleet = LiveFleet::start_with(Shared::Database, "store: { nodes: 3 }\n");
    deny_everywhere(&fleet, "/wide");
    let body = json!({ "request": request("/wide"), "limit": "wide", "tokens": 7 });
    fleet.api(1, "POST", "/keys/grant", &body).expect(200);
    (0..3).for_each(|node| admits(&fleet, node, "/wide"));
    let more: Vec<usize> = (0..3).map(|node| admitted(&fleet, node, "/wide")).collect();
    assert_eq!(more, [1, 2, 1], "beside one on each");
    let reset = fleet.api(1, "POST", "/keys/reset", &json!({ "request": request("/wide") })).expect(200);
    assert_eq!(reset.json()["limits"][0]["remaining"], 10, "{}", reset.body);
    (0..3).for_each(|node| admits(&fleet, node, "/wide"));
    assert_eq!(3 + admitted_by_all(&fleet, "/wide"), 30);
}

#[test]
fn a_lookup_shows_what_is_upon_a_request() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let lookup = |node: usize| {
            fleet
                .api(node, "POST", "/keys/lookup", &json!({ "request": request("/limited") }))
                .expect(200)
                .json()
        };
        assert_eq!(fleet.check(0, &request("/limited"))["allowed"], true);
        let found = lookup(last);
        assert_eq!(
            (&found["limits"][0]["name"], &found["limits"][0]["remaining"]),
            (&"per-user".into(), &4.into())
        );
        assert_eq!((&found["decision"]["allowed"], &found["live"]), (&true.into(), &json!([])));
        assert!(found["explanation"]["limits"].is_array(), "{found}");
        for who in [json!({ "user": "42" }), json!({ "path": "/limited" }), json!({ "user": "43" })] {
            fleet.api(0, "POST", "/keys/block", &json!({ "who": who, "until": in_seconds(600) })).expect(201);
        }
        within(PATIENCE, "both entries are shown", || {
            lookup(last)["live"].as_array().is_some_and(|live| live.len() == 2)
        });
        assert_eq!(lookup(last)["decision"]["reason"], "blocked");
        assert_eq!(lookup(last)["penalties"], json!([]));
        let burst = json!({ "ip": "203.0.113.9" });
        let penalties = || {
            let found = fleet.api(last, "POST", "/keys/lookup", &json!({ "request": burst })).expect(200);
            found.json()["penalties"].clone()
        };
        within(PATIENCE, "the penalty is shown", || {
            // In hybrid mode, a request after the burst learns of it.
            fleet.check(0, &burst);
            penalties()[0]["detector"] == "burst"
        });
        let path = format!("/penalties/{}", penalties()[0]["id"].as_str().expect("an id"));
        fleet.api(last, "DELETE", &path, &Value::Null).expect(200);
        assert_eq!(penalties(), json!([]), "{shared:?}");
    }
}

/// Support asks just when a gate decides: the decision lists no buckets then, and the answers about keys do.
#[test]
fn the_buckets_are_shown_whatever_a_gate_decides() {
    for shared in [Shared::Strict, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let on = json!({ "state": "allow", "reason": "a test" });
        let who = json!({ "who": { "user": "42" } });
        for (reason, method, path, body) in [
            ("blocked", "POST", "/keys/block", &who),
            ("allowlisted", "POST", "/keys/allow", &who),
            ("kill_switch", "PUT", "/kill-switch", &on),
        ] {
            fleet.all_say("ok", &request("/limited"));
            (0..2).for_each(|_| assert_eq!(fleet.check(0, &request("/limited"))["allowed"], true));
            let made = fleet.api(0, method, path, body);
            fleet.all_say(reason, &request("/limited"));
            fleet.shows_buckets_behind(reason, &request("/limited"), 3);
            match made.header("location").and_then(|location| location.strip_prefix("/api/v1")) {
                Some(path) => fleet.api(0, "DELETE", path, &Value::Null).expect(200),
                None => fleet.api(0, "PUT", path, &json!({ "state": "off" })).expect(200),
            };
        }
    }
}

impl LiveFleet {
    /// Looks the keys of a request up that a gate decides, grants it a token and resets it.
    #[track_caller]
    fn shows_buckets_behind(&self, reason: &str, request: &Value, left: u64) {
        let ask = |path: &str, more: Value| {
            let mut body = more;
            body["request"] = request.clone();
            let answer = self.api(0, "POST", path, &body).expect(200).json();
            let limits = answer["limits"].as_array().expect("a list");
            let names: Vec<&Value> = limits.iter().map(|limit| &limit["name"]).collect();
            assert_eq!(names, ["per-user"], "{:?} {reason} {path}: {answer}", self.shared);
            (limits[0]["remaining"].as_u64(), answer)
        };
        let what = format!("{:?} {reason}", self.shared);
        let (remaining, found) = ask("/keys/lookup", json!({}));
        assert_eq!(remaining, Some(left), "{what}: {found}");
        assert_eq!(found["limits"][0]["limit"], 5, "{what}: {found}");
        let decision = &found["decision"];
        assert_eq!((&decision["reason"], &decision["limits"]), (&reason.into(), &json!([])), "{what}");
        assert_eq!(
            ask("/keys/grant", json!({ "limit": "per-user", "tokens": 1 })).0,
            Some(left + 1),
            "{what}"
        );
        assert_eq!(ask("/keys/reset", json!({})).0, Some(5), "{what}");
    }
}

#[test]
fn wrong_bodies_are_refused() {
    let fleet = LiveFleet::start(Shared::Nothing);
    for (status, path, body) in [
        (400, "/keys/lookup", json!({ "request": { "nobody": 1 } })),
        (400, "/keys/reset", json!({ "request": 1 })),
        (422, "/keys/reset", json!({ "request": request("/limited"), "limit": "none" })),
        (422, "/keys/grant", json!({ "request": request("/log"), "limit": "per-user", "tokens": 1 })),
        (422, "/keys/grant", json!({ "request": request("/limited"), "limit": "per-user", "tokens": 0 })),
        (400, "/keys/grant", json!({ "request": request("/limited"), "limit": "per-user", "tokens": -1 })),
        (400, "/keys/grant", json!({ "request": request("/limited"), "tokens": 1 })),
        (422, "/keys/reset", json!({ "request": { "user": "x".repeat(70_000) } })),
    ] {
        let refused = fleet.api(0, "POST", path, &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    let nothing = fleet.api(0, "POST", "/keys/reset", &json!({ "request": {} })).expect(200).json();
    assert_eq!(nothing, json!({ "changed": [], "limits": [] }));
}

#[test]
fn wrong_types_are_told_in_plain_words() {
    let fleet = LiveFleet::start(Shared::Nothing);
    let grant = |tokens: Value| json!({ "request": {}, "limit": "per-user", "tokens": tokens });
    let whole = "expected a whole number, not negative and at most 4294967295 at line 1";
    for (path, body, pointer, told) in [
        ("/keys/grant", grant(json!(0)), "/tokens", "a whole number from 1 to 4294967295"),
        ("/keys/grant", grant(json!(-1)), "/tokens", whole),
        ("/keys/grant", grant(json!(1.5)), "/tokens", whole),
        ("/keys/grant", grant(json!("1, expected 2 at line 3")), "/tokens", whole),
        ("/keys/grant", grant(json!({})), "/tokens", "an object is wrong here, expected a whole number"),
        ("/keys/grant", json!([1]), "", "a list is wrong here, expected a JSON object"),
        ("/keys/grant", json!(5), "", "integer `5`, expected a JSON object at line 1"),
        ("/keys/reset", json!({ "request": {}, "limit": 2 }), "/limit", "expected a text at line 1"),
        (
            "/keys/reset",
            json!({ "request": {}, "more": 2 }),
            "/more",
            "unknown field `more`, expected one of",
        ),
        (
            "/overrides",
            json!({ "who": {}, "limit": "a", "multiplier": "2" }),
            "/multiplier",
            "expected a number at",
        ),
        (
            "/trust/outcomes",
            json!({ "outcomes": {} }),
            "/outcomes",
            "an object is wrong here, expected a list at",
        ),
        ("/trust/outcomes", json!({ "outcomes": [1] }), "/outcomes/0", "expected a JSON object at"),
    ] {
        let refused = fleet.api(0, "POST", path, &body).json();
        let detail = refused["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(told), "{body}: {refused}");
        assert_eq!(refused["pointer"], pointer, "{body}: {refused}");
        assert!(!detail.contains("u32") && !detail.contains("struct"), "{body}: {detail}");
    }
}

/// Clients ask all nodes as fast as they can while keys are reset and tokens are granted. Every token that is admitted was
/// in the bucket at first, or was put there by one of these.
#[test]
fn resets_and_grants_under_load_admit_no_more_than_they_say() {
    const CAPACITY: usize = 5;
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let stop = AtomicBool::new(false);
        let addresses: Vec<SocketAddr> = fleet.servers.iter().map(|server| server.socket("http")).collect();
        let ask = |address: SocketAddr| {
            let mut client = Client::connect(address);
            let body = request("/limited").to_string();
            let head = format!("host: localhost\r\ncontent-length: {}", body.len());
            let text = format!("POST /v1/check HTTP/1.1\r\n{head}\r\n\r\n{body}");
            let mut admitted = 0;
            while !stop.load(Ordering::Relaxed) {
                client.send(&text);
                admitted += usize::from(client.answer().status == 200);
            }
            admitted
        };
        let mut put = CAPACITY;
        let admitted: usize = std::thread::scope(|scope| {
            let ask = &ask;
            let clients: Vec<_> =
                addresses.into_iter().map(|address| scope.spawn(move || ask(address))).collect();
            for round in 0..12 {
                let node = round % fleet.servers.len();
                let (path, body) = match round % 3 {
                    0 => ("/keys/reset", json!({ "request": request("/limited") })),
                    _ => {
                        let request = request("/limited");
                        ("/keys/grant", json!({ "request": request, "limit": "per-user", "tokens": 2 }))
                    }
                };
                fleet.api(node, "POST", path, &body).expect(200);
                put += if round % 3 == 0 { CAPACITY } else { 2 };
            }
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().expect("it ends")).sum()
        });
        assert!(admitted > CAPACITY && admitted <= put, "{shared:?}: {admitted} of {put}");
    }
}

/// Whoever writes to a Redis that has no live entries yet begins them, and the other nodes then read all of them.
#[test]
fn the_first_action_of_all_reaches_every_node() {
    Shared::each_at_once(&[Shared::Strict, Shared::Hybrid], |shared| {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        deny_everywhere(&fleet, "/limited");
        fleet.api(0, "POST", "/keys/reset", &json!({ "request": request("/limited") })).expect(200);
        fleet.all_have_followed(0);
        admits_at_once(&fleet, last, "/limited");
    });
}

/// A node that starts does not do again what was done before.
#[test]
fn a_reset_is_done_once() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Both] {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        fleet.api(0, "POST", "/keys/reset", &json!({ "request": request("/limited") })).expect(200);
        let before = admitted(&fleet, 0, "/limited");
        fleet.restart(last);
        let after = admitted(&fleet, last, "/limited");
        match shared {
            // What a node leases and does not use in time is lost.
            Shared::Hybrid => assert!(before > 0 && before + after <= 5, "{before}, {after}"),
            _ => assert_eq!((before, after), (5, 0), "{shared:?}"),
        }
    }
}
