//! The servers that are measured, running side by side; who has no turn has nothing to do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ServerError;
use super::lanes::{Door, Host};
use super::limits;
use super::metrics::StoreUse;
use super::process::{Server, free_address};
use super::programs;

/// A server, and where its listeners are.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) server: Server,
    doors: HashMap<Door, SocketAddr>,
    /// The Redis that keeps its limits; it ends after the server.
    store: Option<Store>,
}

/// A Redis behind a Tidegate, and where the latter says how it uses it.
#[derive(Debug)]
struct Store {
    _redis: Server,
    admin: SocketAddr,
}

/// How long a call to Redis may take. The usual deadline is shorter than other programs may keep a processor busy, and
/// a call that is late would be answered without Redis.
const DEADLINE: &str = "1s";

impl Running {
    /// Where a listener is that the server was started with.
    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        self.doors[&door]
    }

    /// How it has used its Redis; `None` if it has none.
    pub(crate) fn store_use(&self) -> Option<std::io::Result<StoreUse>> {
        self.store.as_ref().map(|store| StoreUse::read(store.admin))
    }

    /// Starts a server, after building what has to be built.
    pub(crate) fn start(host: Host, tidegate: Option<&Path>) -> Result<Running, ServerError> {
        match host {
            Host::Tidegate => Running::tidegate(&programs::tidegate(tidegate)?),
            Host::Throttlecrab => Running::throttlecrab(&programs::throttlecrab()?),
            Host::Redis => Running::redis(&programs::redis()?),
            Host::Local | Host::Hybrid | Host::Strict => Running::mode(host, &programs::tidegate(tidegate)?),
        }
    }

    /// A Tidegate with one worker, in the mode that is its host.
    fn mode(host: Host, program: &Path) -> Result<Running, ServerError> {
        let (mode, redis) = match host {
            Host::Hybrid => ("hybrid", Some(Running::redis(&programs::redis()?)?)),
            Host::Strict => ("strict", Some(Running::redis(&programs::redis()?)?)),
            _ => ("local", None),
        };
        let store = match &redis {
            Some(redis) => {
                let address = redis.address(Door::Resp);
                format!("{{ mode: {mode}, redis: {{ url: \"redis://{address}\", deadline: {DEADLINE} }} }}")
            }
            None => format!("{{ mode: {mode} }}"),
        };
        let folder = programs::target()?;
        let policy = folder.join("tidegate-bench-modes-policy.yaml");
        let settings = folder.join(format!("tidegate-bench-{mode}.yaml"));
        std::fs::write(&policy, limits::policy_of_modes()).map_err(ServerError::Policy)?;
        std::fs::write(&settings, format!("store: {store}\n")).map_err(ServerError::Policy)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--policy").arg(policy).arg("--config").arg(settings);
        command.args(["--workers", "1", "--grpc", "off"]);
        for listener in ["--http", "--resp", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let (server, found) = Server::start_and_read(host.name(), command, &["http", "resp", "admin"])?;
        let doors = HashMap::from([(Door::Http, found["http"]), (Door::Resp, found["resp"])]);
        let store = redis.map(|redis| Store { _redis: redis.server, admin: found["admin"] });
        Ok(Running { server, doors, store })
    }

    fn tidegate(program: &Path) -> Result<Running, ServerError> {
        let policy = programs::target()?.join("tidegate-bench-policy.yaml");
        std::fs::write(&policy, limits::policy()).map_err(ServerError::Policy)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--policy").arg(policy).args(["--admin", "off"]);
        for listener in ["--http", "--grpc", "--resp"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let listeners = [("http", Door::Http), ("grpc", Door::Grpc), ("resp", Door::Resp)];
        let names = listeners.map(|(name, _)| name);
        let (server, found) = Server::start_and_read(Host::Tidegate.name(), command, &names)?;
        let doors = listeners.into_iter().map(|(name, door)| (door, found[name])).collect();
        Ok(Running { server, doors, store: None })
    }

    fn throttlecrab(program: &Path) -> Result<Running, ServerError> {
        let (http, resp) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        // Without a line of log for what it does.
        command.args(["--log-level", "error", "--http", "--redis"]).stderr(Stdio::null());
        for (listener, address) in [("http", http), ("redis", resp)] {
            command.arg(format!("--{listener}-host")).arg(address.ip().to_string());
            command.arg(format!("--{listener}-port")).arg(address.port().to_string());
        }
        let server = Server::start(Host::Throttlecrab.name(), command, &[http, resp])?;
        Ok(Running { server, doors: HashMap::from([(Door::Http, http), (Door::Resp, resp)]), store: None })
    }

    fn redis(program: &Path) -> Result<Running, ServerError> {
        let resp = free_address()?;
        let mut command = Command::new(program);
        // In memory only, as everybody else.
        command.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
        command.args(["--port", &resp.port().to_string()]);
        let server = Server::start(Host::Redis.name(), command, &[resp])?;
        Ok(Running { server, doors: HashMap::from([(Door::Resp, resp)]), store: None })
    }
}
