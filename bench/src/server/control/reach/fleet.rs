//! Nodes that share something, or one alone, with a light load on each of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::REACH_SECONDS;
use crate::server::ServerBenchError;
use crate::server::control::api_client::{ApiClient, ApiClientError};
use crate::server::control::host::{ControlHost, HostDatabase, HostOptions, StoreHost};
use crate::server::process::pause;
use crate::stopwatch::Stopwatch;

/// How many tokens a user has. One more comes every minute, so that a bucket stays empty while it is looked at.
pub(super) const CAPACITY: u64 = 60;

/// A limit that follows trust, and for addresses a detector that blocks in the second window of a burst.
pub(super) const POLICY: &str = "version: 1
adaptive: { trust: true }
limits:
- { name: per-user, key: [user], missing: skip, sustained: { rate: 60, window: hour } }
- { name: per-address, key: [ip], missing: skip, sustained: { rate: 1000000 } }
bursts:
- { name: burst, key: [ip], window: 1s, threshold: 20, penalty: 600s }
";

/// How many nodes share something.
const NODES: usize = 3;
/// The users of the load on each node.
const USERS: u32 = 1_000;

/// What nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FleetKind {
    Strict,
    Hybrid,
    /// Limits on Redis, and everything else in a database.
    StrictAndDatabase,
    /// A database; each node counts for itself.
    Database,
    /// One node.
    Alone,
}

impl FleetKind {
    pub(super) const ALL: [FleetKind; 5] = [
        FleetKind::Strict,
        FleetKind::Hybrid,
        FleetKind::StrictAndDatabase,
        FleetKind::Database,
        FleetKind::Alone,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            FleetKind::Strict => "Redis, strict",
            FleetKind::Hybrid => "Redis, hybrid",
            FleetKind::StrictAndDatabase => "Redis and a database",
            FleetKind::Database => "a database",
            FleetKind::Alone => "one node",
        }
    }

    fn store_mode(self) -> Option<&'static str> {
        match self {
            FleetKind::Strict | FleetKind::StrictAndDatabase => Some("strict"),
            FleetKind::Hybrid => Some("hybrid"),
            FleetKind::Database | FleetKind::Alone => None,
        }
    }

    /// Does a penalty that one node knows hold on all of them?
    pub(super) fn shares_penalties(self) -> bool {
        self != FleetKind::Database
    }

    pub(super) fn has_database(self) -> bool {
        matches!(self, FleetKind::StrictAndDatabase | FleetKind::Database)
    }
}

/// The nodes.
pub(super) struct Fleet {
    pub(super) kind: FleetKind,
    pub(super) nodes: Vec<ControlHost>,
    _redis: Option<StoreHost>,
}

/// What every node is asked until it answers as it should.
#[derive(Clone, Copy)]
pub(super) struct ReachProbe<'p> {
    pub(super) path: &'static str,
    pub(super) request: &'p str,
    pub(super) follows: &'p dyn Fn(&Value) -> bool,
}

impl Fleet {
    pub(super) fn start(
        kind: FleetKind,
        program: &Path,
        postgres: Option<&str>,
    ) -> Result<Fleet, ServerBenchError> {
        let redis = kind.store_mode().map(|_| StoreHost::start()).transpose()?;
        let store = redis.as_ref().zip(kind.store_mode()).map(|(redis, mode)| redis.settings(mode));
        let settings = store.unwrap_or_default() + "trust: {}\n";
        let names =
            (0..if kind == FleetKind::Alone { 1 } else { NODES }).map(|index| format!("reach-{index}"));
        let names: Vec<String> = names.collect();
        let start = |name: &String| {
            let database = match postgres {
                _ if !kind.has_database() => HostDatabase::None,
                Some(url) => HostDatabase::Postgres(url),
                None if *name == names[0] => HostDatabase::Sqlite,
                None => HostDatabase::SqliteOf(&names[0]),
            };
            // Candidates need a policy that is in the database.
            let policy = Some(POLICY).filter(|_| !kind.has_database());
            let options = HostOptions { name, policy, database };
            ControlHost::start_with(program, options, &settings)
        };
        let nodes = names.iter().map(start).collect::<Result<_, _>>()?;
        let fleet = Fleet { kind, nodes, _redis: redis };
        if kind.has_database() {
            fleet.publish()?;
        }
        Ok(fleet)
    }

