//! What was done and undone before nodes are replaced: nothing is done again, and nothing comes back.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds, user};
use crate::support::within;

/// How many seconds entries hold that end after the restart: longer than that takes, on most machines.
const OVER_A_RESTART: i64 = 15;

#[test]
fn nothing_is_done_again_or_comes_back_when_every_node_is_replaced() {
    Shared::each_at_once(&[Shared::Strict, Shared::Hybrid], |shared| {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let granted = fleet.spend_a_grant("granted");
        fleet.add_and_remove_everything();
        let until = in_seconds(OVER_A_RESTART);
        fleet.add_until(&until);
        for node in 0..=last {
            fleet.restart(node);
            fleet.has_nothing_of_what_was_removed(node);
            fleet.follows_until(node, &until);
        }
        let again: usize = (0..=last).map(|node| fleet.admitted(node, "granted")).sum();
        match shared {
            // What a node leases and does not use in time is lost.
            Shared::Hybrid => assert!(granted + again <= 2, "{granted}, and then {again}"),
            _ => assert_eq!((granted, again), (2, 0), "{shared:?}"),
        }
        fleet.all_say("ok", &user("until-block"));
        fleet.all_show(5, &user("until-override"));
    });
}

impl LiveFleet {
    /// How many of six requests of a user a node admits.
    fn admitted(&self, node: usize, name: &str) -> usize {
        (0..6).filter(|_| self.check(node, &user(name))["allowed"] == true).count()
    }

    /// Uses up a bucket, grants it two tokens, and asks every node for them; returns how many were admitted.
    fn spend_a_grant(&self, name: &str) -> usize {
        let last = self.servers.len() - 1;
        let asked = json!({ "request": user(name) });
        let left = || {
            let found = self.api(0, "POST", "/keys/lookup", &asked).expect(200).json();
            found["limits"][0]["remaining"].as_u64()
        };
        let all = || (0..=last).map(|node| self.admitted(node, name)).sum::<usize>();
        // In hybrid mode the last tokens may be in a lease for a moment.
        within(PATIENCE, "the bucket is empty", || all() == 0 && left() == Some(0));
        let body = json!({ "request": user(name), "limit": "per-user", "tokens": 2 });
        self.api(0, "POST", "/keys/grant", &body).expect(200);
        let mut admitted = 0;
        within(PATIENCE, "somebody is admitted", || {
            admitted += all();
            admitted > 0
        });
        admitted + all()
    }

    /// Adds one of each kind, and removes all of them when every node follows them.
    fn add_and_remove_everything(&self) {
        let last = self.servers.len() - 1;
        let named = |kind: &str| user(&format!("removed-{kind}"));
        let who = |kind: &str| json!({ "user": format!("removed-{kind}") });
        let made = |path: &str, body: &Value| {
            let made = self.api(0, "POST", path, body).expect(201);
            let location = made.header("location").expect("where it is");
            location.strip_prefix("/api/v1").expect("a path of the API").to_owned()
        };
        let paths = [
            made("/keys/block", &json!({ "who": who("block") })),
            made("/keys/allow", &json!({ "who": who("allow") })),
            made("/overrides", &json!({ "who": who("override"), "limit": "per-user", "multiplier": 2 })),
        ];
        let facts = json!({ "created": "2020-02-29T12:00:00Z", "email_verified": true });
        self.api(0, "PUT", "/trust/removed-facts", &facts).expect(200);
        self.all_say("blocked", &named("block"));
        self.all_say("allowlisted", &named("allow"));
        self.all_show(10, &named("override"));
        self.all_show(7, &named("facts"));
        let on = json!({ "state": "allow", "reason": "a moment" });
        self.api(0, "PUT", "/kill-switch", &on).expect(200);
        self.all_say("kill_switch", &user("anybody"));
        self.api(last, "PUT", "/kill-switch", &json!({ "state": "off" })).expect(200);
        self.all_say("ok", &user("anybody"));
        self.api(last, "PUT", "/trust/removed-facts", &json!({})).expect(200);
        for path in paths {
            self.api(last, "DELETE", &path, &Value::Null).expect(200);
        }
    }

    /// From its first request on, and by its lists.
    fn has_nothing_of_what_was_removed(&self, node: usize) {
        let named = |kind: &str| self.peek(node, &user(&format!("removed-{kind}")));
        let found = [&named("block")["reason"], &named("allow")["reason"]].map(|reason| reason == "ok");
        assert_eq!(found, [true; 2], "{:?}: node {node}", self.shared);
        let capacities = ["override", "facts"].map(|kind| named(kind)["limit"].clone());
        assert_eq!(capacities, [json!(5), json!(5)], "{:?}: node {node}", self.shared);
        let read = |path: &str| self.api(node, "GET", path, &Value::Null).expect(200).json();
        assert_eq!(read("/kill-switch"), json!({ "state": "off" }));
        assert_eq!(read("/trust/removed-facts")["facts"], json!({}));
        let listed = read("/keys/live").to_string() + &read("/overrides").to_string();
        assert!(!listed.contains("removed-"), "{listed}");
    }

    /// Adds a block and an override that end after the restart.
    fn add_until(&self, until: &str) {
        let block = json!({ "who": { "user": "until-block" }, "until": until });
        self.api(0, "POST", "/keys/block", &block).expect(201);
        let numbers = json!({
            "who": { "user": "until-override" }, "limit": "per-user", "multiplier": 2, "until": until,
        });
        self.api(0, "POST", "/overrides", &numbers).expect(201);
        self.all_say("blocked", &user("until-block"));
        self.all_show(10, &user("until-override"));
    }

    /// A node that has just started follows them, unless their time is over by now.
    fn follows_until(&self, node: usize, until: &str) {
        let blocked = self.check(node, &user("until-block"))["reason"] == "blocked";
        let overridden = self.peek(node, &user("until-override"))["limit"] == 10;
        let until: Timestamp = until.parse().expect("it was written here");
        let is_over = Timestamp::now() >= until;
        assert!(
            (blocked && overridden) || is_over,
            "{:?}: node {node}: {blocked}, {overridden}",
            self.shared
        );
    }
}
