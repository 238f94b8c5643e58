//! The figures of a fleet, whatever its nodes share.

use std::cell::Cell;
use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, user};
use crate::support::within;

/// A node writes a step of half a minute when it has ended.
const STEP_PATIENCE: Duration = Duration::from_secs(75);

/// A credential that no node may tell the others.
const SECRET: &str = "zqsecret-of-a-client-0123456789";

/// A fleet, and how many decisions it has made.
struct WatchedFleet {
    fleet: LiveFleet,
    decisions: Cell<u64>,
}

impl WatchedFleet {
    /// Starts a fleet, and waits until each node has read its counters for the first time: later decisions are in its
    /// figures.
    fn start(shared: Shared) -> WatchedFleet {
        let watched = WatchedFleet { fleet: LiveFleet::start(shared), decisions: Cell::new(0) };
        for node in 0..watched.nodes() {
            within(PATIENCE, &format!("{shared:?}: node {node} sees the figures of all"), || {
                let overview = watched.get(node, "/overview");
                let nodes = overview["nodes"].as_array().expect("it has nodes");
                nodes.iter().filter(|one| one["status"] == "ready").count() == watched.nodes()
            });
        }
        watched
    }

    fn nodes(&self) -> usize {
        self.fleet.servers.len()
    }

    #[track_caller]
    fn get(&self, node: usize, path: &str) -> Value {
        self.fleet.api(node, "GET", path, &Value::Null).expect(200).json()
    }

    /// Was a request refused?
    fn denies(&self, node: usize, request: &Value) -> bool {
        self.decisions.set(self.decisions.get() + 1);
        self.fleet.check(node, request)["allowed"] == false
    }

    /// Sends this many requests to each node, and returns how many were refused.
    fn send_everywhere(&self, request: &Value, times: usize) -> usize {
        let denied = |node: usize| (0..times).filter(|_| self.denies(node, request)).count();
        (0..self.nodes()).map(denied).sum()
    }
}

#[test]
fn every_node_shows_the_figures_of_the_whole_fleet() {
    Shared::each_at_once(&Shared::ALL, |shared| {
        let watched = WatchedFleet::start(shared);
        the_last_second_is_summed(&watched);
        nodes_are_listed(&watched);
        busy_keys_are_summed(&watched);
        credentials_stay_on_their_node(&watched);
        the_last_hour_is_summed(&watched);
    });
}

fn the_last_second_is_summed(watched: &WatchedFleet) {
    let (shared, nodes) = (watched.fleet.shared, watched.nodes());
    let mut most = vec![0.0; nodes];
    within(PATIENCE, &format!("{shared:?}: each node sees the decisions of all"), || {
        watched.send_everywhere(&user("busy"), 3);
        for (node, most) in most.iter_mut().enumerate() {
            let overview = watched.get(node, "/overview");
            let rates = overview["nodes"].as_array().expect("it has nodes").iter();
            let rates: Vec<f64> =
                rates.map(|one| one["decisions_per_second"].as_f64().unwrap_or(0.0)).collect();
            if rates.len() == nodes && rates.iter().all(|rate| *rate > 0.0) {
                *most = overview["decisions_per_second"].as_f64().unwrap_or(0.0);
                assert!((rates.iter().sum::<f64>() - *most).abs() < 1e-6, "the sum: {overview}");
            }
        }
        most.iter().all(|most| *most > 0.0)
    });
}

fn nodes_are_listed(watched: &WatchedFleet) {
    let (shared, nodes) = (watched.fleet.shared, watched.nodes());
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    // A node that has not told of itself for some seconds, on a busy machine, is not listed until it does.
    within(PATIENCE, &format!("{shared:?}: all nodes are listed"), || {
        let listed = watched.get(0, "/nodes");
        let items = listed["items"].as_array().expect("a list");
        assert!(items.iter().all(|node| node["version"] == json!(1)), "{listed}");
        items.len() == nodes
    });
    within(PATIENCE, &format!("{shared:?}: all nodes are listed in pages"), || {
        let page = watched.get(0, "/nodes?limit=2");
        let Some(cursor) = page["next"].as_str() else { return nodes == 1 };
        let rest = watched.get(0, &format!("/nodes?limit=2&cursor={}", cursor.replace(':', "%3A")));
        (count(&page["items"]), count(&rest["items"]), &rest["next"]) == (2, 1, &Value::Null)
    });
}

