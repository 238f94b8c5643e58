//! How long what is done by the API holds: to its end, over restarts, and no longer.

use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, user};
use crate::support::within;

/// How many seconds brief entries hold. Where the machine is so slow that they have ended before all nodes were seen to follow
/// them, they are added again and hold longer.
const BRIEF: [u64; 4] = [6, 12, 24, 48];

/// The kinds of fleet that differ in where entries are kept and in how limits are counted.
const KINDS: [Shared; 4] = [Shared::Strict, Shared::Hybrid, Shared::Database, Shared::Nothing];

impl LiveFleet {
    /// Adds a block, an exemption and an override, each of a user whose name begins with `prefix`. Returns the path of the
    /// override.
    fn add_one_of_each(&self, prefix: &str, until: Option<&str>) -> String {
        let who = |kind: &str| json!({ "user": format!("{prefix}-{kind}") });
        for kind in ["block", "allow"] {
            let body = json!({ "who": who(kind), "until": until });
            self.api(0, "POST", &format!("/keys/{kind}"), &body).expect(201);
        }
        let numbers = json!({
            "who": who("override"), "limit": "per-user", "until": until,
            "sustained": { "rate": 60, "window": "hour" }, "burst": { "capacity": 30 },
        });
        self.add(0, &numbers)
    }

    /// Adds entries that end by themselves, and waits until every node was seen to follow them, and then not to any more.
    /// `add` is given a number for their names and their end; `followed` says of each whether a node follows it.
    fn sees_the_end<const N: usize>(
        &self,
        add: impl Fn(usize, &str),
        followed: impl Fn(usize, usize) -> [bool; N],
    ) {
        for (number, secs) in BRIEF.into_iter().enumerate() {
            let (life, nodes) = (Duration::from_secs(secs), 0..self.servers.len());
            let end = jiff::Timestamp::now() + life;
            let has_ended = || jiff::Timestamp::now() >= end;
            add(number, &end.to_string());
            let was_seen = nodes.clone().all(|node| {
                let mut seen = false;
                within(life + PATIENCE, "the end comes", || {
                    seen |= followed(node, number) == [true; N];
                    seen || has_ended()
                });
                seen
            });
            within(life + PATIENCE, "the end comes", has_ended);
            for node in nodes {
                let what = format!("{:?}: node {node} follows nothing that has ended", self.shared);
                within(PATIENCE, &what, || followed(node, number) == [false; N]);
            }
            if was_seen {
                return;
            }
        }
        panic!("{:?}: not every node followed what held for {BRIEF:?} seconds", self.shared);
    }

    /// Does a node follow the block, the exemption and the override?
    fn followed(&self, node: usize, prefix: &str) -> [bool; 3] {
        let look = |kind: &str| self.peek(node, &user(&format!("{prefix}-{kind}")));
        [
            look("block")["reason"] == "blocked",
            look("allow")["reason"] == "allowlisted",
            look("override")["limits"][0]["limit"] == 30,
        ]
    }

    /// What the first requests to a node get.
    fn first_answers(&self, node: usize, prefix: &str) -> (Value, Value, Value) {
        let ask = |kind: &str| self.check(node, &user(&format!("{prefix}-{kind}")));
        (ask("block")["reason"].clone(), ask("allow")["reason"].clone(), ask("override")["limit"].clone())
    }

    /// How many entries a list has.
    fn listed(&self, path: &str) -> Option<usize> {
        self.api(0, "GET", path, &Value::Null).expect(200).json()["items"].as_array().map(Vec::len)
    }
}

#[test]
fn entries_end_by_themselves_and_survive_restarts_until_then() {
    Shared::each_at_once(&KINDS, |shared| {
        let mut fleet = LiveFleet::start(shared);
        let kept = fleet.add_one_of_each("kept", None);
        for node in 0..fleet.servers.len() {
            within(PATIENCE, &format!("{shared:?}: node {node} follows"), || {
                fleet.followed(node, "kept") == [true; 3]
            });
        }
        let prefix = |number: usize| format!("brief-{number}");
        let add = |number: usize, end: &str| drop(fleet.add_one_of_each(&prefix(number), Some(end)));
        fleet.sees_the_end(add, |node, number| fleet.followed(node, &prefix(number)));
        let listed = (fleet.listed("/keys/live"), fleet.listed("/overrides"));
        assert_eq!(listed, (Some(2), Some(1)), "{shared:?}");
        restart_every_node(&mut fleet);
        let shown = fleet.api(0, "GET", &kept, &Value::Null);
        if shared == Shared::Nothing {
            shown.expect(404);
        } else {
            assert_eq!(shown.expect(200).json()["burst"], json!({ "capacity": 30 }), "{shared:?}");
        }
        goes_off_by_itself(&fleet);
    });
}

/// From its first request on, a new node follows what holds, and nothing that has ended.
fn restart_every_node(fleet: &mut LiveFleet) {
    let shared = fleet.shared;
    let none = (json!("ok"), json!("ok"), json!(5));
    let in_force = (json!("blocked"), json!("allowlisted"), json!(30));
    // One node alone keeps entries in its memory.
    let expected = if shared == Shared::Nothing { &none } else { &in_force };
    for node in 0..fleet.servers.len() {
        fleet.restart(node);
        assert_eq!(&fleet.first_answers(node, "kept"), expected, "{shared:?}: kept, node {node}");
        assert_eq!(fleet.first_answers(node, "brief-0"), none, "{shared:?}: ended, node {node}");
    }
}

/// In the same fleets, since the kill switch comes before everything else.
fn goes_off_by_itself(fleet: &LiveFleet) {
    let switch = |_: usize, end: &str| {
        let on = json!({ "state": "allow", "reason": "a moment", "until": end });
        drop(fleet.api(0, "PUT", "/kill-switch", &on).expect(200));
    };
    fleet.sees_the_end(switch, |node, _| [fleet.peek(node, &user("anybody"))["reason"] == "kill_switch"]);
}
