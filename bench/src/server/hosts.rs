//! The servers that are measured, running side by side; who has no turn has nothing to do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ServerError;
use super::lanes::{Door, Host};
use super::limits;
use super::process::{Server, free_address};
use super::programs;

/// A server, and where its listeners are.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) server: Server,
    doors: HashMap<Door, SocketAddr>,
}

impl Running {
    /// Where a listener is that the server was started with.
    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        self.doors[&door]
    }

    /// Starts a server, after building what has to be built.
    pub(crate) fn start(host: Host, tidegate: Option<&Path>) -> Result<Running, ServerError> {
        match host {
            Host::Tidegate => Running::tidegate(&programs::tidegate(tidegate)?),
            Host::Throttlecrab => Running::throttlecrab(&programs::throttlecrab()?),
            Host::Redis => Running::redis(&programs::redis()?),
        }
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
        Ok(Running { server, doors })
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
        Ok(Running { server, doors: HashMap::from([(Door::Http, http), (Door::Resp, resp)]) })
    }

    fn redis(program: &Path) -> Result<Running, ServerError> {
        let resp = free_address()?;
        let mut command = Command::new(program);
        // In memory only, as everybody else.
        command.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
        command.args(["--port", &resp.port().to_string()]);
        let server = Server::start(Host::Redis.name(), command, &[resp])?;
        Ok(Running { server, doors: HashMap::from([(Door::Resp, resp)]) })
    }
}
