//! Candidates on three nodes with a real Redis and one database: reports that equal a replay, and nodes that stop comparing.

use serde_json::{Value, json};

use super::{new_user, stricter};
use crate::control::access::client::ask;
use crate::control::fleet_node::{FleetNode, data_folder};
use crate::control::live::fleet::PATIENCE;
use crate::support::home::Home;
use crate::support::redis::Redis;
use crate::support::within;

/// Requests after which it is looked how many calls to Redis they took.
const REQUESTS: u64 = 40;

struct Trio {
    nodes: Vec<FleetNode>,
    _redis: Redis,
    _home: Home,
}

impl Trio {
    fn start(mode: &str, policy: &str) -> Trio {
        let (home, redis) = (Home::new(), Redis::start());
        let (config, data) = (home.write("settings.yaml", &redis.settings(mode)), data_folder(&home));
        let start = |_| FleetNode::start(&["--config", &config, "--data", &data]);
        let trio = Trio { nodes: (0..3).map(start).collect(), _redis: redis, _home: home };
        let version = trio.nodes[0].put_policy(policy);
        trio.all_run(version);
        trio
    }

    fn all_run(&self, version: u64) {
        for node in &self.nodes {
            within(PATIENCE, "every node runs the version", || node.runs() == version);
        }
    }

    fn check(&self, node: usize, request: &Value) -> bool {
        let (headers, body) = ([("Content-Type", "application/json")], request.to_string());
        let address = self.nodes[node].server.socket("http");
        ask(address, "POST", "/v1/check", &headers, &body).json()["allowed"] == true
    }

    /// Adds a candidate on one node, and returns its id.
    fn add(&self, text: &str) -> String {
        let added = self.nodes[0].send("POST /candidates", "application/yaml", &[], text).expect(201);
        added.json()["id"].as_str().expect("it has an id").to_owned()
    }

    /// How many calls to Redis a node needs for a number of new users: twice as many while it compares.
    fn calls(&self, node: usize) -> u64 {
        let calls = || self.nodes[node].metric("tidegate_store_calls_total");
        let before = calls();
        (0..REQUESTS).for_each(|_| assert!(self.check(node, &json!({ "user": new_user() }))));
        calls() - before
    }

    /// Waits until each node compares decisions with a candidate, or none does.
    fn all_compare(&self, expected: bool) {
        for node in 0..self.nodes.len() {
            within(PATIENCE, &format!("node {node} compares: {expected}"), || {
                // In hybrid mode a call more or less is of leases.
                (self.calls(node) * 2 > 3 * REQUESTS) == expected
            });
        }
    }

    /// What a candidate has found on all nodes.
    fn report(&self, id: &str) -> Value {
        self.nodes[1].read(&format!("/candidates/{id}/report")).json()
    }
}

#[test]
fn no_node_compares_with_a_candidate_that_was_removed_or_promoted() {
    std::thread::scope(|scope| {
        for mode in ["strict", "hybrid"] {
            scope.spawn(move || {
                let trio = Trio::start(mode, super::LIVE);
                trio.all_compare(false);
                let removed = trio.add(&stricter(1));
                trio.all_compare(true);
                trio.nodes[1].send(&format!("DELETE /candidates/{removed}"), "", &[], "").expect(200);
                trio.all_compare(false);

                let id = trio.add(&stricter(1));
                trio.all_compare(true);
                let promote = format!("POST /candidates/{id}/promote");
                let version = trio.nodes[2].send(&promote, "", &[], "").expect(200).version();
                trio.all_run(version);
                trio.all_compare(false);
                for node in &trio.nodes {
                    let listed = node.read("/candidates").json();
                    let running: Vec<&Value> = listed["items"]
                        .as_array()
                        .expect("a list")
                        .iter()
                        .map(|one| &one["running"])
                        .collect();
                    assert_eq!(running, [false], "{mode}: {listed}");
                }
                let user = json!({ "user": new_user() });
                let admitted = (0..6).filter(|number| trio.check(number % 3, &user)).count();
                assert_eq!(admitted, 1, "{mode}: by the policy that was tried out");
            });
        }
    });
}

/// Requests come one after the other, to each node in turn, and nothing refills meanwhile.
#[test]
fn the_report_of_three_nodes_equals_a_replay_of_what_they_were_asked() {
    let live = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 3 } }\n";
    let tried = "version: 1\nlimits:\n- { name: b, key: [tenant], sustained: { rate: 1, window: day }, burst: { capacity: 16 } }\nblock: [{ user: \"2\" }]\n";
    let trio = Trio::start("strict", live);
    let id = trio.add(tried);
    // These have no tenant: both admit them, and nothing that follows is decided otherwise.
    let compared = |totals: &Value| totals["both_admit"].as_u64().expect("a number");
    for (number, _) in trio.nodes.iter().enumerate() {
        within(PATIENCE, "every node compares", || {
            trio.check(number, &json!({ "user": new_user() }));
            trio.report(&id)["nodes"].as_array().is_some_and(|nodes| {
                nodes.iter().filter(|node| node["decisions"].as_u64() > Some(0)).count() > number
            })
        });
    }
    let requests: Vec<Value> =
        (0..48).map(|n| json!({ "user": format!("{}", n % 7), "tenant": format!("t{}", n % 2) })).collect();
    let decided: Vec<bool> =
        requests.iter().enumerate().map(|(number, request)| trio.check(number % 3, request)).collect();
    let line = |request: &Value| {
        let mut line = request.clone();
        line["at_ms"] = json!(0);
        line.to_string() + "\n"
    };
    let trace: String = requests.iter().map(line).collect();
    let simulated = |mut body: Value| -> Vec<bool> {
        body["trace"] = trace.as_str().into();
        let answer = trio.nodes[2].post("/simulate", &body).expect(200).json();
        let decisions = answer["decisions"].as_array().expect("decisions").clone();
        decisions.iter().map(|decision| decision["allowed"] == true).collect()
    };
    assert_eq!(simulated(json!({ "policy": live })), decided, "by the policy in force");
    let by_candidate = simulated(json!({ "candidate": id }));
    let count = |live: bool, tried: bool| {
        decided.iter().zip(&by_candidate).filter(|pair| *pair == (&live, &tried)).count()
    };
    let differing = ["both_deny", "newly_denied", "newly_admitted", "not_compared"];
    let expected = [count(false, false), count(true, false), count(false, true), 0].map(|count| json!(count));
    assert!(expected[..3].iter().all(|count| *count != 0), "{expected:?}");
    let found = || {
        let totals = trio.report(&id)["totals"].clone();
        (differing.map(|name| totals[name].clone()), compared(&totals))
    };
    within(PATIENCE, "all nodes have written what they found", || {
        let (found, both) = found();
        found == expected && both >= count(true, true) as u64
    });
    // What is not there yet is written within seconds; more would be a mistake.
    let (newly_denied, report) = (count(true, false), trio.report(&id));
    let by_limit = report["newly_denied"]["by_limit"].as_object().expect("names");
    let sum: u64 = by_limit.values().filter_map(Value::as_u64).sum();
    assert_eq!(sum, newly_denied as u64, "{report}");
    assert_eq!(found().0, expected);
}