/// How often the keys of a limit were denied, as a node shows it, if there is one such key.
fn denials(keys: &Value, limit: &str, is_key: impl Fn(&str) -> bool) -> Option<(String, u64)> {
    let denied = keys["denied"].as_array().expect("a list").iter();
    let mut found = denied.filter(|one| one["limit"] == limit && one["key"].as_str().is_some_and(&is_key));
    let (first, second) = (found.next()?, found.next());
    assert_eq!(second, None, "one key is one entry: {keys}");
    assert_eq!(first["error"], 0, "few keys are counted exactly: {keys}");
    Some((first["key"].as_str().expect("it has a key").to_owned(), first["count"].as_u64()?))
}

fn busy_keys_are_summed(watched: &WatchedFleet) {
    let denied = watched.send_everywhere(&user("hot"), 12);
    assert!(denied >= 5 * watched.nodes(), "it is denied on each node: {denied}");
    for node in 0..watched.nodes() {
        let what = format!("{:?}: node {node} has the {denied} denials of all", watched.fleet.shared);
        within(PATIENCE, &what, || {
            let keys = watched.get(node, "/hot-keys");
            denials(&keys, "per-user", |key| key == "hot") == Some(("hot".to_owned(), denied as u64))
        });
        let keys = watched.get(node, "/hot-keys");
        assert!(keys["since"].is_string(), "{keys}");
    }
}

fn credentials_stay_on_their_node(watched: &WatchedFleet) {
    let shared = watched.fleet.shared;
    let request = json!({ "path": "/keyed", "headers": { "x-api-key": SECRET } });
    let denied = (0..12).filter(|_| watched.denies(0, &request)).count();
    // In hybrid mode, what a node leases and does not use in time is lost.
    let is_right = if shared == Shared::Hybrid { (7..12).contains(&denied) } else { denied == 7 };
    assert!(is_right, "{shared:?}: {denied}");
    let last = watched.nodes() - 1;
    within(PATIENCE, &format!("{shared:?}: node {last} knows of it by a part and a hash"), || {
        let keys = watched.get(last, "/hot-keys");
        assert!(!keys.to_string().contains(SECRET), "{keys}");
        let masked = |key: &str| key.starts_with("zqse\u{2026}#");
        denials(&keys, "per-key", masked).is_some_and(|(_, count)| count == denied as u64)
    });
    let kept = watched.fleet.kept_bytes();
    let has = |text: &str| kept.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!has(SECRET), "{shared:?}: it was written where the nodes share it");
    assert_eq!(has("zqse\u{2026}#"), shared != Shared::Nothing, "{shared:?}: what was told is there");
}

fn the_last_hour_is_summed(watched: &WatchedFleet) {
    let made = watched.decisions.get();
    for node in 0..watched.nodes() {
        let what = format!("{:?}: node {node} has the {made} decisions of all", watched.fleet.shared);
        within(STEP_PATIENCE, &what, || {
            let history = watched.get(node, "/history");
            let steps = history["steps"].as_array().expect("it has steps").iter();
            let decided = |step: &Value| step["allowed"].as_u64().zip(step["denied"].as_u64());
            let sum: u64 = steps.filter_map(decided).map(|(allowed, denied)| allowed + denied).sum();
            assert!(sum <= made, "no decision is counted twice: {history}");
            sum == made
        });
    }
}

#[test]
fn what_a_node_decided_last_is_told_through_redis_when_it_ends() {
    let mut watched = WatchedFleet::start(Shared::Strict);
    watched.send_everywhere(&user("last"), 3);
    let made = watched.decisions.get();
    for ended in watched.fleet.servers.drain(1..) {
        ended.signal(rustix::process::Signal::TERM);
        assert_eq!(ended.ended().code(), Some(0));
    }
    within(PATIENCE, "the decisions of those that have ended are there", || {
        let history = watched.get(0, "/history");
        let steps = history["steps"].as_array().expect("it has steps").iter();
        let decided = |step: &Value| step["allowed"].as_u64().zip(step["denied"].as_u64());
        let sum: u64 = steps.filter_map(decided).map(|(allowed, denied)| allowed + denied).sum();
        assert!(sum <= made, "no decision is counted twice: {history}");
        sum == made
    });
}
