//! The kill switch by the admin API.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, in_seconds, user};
use crate::control::fleet_node::send_to;
use crate::support::within;

#[test]
fn the_kill_switch_is_on_everywhere_until_it_is_switched_off() {
    for shared in Shared::ALL {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let state =
            |fleet: &LiveFleet| fleet.api(last, "GET", "/kill-switch", &Value::Null).expect(200).json();
        assert_eq!(state(&fleet), json!({ "state": "off" }));
        let on = json!({ "state": "allow", "reason": "incident 7" });
        let answer = fleet.api(0, "PUT", "/kill-switch", &on).expect(200).json();
        assert_eq!((&answer["state"], &answer["source"]), (&"allow".into(), &"api".into()));
        assert!(answer["until"].is_string(), "an end of its own: {answer}");
        fleet.all_say("kill_switch", &user("1"));
        assert_eq!(state(&fleet)["reason"], "incident 7");
        let explained =
            fleet.api(last, "POST", "/explain", &json!({ "request": user("1") })).expect(200).json();
        let gate = &explained["gate"];
        assert_eq!(
            (&gate["list"], &gate["reason"]),
            (&"kill_switch".into(), &"incident 7".into()),
            "{explained}"
        );
        let ready = fleet.admin(last, "/readyz");
        assert!(ready.contains("the kill switch is on until 2"), "{ready}");
        assert!(fleet.admin(last, "/metrics").contains("tidegate_kill_switch 1"));
        if shared != Shared::Nothing {
            fleet.restart(last);
            assert_eq!(fleet.check(last, &user("1"))["reason"], "kill_switch", "{shared:?}");
        }
        // Switched on again, with another end, and then off: nothing of either is left.
        let on = json!({ "state": "allow", "reason": "longer", "until": in_seconds(7_200) });
        fleet.api(last, "PUT", "/kill-switch", &on).expect(200);
        assert_eq!(state(&fleet)["reason"], "longer");
        fleet.api(last, "PUT", "/kill-switch?reason=over", &json!({ "state": "off" })).expect(200);
        fleet.all_say("ok", &user("1"));
        assert_eq!(state(&fleet), json!({ "state": "off" }));
        within(PATIENCE, "it is told of", || !fleet.events("kill_switch_changed").is_empty());
        if matches!(shared, Shared::Database | Shared::Both) {
            // Of each change one entry, and not one of each node.
            fleet.servers.drain(..).for_each(|server| drop(server.stopped()));
            fleet.servers.push(fleet.node(0));
            let audit =
                fleet.api(0, "GET", "/audit?kind=kill_switch_changed&limit=1000", &Value::Null).json();
            let entries = audit["items"].as_array().expect("a list");
            let reasons: Vec<&str> = entries.iter().filter_map(|item| item["reason"].as_str()).collect();
            assert_eq!(reasons, ["over", "longer", "incident 7"]);
            assert!(entries.iter().all(|item| item["actor"].is_string()) && entries.len() == 3, "{audit}");
            assert!(entries[2]["detail"]["until"].is_string(), "{audit}");
        }
    }
}

/// Whichever nodes are asked, one right after the other: the last call counts.
#[test]
fn the_last_call_counts_on_every_node() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Database, Shared::Both] {
        let fleet = LiveFleet::start(shared);
        let put = |node: usize, body: &Value| fleet.api(node, "PUT", "/kill-switch", body).expect(200).json();
        let on = |reason: &str, seconds| json!({ "state": "allow", "reason": reason, "until": in_seconds(seconds) });
        for round in 0..10 {
            put(round % 3, &on("long", 7_200));
            let shorter = put((round + 1) % 3, &on("short", 600));
            assert_eq!(shorter["reason"], "short", "{shared:?}");
            assert_eq!(put((round + 2) % 3, &json!({ "state": "off" })), json!({ "state": "off" }));
            let seen = fleet.api(round % 3, "PUT", "/kill-switch", &json!({ "state": "off" })).expect(200);
            assert_eq!(seen.json(), json!({ "state": "off" }), "{shared:?}: nothing is left");
        }
        // At the same time.
        std::thread::scope(|scope| {
            for node in 0..3 {
                let (address, body) = (fleet.servers[node].socket("admin"), on("many", 600).to_string());
                scope.spawn(move || {
                    for _ in 0..5 {
                        send_to(address, "PUT /kill-switch", "application/json", &[], &body).expect(200);
                    }
                });
            }
        });
        put(0, &json!({ "state": "off" }));
        fleet.all_say("ok", &user("1"));
    }
}

#[test]
fn nobody_is_told_off_while_that_is_not_known() {
    let mut fleet = LiveFleet::start(Shared::Strict);
    fleet.api(0, "PUT", "/kill-switch", &json!({ "state": "off" })).expect(200);
    fleet.lose_redis();
    fleet.api(0, "PUT", "/kill-switch", &json!({ "state": "off" })).expect(503);
}

#[test]
fn wrong_states_are_refused() {
    let fleet = LiveFleet::start(Shared::Nothing);
    for body in [
        json!({ "state": "deny", "reason": "x" }),
        json!({ "state": "allow" }),
        json!({ "state": "allow", "reason": "" }),
        json!({ "state": "allow", "reason": " \t " }),
        json!({ "state": "allow", "reason": "x", "until": in_seconds(8 * 24 * 3_600) }),
        json!({ "state": "allow", "reason": "x", "until": "2001-01-01T00:00:00Z" }),
        json!({ "state": "off", "until": in_seconds(60) }),
    ] {
        let refused = fleet.api(0, "PUT", "/kill-switch", &body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.body);
    }
    fleet.api(0, "PUT", "/kill-switch", &json!({ "state": "off" })).expect(200);
    // A blank is no reason, and hides none.
    let on = json!({ "state": "allow", "reason": "  " });
    let switched = fleet.api(0, "PUT", "/kill-switch?reason=%20incident%20", &on).expect(200).json();
    assert_eq!(switched["reason"], "incident");
}
