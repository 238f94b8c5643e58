//! Starting with and without a Redis.

use std::time::Duration;

use super::asking::{admin, admits, metric, serve};
use crate::support::home::{Home, policy};
use crate::support::redis::Redis;
use crate::support::server::{run, tidegate};
use crate::support::within;

#[test]
fn a_server_without_its_redis_serves_and_heals_by_itself() {
    let mut redis = Redis::absent();
    let (server, _home) = serve(&redis.settings("strict"), &policy(2));
    server.logged(&["WARN", "the store does not answer"]);
    assert!(admits(&server, "a"));
    let (status, body) = admin(&server, "/readyz");
    assert!(status == 200 && body.contains("\"store\""), "{status} {body}");
    redis.restart();
    within(Duration::from_secs(20), "the store is up", || metric(&server, "tidegate_store_up") == 1.0);
    server.logged(&["the store answers again"]);
    let admitted = (0..3).filter(|_| admits(&server, "a")).count();
    assert_eq!(admitted, 2, "on Redis nothing was used");
    assert_eq!(admin(&server, "/readyz").0, 200);
}

#[test]
fn an_address_that_is_none_is_refused_without_repeating_it() {
    let home = Home::new();
    for url in ["127.0.0.1:6379", "http://me:s3cret@127.0.0.1:6379", "redis://"] {
        let settings =
            home.write("s.yaml", &format!("store: {{ mode: strict, redis: {{ url: \"{url}\" }} }}\n"));
        let ran = run(tidegate(&[
            "serve",
            "--config",
            &settings,
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "off",
            "--resp",
            "off",
            "--admin",
            "off",
        ]));
        assert_eq!(ran.code, Some(2), "{url}: {}", ran.err);
        assert!(ran.err.contains("store.redis") && !ran.err.contains("s3cret"), "{}", ran.err);
    }
}

#[test]
fn the_environment_names_the_redis() {
    let redis = Redis::start();
    let home = Home::new();
    let settings = home.write("s.yaml", "store: { mode: strict }\n");
    let args = [
        "serve",
        "--config",
        &settings,
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--admin",
        "off",
    ];
    let mut command = tidegate(&args);
    command.env("TIDEGATE_REDIS_URL", format!("redis://127.0.0.1:{}", redis.port));
    let server = crate::support::server::Server::start_with(command);
    assert_eq!(server.told("store"), format!("strict on redis://127.0.0.1:{}", redis.port));
    assert!(admits(&server, "a"));
    let keys: u64 = redis.cli(&["DBSIZE"]).parse().expect("a number");
    assert!(keys > 0);
}
