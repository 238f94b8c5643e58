//! What is told about users: applied on every node, kept where it must be.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, user};
use crate::control::fleet_node::send_to;
use crate::support::within;

/// Waits until every node has this capacity for a user: five, and more with trust.
#[track_caller]
fn all_hold(fleet: &LiveFleet, name: &str, capacity: u64) {
    for node in 0..fleet.servers.len() {
        let what = format!("{:?}: node {node} holds {capacity} for {name}", fleet.shared);
        within(PATIENCE, &what, || fleet.peek(node, &user(name))["limit"] == capacity);
    }
}

#[test]
fn facts_and_outcomes_count_on_every_node_and_survive_a_restart() {
    for shared in Shared::ALL {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        all_hold(&fleet, "42", 5);
        let facts = json!({ "created": "2020-02-29T12:00:00Z", "email_verified": true });
        let told = fleet.api(0, "PUT", "/trust/42?reason=checked", &facts).expect(200).json();
        assert_eq!(told["facts"], json!({ "created": "2020-02-29T12:00:00Z", "email_verified": true }));
        assert_eq!(
            (&told["score"], &told["known"], &told["applied"]),
            (&0.5.into(), &true.into(), &true.into())
        );
        assert_eq!(
            told["terms"],
            json!({ "account_age": 0.3, "email_verified": 0.2, "success_rate": 0.0, "violations": 0.0 })
        );
        assert_eq!(fleet.peek(0, &user("42"))["limit"], 7, "the node that was asked has it at once");
        all_hold(&fleet, "42", 7);
        // Outcomes from two nodes add up, and so do those of one user in one call.
        let outcomes = json!({ "outcomes": [
            { "user": "42", "successes": 2 }, { "user": "7", "successes": 1, "failures": 3 }, { "user": "42", "successes": 1 },
        ] });
        let counted = fleet.api(last, "POST", "/trust/outcomes", &outcomes).expect(200).json();
        assert_eq!(counted, json!({ "users": 2 }));
        all_hold(&fleet, "42", 10);
        all_hold(&fleet, "7", 5);
        let more = json!({ "outcomes": [{ "user": "7", "successes": 12 }] });
        fleet.api(0, "POST", "/trust/outcomes", &more).expect(200);
        all_hold(&fleet, "7", 7);
        let seen = fleet.api(last, "GET", "/trust/7", &Value::Null).expect(200).json();
        assert_eq!(seen["outcomes"], json!({ "successes": 13, "failures": 3 }));
        assert_eq!((&seen["score"], &seen["inputs"]["success_rate"]), (&0.4.into(), &0.8125.into()));
        if shared != Shared::Nothing {
            for node in 0..fleet.servers.len() {
                fleet.restart(node);
                assert_eq!(
                    fleet.peek(node, &user("42"))["limit"],
                    10,
                    "{shared:?}: from the first request on"
                );
            }
        }
        // Facts that are taken back are gone everywhere; outcomes stay.
        fleet.api(last, "PUT", "/trust/42", &json!({})).expect(200);
        all_hold(&fleet, "42", 7);
        let unknown = fleet.api(0, "GET", "/trust/nobody", &Value::Null).expect(200).json();
        assert_eq!((&unknown["known"], &unknown["facts"]), (&false.into(), &json!({})));
        within(PATIENCE, "the events say who did it", || {
            fleet.events("trust_changed").iter().any(|event| {
                event["user"] == "42" && event["reason"] == "checked" && event["actor"].is_string()
            })
        });
    }
}

