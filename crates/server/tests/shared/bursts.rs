//! Burst detectors of three servers on one Redis.

use serde_json::Value;

use super::asking::{admin, post, serve};
use crate::support::redis::Redis;

const POLICY: &str = "version: 1
limits: [{ name: all, key: [], sustained: { rate: 100000 } }]
bursts: [{ name: b, key: [user], window: 1s, threshold: 6, penalty: 60s }]
";

#[test]
fn a_block_that_three_servers_reach_together_holds_on_each() {
    let redis = Redis::start();
    let servers: Vec<_> = (0..3).map(|_| serve(&redis.settings("strict"), POLICY)).collect();
    let check = |nth: usize| post(&servers[nth % 3].0, "/v1/check", r#"{"user":"a"}"#).1;
    let mut told = Vec::new();
    // Windows follow the clock of Redis, so the number of requests until the block is not known.
    for nth in 0..100_000 {
        let state = check(nth)["burst"].clone();
        if !state.is_null() {
            told.push(state);
        }
        if told.last().is_some_and(|state| state == "blocked_temporarily") {
            break;
        }
    }
    assert_eq!(told, ["warning_issued", "blocked_temporarily"], "each is told once among all servers");
    for nth in 0..3 {
        let refused = check(nth);
        assert_eq!(
            (&refused["reason"], &refused["burst"]),
            (&"burst_blocked".into(), &"already_blocked".into())
        );
    }
    let lists = servers.iter().map(|(server, _home)| admin(server, "/debug/penalties").1);
    let lists: Vec<Value> = lists.map(|page| serde_json::from_str(&page).expect("JSON")).collect();
    let is_block = |list: &&Value| {
        list["items"].as_array().is_some_and(|items| items.iter().any(|one| one["kind"] == "block"))
    };
    assert_eq!(lists.iter().filter(is_block).count(), 1, "the server that blocked lists it: {lists:?}");
}
