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

#[test]
fn a_reset_and_a_grant_reach_every_node_and_let_no_more_through() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        let (nodes, last) = (fleet.servers.len(), fleet.servers.len() - 1);
        let shares_limits = matches!(shared, Shared::Strict | Shared::Hybrid | Shared::Both);
        for path in PATHS {
            // Every node denies, and remembers it.
            (0..nodes).for_each(|node| _ = admitted(&fleet, node, path));
            (0..nodes).for_each(|node| assert_eq!(admitted(&fleet, node, path), 0, "{shared:?} {path}"));
            let reset =
                fleet.api(last, "POST", "/keys/reset", &json!({ "request": request(path) })).expect(200);
            assert_eq!(reset.json()["limits"][0]["remaining"], 5, "{shared:?} {path}: {}", reset.body);
            assert_eq!(reset.json()["changed"].as_array().map(Vec::len), Some(1));
            // A node that has not forgotten its denial denies still. In hybrid mode one may have leased what is left.
            let told = if shared == Shared::Hybrid { 1 } else { nodes };
            for node in 0..told {
                let what = format!("{shared:?} {path}: node {node} knows of it");
                within(PATIENCE, &what, || fleet.check(node, &request(path))["allowed"] == true);
            }
            let counts: Vec<usize> = (0..nodes).map(|node| admitted(&fleet, node, path)).collect();
            let all = told + counts.iter().sum::<usize>();
            match shared {
                Shared::Strict | Shared::Both => assert_eq!(all, 5, "{path}: {counts:?}"),
                Shared::Hybrid => assert!(all <= 5, "{path}: {counts:?}"),
                Shared::Database | Shared::Nothing => assert_eq!(all, 5 * nodes, "{path}: {counts:?}"),
            }
        }
        (0..nodes).for_each(|node| assert_eq!(admitted(&fleet, node, "/limited"), 0, "{shared:?}"));
        let body =
            json!({ "request": request("/limited"), "limit": "per-user", "tokens": 2, "reason": "sorry" });
        let granted = fleet.api(0, "POST", "/keys/grant", &body).expect(200).json();
        assert_eq!(granted["changed"], json!(["per-user"]));
        let mut all = 0;
        let told = if shares_limits { 1 } else { nodes };
        for node in 0..told {
            let what = format!("{shared:?}: node {node} has what was granted");
            within(PATIENCE, &what, || fleet.check(node, &request("/limited"))["allowed"] == true);
            all += 1;
        }
        all += (0..nodes).map(|node| admitted(&fleet, node, "/limited")).sum::<usize>();
        match shared {
            Shared::Strict | Shared::Hybrid | Shared::Both => assert!(all <= 2, "{shared:?}: {all}"),
            Shared::Database | Shared::Nothing => assert_eq!(all, 2 * nodes, "{shared:?}"),
        }
        // Never above the capacity.
        let body = json!({ "request": request("/limited"), "limit": "per-user", "tokens": 4_000_000 });
        let granted = fleet.api(last, "POST", "/keys/grant", &body).expect(200).json();
        if shared == Shared::Hybrid {
            // Other nodes may have leased some of it by then, and then the answer shows less. All of it is somewhere.
            let mut all = 0;
            within(PATIENCE, "a full bucket can be taken, on whatever nodes", || {
                all += (0..nodes).map(|node| admitted(&fleet, node, "/limited")).sum::<usize>();
                all >= 5
            });
            all += (0..nodes).map(|node| admitted(&fleet, node, "/limited")).sum::<usize>();
            assert_eq!(all, 5, "and no more");
        } else {
            assert_eq!(granted["limits"][0]["remaining"], 5, "{shared:?}: {granted}");
        }
        within(PATIENCE, "the events say who did it", || {
            fleet
                .events("key_granted")
                .iter()
                .any(|event| event["reason"] == "sorry" && event["user"] == "42")
        });
    }
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

/// A node that starts does not do again what was done before.
#[test]
fn a_reset_is_done_once() {
    for shared in [Shared::Strict, Shared::Both] {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        fleet.api(0, "POST", "/keys/reset", &json!({ "request": request("/limited") })).expect(200);
        assert_eq!(admitted(&fleet, 0, "/limited"), 5);
        fleet.restart(last);
        assert_eq!(admitted(&fleet, last, "/limited"), 0, "{shared:?}");
    }
}