#[test]
fn facts_about_many_users_come_in_one_call() {
    for shared in [Shared::Strict, Shared::Database, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let known = |number: u32| json!({ "user": format!("u{number}"), "email_verified": true });
        let batch = json!({ "facts": (0..300).map(known).collect::<Vec<Value>>() });
        let set = fleet.api(0, "POST", "/trust/facts?reason=import", &batch).expect(200).json();
        assert_eq!(set, json!({ "users": 300 }));
        for name in ["u0", "u150", "u299"] {
            all_hold(&fleet, name, 6);
        }
        // All of it or nothing: one wrong entry, and where it is.
        for (pointer, wrong) in [
            ("/facts/1/created", json!({ "user": "x", "created": "yesterday" })),
            ("/facts/1/success_rate", json!({ "user": "x", "success_rate": 2 })),
            ("/facts/1/user", json!({ "user": "" })),
            ("/facts/1/user", json!({ "user": "u0" })),
        ] {
            let batch = json!({ "facts": [{ "user": "u0" }, wrong] });
            let refused = fleet.api(last, "POST", "/trust/facts", &batch).expect(422).json();
            assert_eq!(refused["pointer"], pointer, "{refused}");
        }
        assert_eq!(fleet.peek(0, &user("u0"))["limit"], 6, "what it was");
        let none = json!({ "facts": [{ "user": "u0" }] });
        fleet.api(last, "POST", "/trust/facts", &none).expect(200);
        all_hold(&fleet, "u0", 5);
        within(PATIENCE, "one event for all of them", || {
            let told = fleet.events("trust_changed");
            told.iter().any(|event| event["count"] == 300 && event["reason"] == "import")
        });
    }
}

#[test]
fn a_repeated_batch_is_counted_once() {
    for shared in [Shared::Strict, Shared::Database, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let batch =
            |failures: u32| json!({ "outcomes": [{ "user": "42", "successes": 1, "failures": failures }] });
        for _ in 0..3 {
            let counted = fleet.api_once(0, "key-1", "/trust/outcomes", &batch(1)).expect(200);
            assert_eq!(counted.json(), json!({ "users": 1 }));
        }
        let other = fleet.api_once(0, "key-1", "/trust/outcomes", &batch(2)).expect(409);
        assert!(other.body.contains("used for another request"), "{}", other.body);
        fleet.api_once(0, "key-2", "/trust/outcomes", &batch(1)).expect(200);
        let seen = fleet.api(0, "GET", "/trust/42", &Value::Null).expect(200).json();
        assert_eq!(seen["outcomes"], json!({ "successes": 2, "failures": 2 }), "{shared:?}");
    }
}

/// On Redis a batch is written in parts: when one fails, a repetition does only what is left, on whatever node.
#[test]
fn a_batch_that_failed_in_the_middle_is_counted_once() {
    let fleet = LiveFleet::start(Shared::Strict);
    let outcomes: Vec<Value> =
        (0..250).map(|number| json!({ "user": format!("u{number:03}"), "successes": 1 })).collect();
    let batch = json!({ "outcomes": outcomes });
    let users = "tidegate:1:{trust}:users";
    fleet.api(0, "PUT", "/trust/other", &json!({ "email_verified": true })).expect(200);
    // What nobody can read, of a user of the second hundred.
    fleet.redis(&["ZADD", users, "0", "u150\nbroken"]);
    for _ in 0..2 {
        let failed = fleet.api_once(0, "nightly", "/trust/outcomes", &batch).expect(503);
        assert!(failed.body.contains("the 100 users up to `u099`"), "{}", failed.body);
    }
    fleet.redis(&["ZREM", users, "u150\nbroken"]);
    for node in [1, 0, 2] {
        let counted = fleet.api_once(node, "nightly", "/trust/outcomes", &batch).expect(200);
        assert_eq!(counted.json(), json!({ "users": 250 }));
    }
    for name in ["u000", "u099", "u100", "u249"] {
        let path = format!("/trust/{name}");
        within(PATIENCE, &format!("{name} is counted"), || {
            let seen = fleet.api(0, "GET", &path, &Value::Null).expect(200).json();
            assert_ne!(seen["outcomes"]["successes"], 2, "{name} is counted twice");
            seen["outcomes"] == json!({ "successes": 1, "failures": 0 })
        });
    }
    within(PATIENCE, "the events have each user once", || {
        let counts = fleet.events("trust_changed").into_iter().filter_map(|event| event["count"].as_u64());
        counts.sum::<u64>() == 251
    });
}

