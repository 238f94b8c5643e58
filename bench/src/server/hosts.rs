//! The servers that are measured. All run at the same time; those without a turn are idle.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ServerBenchError;
use super::lanes::{ListenerKind, ServerKind};
use super::limits;
use super::metrics::StoreUse;
use super::process::{ServerProcess, free_address};
use super::programs;

/// A server, and the addresses of its listeners.
#[derive(Debug)]
pub(crate) struct RunningServer {
    pub(crate) server: ServerProcess,
    doors: HashMap<ListenerKind, SocketAddr>,
    /// The Redis with its limits; it ends after the server.
    store: Option<Store>,
}

/// A Redis behind a Tidegate, and the address of Tidegate's metrics.
#[derive(Debug)]
struct Store {
    _redis: ServerProcess,
    admin: SocketAddr,
}

/// The deadline of a call to Redis. On a busy machine Redis may have to wait for a CPU longer than the default
/// deadline, and a late call would be decided without Redis.
const DEADLINE: &str = "1s";

impl RunningServer {
    /// The address of a listener that the server was started with.
    pub(crate) fn address(&self, listener: ListenerKind) -> SocketAddr {
        self.doors[&listener]
    }

    /// How often it has called its Redis; `None` if it has none.
    pub(crate) fn store_use(&self) -> Option<std::io::Result<StoreUse>> {
        self.store.as_ref().map(|store| StoreUse::read(store.admin))
    }

    /// Starts a server; builds it first if needed.
    pub(crate) fn start(
        host: ServerKind,
        tidegate: Option<&Path>,
    ) -> Result<RunningServer, ServerBenchError> {
        match host {
            ServerKind::Tidegate => RunningServer::tidegate(&programs::tidegate(tidegate)?),
            ServerKind::Throttlecrab => RunningServer::throttlecrab(&programs::throttlecrab()?),
            ServerKind::Redis => RunningServer::redis(&programs::redis()?),
            ServerKind::Local | ServerKind::Hybrid | ServerKind::Strict | ServerKind::Events => {
                RunningServer::mode(host, &programs::tidegate(tidegate)?)
            }
        }
    }

    /// A Tidegate with one worker, in the mode of this kind.
    fn mode(host: ServerKind, program: &Path) -> Result<RunningServer, ServerBenchError> {
        let (mode, redis) = match host {
            ServerKind::Hybrid => ("hybrid", Some(RunningServer::redis(&programs::redis()?)?)),
            ServerKind::Strict => ("strict", Some(RunningServer::redis(&programs::redis()?)?)),
            _ => ("local", None),
        };
        let store = match &redis {
            Some(redis) => {
                let address = redis.address(ListenerKind::Resp);
                format!("{{ mode: {mode}, redis: {{ url: \"redis://{address}\", deadline: {DEADLINE} }} }}")
            }
            None => format!("{{ mode: {mode} }}"),
        };
        let folder = programs::target()?;
        let policy = folder.join("tidegate-bench-modes-policy.yaml");
        let events = match host {
            ServerKind::Events => "events: { file: tidegate-bench-events.jsonl }\n",
            _ => "",
        };
        let name = if events.is_empty() { mode } else { "events" };
        let settings = folder.join(format!("tidegate-bench-{name}.yaml"));
        std::fs::write(&policy, limits::policy_of_modes()).map_err(ServerBenchError::Policy)?;
        std::fs::write(&settings, format!("store: {store}\n{events}")).map_err(ServerBenchError::Policy)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--policy").arg(policy).arg("--config").arg(settings);
        command.args(["--workers", "1", "--grpc", "off"]);
        for listener in ["--http", "--resp", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let (server, found) =
            ServerProcess::start_and_read(host.name(), command, &["http", "resp", "admin"])?;
        let doors = HashMap::from([(ListenerKind::Http, found["http"]), (ListenerKind::Resp, found["resp"])]);
        let store = redis.map(|redis| Store { _redis: redis.server, admin: found["admin"] });
        Ok(RunningServer { server, doors, store })
    }

    fn tidegate(program: &Path) -> Result<RunningServer, ServerBenchError> {
        let policy = programs::target()?.join("tidegate-bench-policy.yaml");
        std::fs::write(&policy, limits::policy()).map_err(ServerBenchError::Policy)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--policy").arg(policy).args(["--admin", "off"]);
        for listener in ["--http", "--grpc", "--resp"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let listeners =
            [("http", ListenerKind::Http), ("grpc", ListenerKind::Grpc), ("resp", ListenerKind::Resp)];
        let names = listeners.map(|(name, _)| name);
        let (server, found) = ServerProcess::start_and_read(ServerKind::Tidegate.name(), command, &names)?;
        let doors = listeners.into_iter().map(|(name, listener)| (listener, found[name])).collect();
        Ok(RunningServer { server, doors, store: None })
    }

    fn throttlecrab(program: &Path) -> Result<RunningServer, ServerBenchError> {
        let (http, resp) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        // Without logging of requests.
        command.args(["--log-level", "error", "--http", "--redis"]).stderr(Stdio::null());
        for (listener, address) in [("http", http), ("redis", resp)] {
            command.arg(format!("--{listener}-host")).arg(address.ip().to_string());
            command.arg(format!("--{listener}-port")).arg(address.port().to_string());
        }
        let server = ServerProcess::start(ServerKind::Throttlecrab.name(), command, &[http, resp])?;
        Ok(RunningServer {
            server,
            doors: HashMap::from([(ListenerKind::Http, http), (ListenerKind::Resp, resp)]),
            store: None,
        })
    }

    fn redis(program: &Path) -> Result<RunningServer, ServerBenchError> {
        let resp = free_address()?;
        let mut command = Command::new(program);
        // Without persistence, like the others.
        command.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
        command.args(["--port", &resp.port().to_string()]);
        let server = ServerProcess::start(ServerKind::Redis.name(), command, &[resp])?;
        Ok(RunningServer { server, doors: HashMap::from([(ListenerKind::Resp, resp)]), store: None })
    }
}
