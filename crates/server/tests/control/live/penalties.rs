//! Penalties of burst detectors by the admin API.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared};
use crate::support::within;

#[test]
fn a_block_holds_on_every_node_and_over_a_restart_until_it_is_lifted() {
    Shared::each_at_once(&[Shared::Strict, Shared::Hybrid, Shared::Nothing], |shared| {
        let mut fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let request = json!({ "client": "robot" });
        let listed = || fleet.api(last, "GET", "/penalties", &Value::Null).expect(200).json();
        within(PATIENCE, "a burst in each of two windows leads to a block", || {
            (0..6).for_each(|_| drop(fleet.check(0, &request)));
            listed()["items"][0]["kind"] == "block"
        });
        let listed = listed();
        assert_eq!(
            (&listed["items"][0]["detector"], &listed["next"]),
            (&"quick".into(), &Value::Null),
            "{listed}"
        );
        if shared != Shared::Nothing {
            fleet.restart(last);
        }
        let is_blocked = |node: usize| fleet.check(node, &request)["burst"] == "already_blocked";
        let nodes = 0..fleet.servers.len();
        for node in nodes.clone() {
            within(PATIENCE, &format!("{shared:?}: node {node} refuses it"), || is_blocked(node));
        }
        let path = format!("/penalties/{}", listed["items"][0]["id"].as_str().expect("an id"));
        let lifted =
            fleet.api(last, "DELETE", &format!("{path}?reason=mistake"), &Value::Null).expect(200).json();
        assert_eq!(lifted["detector"], "quick");
        for node in nodes {
            // Peeks are not counted, so that waiting is no burst.
            within(PATIENCE, &format!("{shared:?}: node {node} admits it"), || {
                fleet.peek(node, &request)["allowed"] == true
            });
            assert_eq!(fleet.check(node, &request)["allowed"], true, "{shared:?}: node {node}");
            within(PATIENCE, "it is gone everywhere", || {
                fleet.api(node, "GET", "/penalties", &Value::Null).json()["items"] == json!([])
            });
        }
        fleet.api(last, "DELETE", &path, &Value::Null).expect(404);
        within(PATIENCE, "the events say who did it", || {
            fleet
                .events("penalty_lifted")
                .iter()
                .any(|event| event["reason"] == "mistake" && event["actor"].is_string())
        });
        if shared != Shared::Nothing {
            stays_lifted_over_a_restart(&mut fleet, &request);
        }
        a_block_ends_by_itself(&fleet);
    });
    let fleet = LiveFleet::start(Shared::Nothing);
    fleet.api(0, "DELETE", "/penalties/nope", &Value::Null).expect(404);
    fleet.api(0, "GET", "/penalties?cursor=nope", &Value::Null).expect(400);
}

/// Support asks a node that the client has not been to.
#[test]
fn every_node_explains_a_block_that_requests_to_another_have_led_to() {
    Shared::each_at_once(&[Shared::Strict, Shared::Hybrid], |shared| {
        let fleet = LiveFleet::start(shared);
        let request = json!({ "client": "robot" });
        within(PATIENCE, "a burst in each of two windows leads to a block", || {
            (0..6).for_each(|_| drop(fleet.check(0, &request)));
            fleet.api(1, "GET", "/penalties", &Value::Null).json()["items"][0]["kind"] == "block"
        });
        // The reason of the next decision, and how long the detector still blocks.
        let explained = |node: usize| {
            let found = fleet.api(node, "POST", "/keys/lookup", &json!({ "request": request })).json();
            let bursts = found["explanation"]["bursts"].as_array().cloned().unwrap_or_default();
            let quick = bursts.iter().find(|detector| detector["name"] == "quick");
            let blocked_for = quick.and_then(|detector| detector["blocked_for_ms"].as_u64());
            (found["decision"]["reason"].as_str().unwrap_or_default().to_owned(), blocked_for, found)
        };
        for node in [2, 0] {
            within(PATIENCE, &format!("{shared:?}: node {node} explains the block"), || {
                let (reason, blocked_for, found) = explained(node);
                let lasts = blocked_for.is_some_and(|left| (1..=1_200_000).contains(&left));
                reason == "burst_blocked" && lasts && found["penalties"][0]["kind"] == "block"
            });
        }
        let next = fleet.check(2, &request);
        assert_eq!(next["reason"], "burst_blocked", "{shared:?}: it is as explained: {next}");
        let listed = fleet.api(1, "GET", "/penalties", &Value::Null).expect(200).json();
        let path = format!("/penalties/{}", listed["items"][0]["id"].as_str().expect("an id"));
        fleet.api(1, "DELETE", &path, &Value::Null).expect(200);
        for node in [2, 0] {
            within(PATIENCE, &format!("{shared:?}: node {node} explains that it has ended"), || {
                let (reason, blocked_for, _) = explained(node);
                reason == "no_limit" && blocked_for.is_none()
            });
        }
    });
}

/// Neither a node that was there when the penalty was lifted nor a new one knows it any more.
fn stays_lifted_over_a_restart(fleet: &mut LiveFleet, request: &Value) {
    for node in 0..fleet.servers.len() {
        fleet.restart(node);
        assert_eq!(fleet.check(node, request)["allowed"], true, "{:?}: node {node}", fleet.shared);
        let listed = fleet.api(node, "GET", "/penalties", &Value::Null).expect(200).json();
        assert_eq!(listed["items"], json!([]), "{:?}: node {node}", fleet.shared);
    }
}

/// A penalty of some seconds: every node refuses the client, and admits it again when it is over.
fn a_block_ends_by_itself(fleet: &LiveFleet) {
    let request = json!({ "headers": { "x-brief": "robot" } });
    let shared = fleet.shared;
    for node in 0..fleet.servers.len() {
        // In hybrid mode, a request after the burst learns of it.
        within(PATIENCE, &format!("{shared:?}: node {node} refuses it"), || {
            (0..6).for_each(|_| drop(fleet.check(node, &request)));
            fleet.peek(node, &request)["reason"] == "burst_blocked"
        });
    }
    for node in 0..fleet.servers.len() {
        within(PATIENCE, &format!("{shared:?}: node {node} admits it again"), || {
            fleet.peek(node, &request)["allowed"] == true
        });
        assert_eq!(fleet.check(node, &request)["allowed"], true, "{shared:?}: node {node}");
        within(PATIENCE, "nobody lists it", || {
            fleet.api(node, "GET", "/penalties", &Value::Null).json()["items"] == json!([])
        });
    }
}