/// No outcome is lost when many tell outcomes of the same users to all nodes at once, in batches longer than one call to
/// Redis changes.
#[test]
fn outcomes_that_are_told_at_once_add_up() {
    for shared in [Shared::Strict, Shared::Database] {
        let fleet = LiveFleet::start(shared);
        let batch: Vec<Value> = (0..150)
            .map(|number| json!({ "user": format!("u{number}"), "successes": 1, "failures": 2 }))
            .collect();
        let batch = json!({ "outcomes": batch });
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let (address, batch) = (fleet.servers[writer % 3].socket("admin"), batch.to_string());
                scope.spawn(move || {
                    for _ in 0..4 {
                        let call = "POST /trust/outcomes";
                        send_to(address, call, "application/json", &[], &batch).expect(200);
                    }
                });
            }
        });
        for name in ["u0", "u99", "u100", "u149"] {
            for node in 0..3 {
                within(PATIENCE, &format!("{shared:?}: all outcomes of {name} on node {node}"), || {
                    let seen = fleet.api(node, "GET", &format!("/trust/{name}"), &Value::Null).json();
                    seen["outcomes"] == json!({ "successes": 24, "failures": 48 })
                });
            }
        }
    }
}

#[test]
fn what_is_known_stays_while_redis_is_away() {
    let mut fleet = LiveFleet::start(Shared::Strict);
    fleet.api(0, "PUT", "/trust/42", &json!({ "email_verified": true })).expect(200);
    fleet.lose_redis();
    let refused = fleet.api(0, "PUT", "/trust/42", &json!({}));
    assert_eq!(refused.status, 503, "{}", refused.body);
    let seen = fleet.api(0, "GET", "/trust/42", &Value::Null).expect(200).json();
    assert_eq!(seen["score"], 0.2);
}

#[test]
fn wrong_bodies_and_names_are_refused() {
    let fleet = LiveFleet::start(Shared::Nothing);
    let long = "x".repeat(257);
    for (status, path, body) in [
        (422, "/trust/42", json!({ "created": "yesterday" })),
        (422, "/trust/42", json!({ "success_rate": 1.5 })),
        (422, "/trust/42", json!({ "success_rate": -0.1 })),
        (400, "/trust/42", json!({ "email_verified": "yes" })),
        (400, "/trust/42", json!({ "verified": true })),
        (422, "/trust/a%0Ab", json!({})),
        (422, &format!("/trust/{long}"), json!({})),
    ] {
        let refused = fleet.api(0, "PUT", path, &body);
        assert_eq!(refused.status, status, "{path} {body}: {}", refused.body);
    }
    let many: Vec<Value> = (0..1_001).map(|number| json!({ "user": number.to_string() })).collect();
    for (status, body) in [
        (422, json!({ "outcomes": many })),
        (422, json!({ "outcomes": [{ "user": "1" }, { "user": "" }] })),
        (422, json!({ "outcomes": [{ "user": long }] })),
        (400, json!({ "outcomes": [{ "user": "1", "successes": -1 }] })),
        (400, json!({ "outcomes": [{ "successes": 1 }] })),
        (400, json!({ "outcome": [] })),
    ] {
        let refused = fleet.api(0, "POST", "/trust/outcomes", &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    fleet.api(0, "POST", "/trust/outcomes", &json!({ "outcomes": [] })).expect(200);
    // A name that needs an escape in a path, and a date before all computers.
    let shown = fleet.api(0, "PUT", "/trust/a%2Fb%20c", &json!({ "created": "1900-01-01T00:00:00Z" }));
    let shown = shown.expect(200).json();
    assert_eq!((&shown["user"], &shown["score"]), (&"a/b c".into(), &0.3.into()));
}
