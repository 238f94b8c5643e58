//! How long what is done by the API holds: to its end, over restarts, and no longer.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, Shared, in_seconds, user};

/// How many seconds brief entries hold: long enough that all nodes are seen to follow them.
const BRIEF: i64 = 6;

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

    /// Waits until every node follows the three, or none does.
    #[track_caller]
    fn all_follow(&self, prefix: &str, follow: bool) {
        let name = |kind: &str| user(&format!("{prefix}-{kind}"));
        self.all_say(if follow { "blocked" } else { "ok" }, &name("block"));
        self.all_say(if follow { "allowlisted" } else { "ok" }, &name("allow"));
        self.all_show(if follow { 30 } else { 5 }, &name("override"));
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
        fleet.all_follow("kept", true);
        fleet.add_one_of_each("brief", Some(&in_seconds(BRIEF)));
        fleet.all_follow("brief", true);
        fleet.all_follow("brief", false);
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
        assert_eq!(fleet.first_answers(node, "brief"), none, "{shared:?}: ended, node {node}");
    }
}

/// In the same fleets, since the kill switch comes before everything else.
fn goes_off_by_itself(fleet: &LiveFleet) {
    let on = json!({ "state": "allow", "reason": "a moment", "until": in_seconds(BRIEF) });
    fleet.api(0, "PUT", "/kill-switch", &on).expect(200);
    fleet.all_say("kill_switch", &user("anybody"));
    fleet.all_say("ok", &user("anybody"));
}
