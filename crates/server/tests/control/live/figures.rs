//! The figures of a fleet, whatever its nodes share.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared, user};
use crate::support::within;

#[test]
fn every_node_shows_the_figures_of_the_whole_fleet() {
    for shared in Shared::ALL {
        let fleet = LiveFleet::start(shared);
        let nodes = fleet.servers.len();
        let get = |node: usize, path: &str| fleet.api(node, "GET", path, &Value::Null).expect(200).json();
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        let mut most = vec![0.0; nodes];
        within(PATIENCE, &format!("{shared:?}: each node sees the decisions of all"), || {
            for node in 0..nodes {
                (0..3).for_each(|_| drop(fleet.check(node, &user("busy"))));
            }
            for (node, most) in most.iter_mut().enumerate() {
                let overview = get(node, "/overview");
                let rates = overview["nodes"].as_array().expect("it has nodes").iter();
                let rates: Vec<f64> =
                    rates.map(|one| one["decisions_per_second"].as_f64().unwrap_or(0.0)).collect();
                if count(&overview["nodes"]) == nodes && rates.iter().all(|rate| *rate > 0.0) {
                    *most = overview["decisions_per_second"].as_f64().unwrap_or(0.0);
                    assert!((rates.iter().sum::<f64>() - *most).abs() < 1e-6, "the sum: {overview}");
                }
            }
            most.iter().all(|most| *most > 0.0)
        });
        // A node that has not told of itself for some seconds, on a busy machine, is not listed until it does.
        within(PATIENCE, &format!("{shared:?}: all nodes are listed"), || {
            let listed = get(0, "/nodes");
            let items = listed["items"].as_array().expect("a list");
            assert!(items.iter().all(|node| node["version"] == json!(1)), "{listed}");
            items.len() == nodes
        });
        within(PATIENCE, &format!("{shared:?}: all nodes are listed in pages"), || {
            let page = get(0, "/nodes?limit=2");
            let Some(cursor) = page["next"].as_str() else { return nodes == 1 };
            let rest = get(0, &format!("/nodes?limit=2&cursor={}", cursor.replace(':', "%3A")));
            (count(&page["items"]), count(&rest["items"]), &rest["next"]) == (2, 1, &Value::Null)
        });
    }
}
