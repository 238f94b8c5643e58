//! Candidates on several nodes with a real Redis and one database.

use serde_json::{Value, json};

use super::{new_user, stricter};
use crate::control::access::client::ask;
use crate::control::fleet_node::{FleetNode, data_folder};
use crate::control::live::fleet::PATIENCE;
use crate::support::home::Home;
use crate::support::redis::Redis;
use crate::support::within;

struct Nodes {
    nodes: Vec<FleetNode>,
    /// Kept for as long as the nodes use them.
    _kept: (Home, Redis),
}

impl Nodes {
    fn start(mode: &str) -> Nodes {
        let (home, redis) = (Home::new(), Redis::start());
        let config = home.write("settings.yaml", &redis.settings(mode));
        let data = data_folder(&home);
        let start = |_| FleetNode::start(&["--config", &config, "--data", &data]);
        let nodes: Vec<FleetNode> = (0..3).map(start).collect();
        let version = nodes[0].put_policy(super::LIVE);
        for node in &nodes {
            within(PATIENCE, "every node runs the policy", || node.runs() == version);
        }
        Nodes { nodes, _kept: (home, redis) }
    }

    fn check(&self, node: usize, user: &str) -> Value {
        let (headers, body) = ([("Content-Type", "application/json")], json!({ "user": user }).to_string());
        ask(self.nodes[node].server.socket("http"), "POST", "/v1/check", &headers, &body).json()
    }

    /// Waits until every node compares decisions with a candidate.
    fn all_compare(&self, id: &str) {
        for (number, node) in self.nodes.iter().enumerate() {
            within(PATIENCE, "every node runs the candidate", || {
                self.check(number, &new_user());
                let report = node.read(&format!("/candidates/{id}/report")).json();
                report["nodes"].as_array().is_some_and(|nodes| {
                    nodes.iter().filter(|node| node["decisions"].as_u64() > Some(0)).count() > number
                })
            });
        }
    }
}

fn newly_denied(report: &Value) -> u64 {
    report["newly_denied"]["by_limit"]["tried"].as_u64().unwrap_or_default()
}

#[test]
fn nodes_share_the_counts_of_a_candidate_and_report_together() {
    let fleet = Nodes::start("strict");
    let added = fleet.nodes[0].send("POST /candidates", "application/yaml", &[], &stricter(3)).expect(201);
    let id = added.json()["id"].as_str().expect("it has an id").to_owned();
    fleet.all_compare(&id);
    // Five tokens by the policy and three by the candidate, on all nodes together.
    let admitted = (0..6).filter(|n| fleet.check(n % 3, "42")["allowed"] == true).count();
    assert_eq!(admitted, 5);
    let path = format!("/candidates/{id}/report");
    within(PATIENCE, "all nodes have written what they found", || {
        newly_denied(&fleet.nodes[1].read(&path).json()) == 2
    });
    let report = fleet.nodes[2].read(&path).json();
    let key = report["newly_denied"]["keys"].as_array().expect("keys").iter().find(|key| key["key"] == "42");
    assert_eq!(key.map(|key| &key["count"]), Some(&json!(2)), "{report}");
    assert_eq!(
        (&report["totals"]["newly_admitted"], &report["totals"]["not_compared"]),
        (&json!(0), &json!(0))
    );
    let bounds = ask(fleet.nodes[0].server.socket("admin"), "GET", "/metrics", &[], "").body;
    assert!(!bounds.contains("candidate"), "its limits are nobody's metrics");

    fleet.nodes[1].send(&format!("DELETE /candidates/{id}"), "", &[], "").expect(200);
    assert_eq!(fleet.nodes[2].send(&format!("GET {path}"), "", &[], "").status, 404);
}

#[test]
fn a_candidate_with_leases_is_compared_too() {
    let fleet = Nodes::start("hybrid");
    let added = fleet.nodes[0].send("POST /candidates", "application/yaml", &[], &stricter(1)).expect(201);
    let id = added.json()["id"].as_str().expect("it has an id").to_owned();
    fleet.all_compare(&id);
    for n in 0..6 {
        fleet.check(n % 3, "42");
    }
    let path = format!("/candidates/{id}/report");
    within(PATIENCE, "the denials are reported", || newly_denied(&fleet.nodes[0].read(&path).json()) > 0);
    let promoted = fleet.nodes[1].send(&format!("POST /candidates/{id}/promote"), "", &[], "").expect(200);
    for node in &fleet.nodes {
        within(PATIENCE, "every node runs the version", || node.runs() == promoted.version());
    }
}
