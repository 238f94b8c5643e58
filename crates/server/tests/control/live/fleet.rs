//! Nodes of every kind: on one Redis, on one database, and one alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::control::access::client::{ApiReply, ask};
use crate::support::home::Home;
use crate::support::redis::Redis;
use crate::support::server::{ANYWHERE, Server, tidegate};
use crate::support::within;

/// Longer than anything takes, also on a busy machine; nodes follow within a second.
pub(in crate::control) const PATIENCE: Duration = Duration::from_secs(15);

const TOKEN: &str = "token-of-the-fleet-0123456789abcdef";

/// Five requests an hour for each user, more for trusted ones, and detectors of bursts: one whose penalties are warnings
/// for as long as a test runs, one that has a second window, which blocks, soon, and one whose penalties end soon.
const POLICY: &str = "version: 1
adaptive: { trust: true }
limits:
- { name: per-user, key: [user], match: { path: /limited }, sustained: { rate: 5, window: hour } }
- { name: counted, key: [user], match: { path: /window }, algorithm: fixed_window, sustained: { rate: 5, window: day } }
- { name: logged, key: [user], match: { path: /log }, algorithm: sliding_log, sustained: { rate: 5, window: hour } }
- { name: daily, key: [tenant], match: { path: /daily }, sustained: { rate: 1, window: day } }
- { name: wide, key: [user], match: { path: /wide }, sustained: { rate: 30, window: hour } }
- { name: per-key, key: [\"header:x-api-key\"], match: { path: /keyed }, sustained: { rate: 5, window: hour } }
bursts:
- { name: burst, key: [ip], window: 60s, threshold: 5, penalty: 600s }
- { name: quick, key: [client], window: 1s, threshold: 5, penalty: 600s }
- { name: brief, key: [\"header:x-brief\"], window: 1s, threshold: 5, penalty: 6s }
tenants:
- { id: slow, rate_limit: { sustained: { rate: 1, window: hour } } }
";

/// What nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// Limits and live entries on Redis.
    Strict,
    Hybrid,
    /// Live entries in a database; each node counts for itself.
    Database,
    /// Live entries in a database, and limits on Redis.
    Both,
    /// One node alone.
    Nothing,
}

impl Shared {
    pub(super) const ALL: [Shared; 5] =
        [Shared::Strict, Shared::Hybrid, Shared::Database, Shared::Both, Shared::Nothing];

    /// Looks at several kinds of fleet at once, for tests that mostly wait for time to pass.
    pub(super) fn each_at_once(kinds: &[Shared], look: impl Fn(Shared) + Sync) {
        std::thread::scope(|scope| {
            for shared in kinds {
                scope.spawn(|| look(*shared));
            }
        });
    }

    /// Do its nodes count together?
    pub(super) fn has_shared_limits(self) -> bool {
        matches!(self, Shared::Strict | Shared::Hybrid | Shared::Both)
    }
}

/// Nodes with a policy from a file.
pub(super) struct LiveFleet {
    pub(super) shared: Shared,
    pub(super) servers: Vec<Server>,
    settings: String,
    home: Home,
    redis: Option<Redis>,
}

impl LiveFleet {
    pub(super) fn start(shared: Shared) -> LiveFleet {
        LiveFleet::start_with(shared, "")
    }

    /// The same with more settings.
    pub(super) fn start_with(shared: Shared, more: &str) -> LiveFleet {
        let home = Home::new();
        home.write("policy.yaml", POLICY);
        let redis = shared.has_shared_limits().then(Redis::start);
        let database = format!("database: {{ url: \"sqlite:{}\" }}\n", home.arg("live.db"));
        let carried = match (shared, &redis) {
            (Shared::Strict, Some(redis)) => redis.settings("strict"),
            (Shared::Hybrid, Some(redis)) => redis.settings("hybrid"),
            (Shared::Both, Some(redis)) => redis.settings("strict") + &database,
            (Shared::Database, _) => database,
            _ => String::new(),
        };
        let settings = carried + "trust: {}\n" + more;
        let mut fleet = LiveFleet { shared, servers: Vec::new(), settings, home, redis };
        let nodes = if shared == Shared::Nothing { 1 } else { 3 };
        fleet.servers = (0..nodes).map(|index| fleet.node(index)).collect();
        fleet
    }

    pub(super) fn node(&self, index: usize) -> Server {
        let events = format!("events: {{ file: events-{index}.jsonl }}\n");
        let config = self.home.write(&format!("settings-{index}.yaml"), &(self.settings.clone() + &events));
        let policy = self.home.arg("policy.yaml");
        let args = [&["serve"], &ANYWHERE[..], &["--config", &config, "--policy", &policy]].concat();
        let mut command = tidegate(&args);
        command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
        Server::start_with(command)
    }

    /// Replaces a node by a new one.
    pub(super) fn restart(&mut self, index: usize) {
        self.servers[index] = self.node(index);
    }

    pub(super) fn api(&self, node: usize, method: &str, path: &str, body: &Value) -> ApiReply {
        self.api_with(node, method, path, &[], body)
    }

    /// The same with more headers.
    pub(super) fn api_with(
        &self,
        node: usize,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &Value,
    ) -> ApiReply {
        let bearer = format!("Bearer {TOKEN}");
        let own = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let headers: Vec<(&str, &str)> = own.into_iter().chain(more.iter().copied()).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.servers[node].socket("admin"), method, &format!("/api/v1{path}"), &headers, &body)
    }

    /// A POST with an idempotency key.
    pub(super) fn api_once(&self, node: usize, key: &str, path: &str, body: &Value) -> ApiReply {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        ask(
            self.servers[node].socket("admin"),
            "POST",
            &format!("/api/v1{path}"),
            &headers,
            &body.to_string(),
        )
    }

    /// A page of the admin listener.
    pub(super) fn admin(&self, node: usize, path: &str) -> String {
        ask(self.servers[node].socket("admin"), "GET", path, &[], "").body
    }

    /// The decision of one node.
    pub(super) fn check(&self, node: usize, request: &Value) -> Value {
        self.decide(node, "/v1/check", request)
    }

    /// The decision of one node, without a charge.
    pub(super) fn peek(&self, node: usize, request: &Value) -> Value {
        self.decide(node, "/v1/peek", request)
    }

    fn decide(&self, node: usize, path: &str, request: &Value) -> Value {
        let headers = [("Content-Type", "application/json")];
        ask(self.servers[node].socket("http"), "POST", path, &headers, &request.to_string()).json()
    }

    /// Waits until every node gives this reason for a request.
    #[track_caller]
    pub(super) fn all_say(&self, reason: &str, request: &Value) {
        for node in 0..self.servers.len() {
            let what = format!("{:?}: node {node} says {reason} to {request}", self.shared);
            within(PATIENCE, &what, || self.peek(node, request)["reason"] == reason);
        }
    }

    /// Waits until every node has followed what was done through a node: a block of somebody else, through the same node,
    /// comes after it. That node has both in force without following them.
    #[track_caller]
    pub(super) fn all_have_followed(&self, node: usize) {
        static MARKERS: AtomicUsize = AtomicUsize::new(0);
        let somebody = json!({ "user": format!("marker-{}", MARKERS.fetch_add(1, Ordering::Relaxed)) });
        self.api(node, "POST", "/keys/block", &json!({ "who": somebody })).expect(201);
        self.all_say("blocked", &somebody);
    }

    /// The lines of the events files that contain a text.
    pub(super) fn events(&self, part: &str) -> Vec<Value> {
        let file = |index: usize| self.home.path(&format!("events-{index}.jsonl"));
        let texts =
            (0..self.servers.len()).map(|index| std::fs::read_to_string(file(index)).unwrap_or_default());
        let text: String = texts.collect();
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Everything that the nodes have written where they share it, as bytes: the files of the database, and what Redis
    /// holds.
    pub(super) fn kept_bytes(&self) -> Vec<u8> {
        let mut files = ["live.db", "live.db-wal"].map(|name| self.home.path(name)).to_vec();
        if let Some(redis) = &self.redis {
            redis.cli(&["CONFIG", "SET", "rdbcompression", "no"]);
            assert_eq!(redis.cli(&["SAVE"]), "OK");
            files.push(redis.dir.join("dump.rdb"));
        }
        files.iter().flat_map(|file| std::fs::read(file).unwrap_or_default()).collect()
    }

    /// Sends a signal to Redis: `STOP`, and it answers nobody until `CONT`.
    pub(super) fn signal_redis(&self, signal: Signal) {
        let redis = self.redis.as_ref().expect("this fleet has a Redis");
        let pid = i32::try_from(redis.pid()).ok().and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, signal).expect("it can be signalled");
    }

    /// Does a node decide by its store, and not by what it does without?
    pub(super) fn has_store(&self, node: usize) -> bool {
        let ready: Value = serde_json::from_str(&self.admin(node, "/readyz")).expect("it is JSON");
        !ready["degraded"].as_array().expect("a list").iter().any(|reason| reason["reason"] == "store")
    }

    /// Lets Redis write what it has to its file.
    pub(super) fn save_redis(&self) {
        let redis = self.redis.as_ref().expect("this fleet has a Redis");
        assert_eq!(redis.cli(&["SAVE"]), "OK");
    }

    /// Starts Redis again with what its file has.
    pub(super) fn restart_redis(&mut self) {
        let redis = self.redis.as_mut().expect("this fleet has a Redis");
        redis.kill();
        redis.restart();
    }

    /// The answer of Redis to a command.
    pub(super) fn redis(&self, command: &[&str]) -> String {
        self.redis.as_ref().expect("this fleet has a Redis").cli(command)
    }

    /// Takes Redis away.
    pub(super) fn lose_redis(&mut self) {
        self.redis = None;
    }
}

pub(super) fn user(name: &str) -> Value {
    json!({ "user": name, "path": "/limited" })
}

/// A time so many seconds from now, as RFC 3339.
pub(in crate::control) fn in_seconds(seconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).to_string()
}
