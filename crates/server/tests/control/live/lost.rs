//! A Redis that has lost some of what it had, or does not take what it is told.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, user};
use crate::support::within;

fn block(fleet: &LiveFleet, node: usize, name: &str) -> Value {
    let body = json!({ "who": { "user": name } });
    fleet.api(node, "POST", "/keys/block", &body).expect(201).json()["id"].clone()
}

/// Redis starts again with an older file: what it has lost is gone everywhere, and what it is told then is followed.
#[test]
fn every_node_follows_a_redis_that_has_gone_back() {
    for shared in [Shared::Strict, Shared::Hybrid] {
        let mut fleet = LiveFleet::start(shared);
        block(&fleet, 0, "kept");
        fleet.api(0, "PUT", "/trust/kept", &json!({ "email_verified": true })).expect(200);
        fleet.save_redis();
        let lost = ["lost-1", "lost-2", "lost-3"].map(|name| block(&fleet, 1, name));
        fleet.api(1, "PUT", "/trust/lost", &json!({ "email_verified": true })).expect(200);
        fleet.all_say("blocked", &user("lost-3"));
        fleet.restart_redis();
        for node in 0..3 {
            within(PATIENCE, "Redis is used again by each node", || {
                let body = json!({ "who": { "user": "first" } });
                fleet.api(node, "POST", "/keys/block", &body).status == 201
            });
        }
        // At least as many changes as were lost.
        (0..4).for_each(|number| drop(block(&fleet, number % 3, &format!("later-{number}"))));
        fleet.api(2, "PUT", "/trust/later", &json!({ "email_verified": true })).expect(200);
        for name in ["kept", "first", "later-0", "later-3"] {
            fleet.all_say("blocked", &user(name));
        }
        fleet.all_say("ok", &user("lost-1"));
        for node in 0..3 {
            for (name, score) in [("kept", 0.2), ("lost", 0.0), ("later", 0.2)] {
                within(PATIENCE, &format!("{shared:?}: node {node} trusts {name} {score}"), || {
                    let path = format!("/trust/{name}");
                    fleet.api(node, "GET", &path, &Value::Null).json()["score"] == score
                });
            }
            let listed = fleet.api(node, "GET", "/keys/live", &Value::Null).expect(200);
            assert!(!listed.body.contains("lost"), "{shared:?}: {}", listed.body);
        }
        for id in lost {
            let path = format!("/keys/live/{}", id.as_str().expect("a name"));
            fleet.api(2, "DELETE", &path, &Value::Null).expect(404);
        }
    }
}

/// What another node has added just now can be ended at once.
#[test]
fn an_entry_is_ended_by_another_node_at_once() {
    for shared in [Shared::Strict, Shared::Database] {
        let fleet = LiveFleet::start(shared);
        for round in 0..10 {
            let id = block(&fleet, round % 3, "42");
            let path = format!("/keys/live/{}", id.as_str().expect("a name"));
            fleet.api((round + 1) % 3, "DELETE", &path, &Value::Null).expect(200);
            fleet.api((round + 2) % 3, "DELETE", &path, &Value::Null).expect(404);
            let doubled = json!({ "who": { "user": "42" }, "limit": "per-user", "multiplier": 2 });
            let added = fleet.api(round % 3, "POST", "/overrides", &doubled).expect(201).json();
            let path = format!("/overrides/{}", added["id"].as_str().expect("a name"));
            fleet.api((round + 1) % 3, "DELETE", &path, &Value::Null).expect(200);
        }
    }
}

/// Where Redis has the entries in their order. Nothing can be written there while it is no sorted set.
const LIVE: &str = "tidegate:1:{live}:order";

/// A grant that the other nodes could not be told of is done, and not done again.
#[test]
fn a_grant_is_done_once_even_if_the_others_cannot_be_told() {
    let fleet = LiveFleet::start(Shared::Strict);
    let request = user("42");
    block(&fleet, 0, "1");
    (0..5).for_each(|_| assert_eq!(fleet.check(0, &request)["allowed"], true));
    fleet.redis(&["SET", LIVE, "nothing"]);
    let grant = json!({ "request": request, "limit": "per-user", "tokens": 1 });
    for warned in [true, false, false] {
        let granted = fleet.api_once(0, "one", "/keys/grant", &grant).expect(200).json();
        assert_eq!(granted["limits"][0]["remaining"], 1, "{granted}");
        assert_eq!(granted.get("warnings").is_some(), warned, "{granted}");
    }
}

/// Nobody knows whether a block was added if Redis fails meanwhile, so it is not added again.
#[test]
fn a_block_that_may_have_been_added_is_not_added_again() {
    let fleet = LiveFleet::start(Shared::Strict);
    block(&fleet, 0, "1");
    let body = json!({ "who": { "user": "42" } });
    fleet.redis(&["SET", LIVE, "nothing"]);
    fleet.api_once(0, "one", "/keys/block", &body).expect(503);
    fleet.redis(&["DEL", LIVE]);
    let again = fleet.api_once(0, "one", "/keys/block", &body).expect(409);
    assert!(again.body.contains("may have been done or not"), "{}", again.body);
    fleet.api_once(0, "two", "/keys/block", &body).expect(201);
}
