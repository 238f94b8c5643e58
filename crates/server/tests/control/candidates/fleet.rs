//! Candidates on several nodes with a real Redis and one database.

use std::time::Duration;

use serde_json::{Value, json};

use super::{new_user, stricter};
use crate::control::access::client::ask;
use crate::control::fleet_node::{FleetNode, data_folder};
use crate::control::live::fleet::{PATIENCE, in_seconds};
use crate::support::home::Home;
use crate::support::redis::Redis;
use crate::support::within;

/// How long a candidate runs that ends by itself: three busy nodes must have compared by it before.
const BRIEF: Duration = Duration::from_secs(20);

struct Nodes {
    nodes: Vec<FleetNode>,
    redis: Redis,
    home: Home,
}

/// A node on the settings and the data in a folder.
fn node_in(home: &Home) -> FleetNode {
    FleetNode::start(&["--config", &home.arg("settings.yaml"), "--data", &data_folder(home)])
}

impl Nodes {
    fn start(mode: &str) -> Nodes {
        let (home, redis) = (Home::new(), Redis::start());
        home.write("settings.yaml", &redis.settings(mode));
        let nodes: Vec<FleetNode> = (0..3).map(|_| node_in(&home)).collect();
        let version = nodes[0].put_policy(super::LIVE);
        for node in &nodes {
            within(PATIENCE, "every node runs the policy", || node.runs() == version);
        }
        Nodes { nodes, redis, home }
    }

    fn check(&self, node: usize, user: &str) -> Value {
        let (headers, body) = ([("Content-Type", "application/json")], json!({ "user": user }).to_string());
        ask(self.nodes[node].server.socket("http"), "POST", "/v1/check", &headers, &body).json()
    }

    /// Adds a candidate, and returns its id.
    fn add(&self, query: &str, text: &str) -> String {
        let added = self.nodes[0].send(&format!("POST /candidates{query}"), "application/yaml", &[], text);
        added.expect(201).json()["id"].as_str().expect("it has an id").to_owned()
    }

    /// Waits until every node compares decisions with a candidate.
    fn all_compare(&self, id: &str) {
        self.more_compare(id, 0);
    }

    /// The same beside so many nodes that were replaced: the report has what those have found, too.
    fn more_compare(&self, id: &str, before: usize) {
        for (number, node) in self.nodes.iter().enumerate() {
            within(PATIENCE, "every node runs the candidate", || {
                self.check(number, &new_user());
                let report = node.read(&format!("/candidates/{id}/report")).json();
                report["nodes"].as_array().is_some_and(|nodes| {
                    let found = nodes.iter().filter(|node| node["decisions"].as_u64() > Some(0));
                    found.count() > before + number
                })
            });
        }
    }

    /// Does a candidate deny a user by what it has counted? One that does not run on a node has counted nothing.
    fn has_spent(&self, node: usize, id: &str, user: &str) -> bool {
        let asked = json!({ "request": { "user": user }, "candidate": id });
        let explained = self.nodes[node].post("/explain", &asked).expect(200).json();
        explained["decision"]["allowed"] == false
    }

    /// Waits until each node has, or no node has, a candidate by which a user has spent everything.
    fn all_have_spent(&self, id: &str, user: &str, expected: bool) {
        for node in 0..self.nodes.len() {
            let what = format!("node {node}: {user} has spent everything: {expected}");
            within(PATIENCE + BRIEF, &what, || self.has_spent(node, id, user) == expected);
        }
    }

    /// Replaces all nodes by new ones, one after the other.
    fn restart(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node] = node_in(&self.home);
        }
    }
}

/// In strict mode and with leases: a candidate goes on after a restart, with what it has counted, and ends on each node.
fn goes_on_after_a_restart_and_another_ends_by_itself(fleet: &mut Nodes, id: &str) {
    let brief = fleet.add(&format!("?until={}", in_seconds(BRIEF.as_secs() as i64)), &stricter(1));
    fleet.all_compare(&brief);
    (0..6).for_each(|number| drop(fleet.check(number % 3, "44")));
    fleet.all_have_spent(&brief, "44", true);
    fleet.all_have_spent(&brief, "44", false);
    let shown = fleet.nodes[1].read(&format!("/candidates/{brief}")).json();
    assert_eq!((&shown["running"], shown.get("promoted")), (&json!(false), None), "{shown}");
    let found = fleet.nodes[1].read(&format!("/candidates/{brief}/report")).json();
    assert!(newly_denied(&found) > 0, "what it has found is kept: {found}");
    assert!(fleet.has_spent(0, id, "42"), "the other one goes on");
    fleet.restart();
    fleet.more_compare(id, 3);
    fleet.all_have_spent(id, "42", true);
    let listed = fleet.nodes[2].read("/candidates").json();
    let running = listed["items"].as_array().expect("a list").iter().filter(|one| one["running"] == true);
    assert_eq!(running.map(|one| &one["id"]).collect::<Vec<_>>(), [id], "{listed}");
}

fn newly_denied(report: &Value) -> u64 {
    report["newly_denied"]["by_limit"]["tried"].as_u64().unwrap_or_default()
}

#[test]
fn nodes_share_the_counts_of_a_candidate_and_report_together() {
    let mut fleet = Nodes::start("strict");
    let id = fleet.add("", &stricter(3));
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
    let metrics = ask(fleet.nodes[0].server.socket("admin"), "GET", "/metrics", &[], "").body;
    let has = |words: &str| metrics.lines().any(|line| !line.starts_with('#') && line.contains(words));
    assert!(has("limit=\"per-user\""), "{metrics}");
    assert!(!has("tried") && !has("candidate") && !has(&id), "its limits are nobody's metrics: {metrics}");

    goes_on_after_a_restart_and_another_ends_by_itself(&mut fleet, &id);
    fleet.nodes[1].send(&format!("DELETE /candidates/{id}"), "", &[], "").expect(200);
    assert_eq!(fleet.nodes[2].send(&format!("GET {path}"), "", &[], "").status, 404);
}

#[test]
fn the_policy_in_force_and_a_candidate_are_one_call_to_redis() {
    let fleet = Nodes::start("strict");
    let id = fleet.add("", &stricter(3));
    fleet.all_compare(&id);
    let before = fleet.redis.scripts_run();
    for _ in 0..600 {
        fleet.check(0, &new_user());
    }
    // The nodes also tell Redis that they are alive, a few times a second.
    let run = fleet.redis.scripts_run() - before;
    assert!((600..900).contains(&run), "{run} scripts for 600 decisions of two policies");
}

#[test]
fn a_candidate_with_leases_is_compared_too() {
    let mut fleet = Nodes::start("hybrid");
    let id = fleet.add("", &stricter(1));
    fleet.all_compare(&id);
    for n in 0..6 {
        fleet.check(n % 3, "42");
    }
    let path = format!("/candidates/{id}/report");
    within(PATIENCE, "the denials are reported", || newly_denied(&fleet.nodes[0].read(&path).json()) > 0);
    goes_on_after_a_restart_and_another_ends_by_itself(&mut fleet, &id);
    let promoted = fleet.nodes[1].send(&format!("POST /candidates/{id}/promote"), "", &[], "").expect(200);
    for node in &fleet.nodes {
        within(PATIENCE, "every node runs the version", || node.runs() == promoted.version());
    }
}
