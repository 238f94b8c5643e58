//! Penalties of burst detectors by the admin API.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared};
use crate::support::within;

#[test]
fn a_penalty_is_listed_and_lifted() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        let request = json!({ "ip": "203.0.113.7" });
        for _ in 0..6 {
            fleet.check(0, &request);
        }
        let listed = || fleet.api(last, "GET", "/penalties", &Value::Null).expect(200).json();
        within(PATIENCE, "the penalty is listed", || {
            // In hybrid mode, a request after the burst learns of it.
            fleet.check(0, &request);
            listed()["items"][0]["kind"].is_string()
        });
        let listed = listed();
        assert_eq!(
            (&listed["items"][0]["detector"], &listed["next"]),
            (&"burst".into(), &Value::Null),
            "{listed}"
        );
        let path = format!("/penalties/{}", listed["items"][0]["id"].as_str().expect("an id"));
        let lifted =
            fleet.api(last, "DELETE", &format!("{path}?reason=mistake"), &Value::Null).expect(200).json();
        assert_eq!(lifted["detector"], "burst");
        for node in 0..fleet.servers.len() {
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
    }
    let fleet = LiveFleet::start(Shared::Nothing);
    fleet.api(0, "DELETE", "/penalties/nope", &Value::Null).expect(404);
    fleet.api(0, "GET", "/penalties?cursor=nope", &Value::Null).expect(400);
}