    /// Puts the policy into the database, and waits until every node runs it.
    fn publish(&self) -> Result<(), ServerBenchError> {
        self.nodes[0].admin_api()?.call("PUT", "/api/v1/policy", "application/yaml", POLICY)?;
        let follows = |answer: &Value| answer["limit"] == CAPACITY;
        let probe = ReachProbe { path: "/v1/peek", request: r#"{"user":"nobody"}"#, follows: &follows };
        self.all_follow("the policy", &mut self.clients()?, probe)
    }

    /// A client of every node for decisions. A server closes a connection that is not used for some seconds.
    pub(super) fn clients(&self) -> Result<Vec<ApiClient>, ApiClientError> {
        self.nodes.iter().map(ControlHost::decision_api).collect()
    }

    /// Waits until every node has answered once as it should.
    pub(super) fn all_follow(
        &self,
        what: &'static str,
        clients: &mut [ApiClient],
        probe: ReachProbe<'_>,
    ) -> Result<(), ServerBenchError> {
        let watch = Stopwatch::start();
        let mut waiting: Vec<&mut ApiClient> = clients.iter_mut().collect();
        loop {
            let (mut behind, mut last) = (Vec::new(), Value::Null);
            for client in waiting {
                let answer = client.decide(probe.path, probe.request)?;
                if !(probe.follows)(&answer) {
                    behind.push(client);
                    last = answer;
                }
            }
            if behind.is_empty() {
                return Ok(());
            }
            if watch.seconds() > REACH_SECONDS {
                return Err(self.not_everywhere(what, &last));
            }
            waiting = behind;
            pause();
        }
    }

    /// Sends requests to every node until all of them answer the next one as they should.
    pub(super) fn use_until(
        &self,
        what: &'static str,
        probe: ReachProbe<'_>,
    ) -> Result<(), ServerBenchError> {
        let (watch, mut clients) = (Stopwatch::start(), self.clients()?);
        loop {
            let (mut is_done, mut last) = (true, Value::Null);
            for client in &mut clients {
                // Without a pause: the load of one client on one node.
                let mut answer = client.decide(probe.path, probe.request)?;
                is_done &= (probe.follows)(&answer);
                while !(probe.follows)(&answer) && watch.seconds() < REACH_SECONDS {
                    answer = client.decide(probe.path, probe.request)?;
                }
                last = answer;
            }
            if is_done {
                return Ok(());
            }
            if watch.seconds() > REACH_SECONDS {
                return Err(self.not_everywhere(what, &last));
            }
        }
    }

    pub(super) fn not_everywhere(&self, what: &'static str, answer: &Value) -> ServerBenchError {
        ServerBenchError::NotEverywhere { fleet: self.kind.name(), what, answer: answer.to_string() }
    }

    /// Does something while every node decides about other users, some two hundred times a second.
    pub(super) fn under_load<T>(
        &self,
        measure: impl FnOnce() -> Result<T, ServerBenchError>,
    ) -> Result<T, ServerBenchError> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let loads: Vec<_> = self.nodes.iter().map(|node| scope.spawn(|| load(node, &is_over))).collect();
            let measured = measure();
            is_over.store(true, Ordering::Relaxed);
            for load in loads {
                load.join().expect("it does not panic")?;
            }
            measured
        })
    }
}

fn load(node: &ControlHost, is_over: &AtomicBool) -> Result<(), ApiClientError> {
    let mut client = node.decision_api()?;
    for number in (0..USERS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
        client.decide("/v1/check", &format!(r#"{{"user":"load-{number}"}}"#))?;
        pause();
    }
    Ok(())
}
