//! Servers as child processes, which end when their handle is dropped.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::resident;
use crate::stopwatch::Stopwatch;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("could not start {name}: {source}")]
    Spawn { name: &'static str, source: std::io::Error },
    #[error("no free port: {0}")]
    Port(std::io::Error),
    #[error("{0} ended before it listened")]
    Ended(&'static str),
    #[error("{0} did not listen within {START_SECONDS} seconds")]
    Late(&'static str),
}

/// The timeout until a server listens.
const START_SECONDS: u64 = 10;

/// A running server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    name: &'static str,
    /// Its resident memory in bytes when it listened, before the first request.
    pub(crate) idle_bytes: Option<u64>,
}

impl ServerProcess {
    /// Starts a server with given ports, and waits until it accepts connections on all of them.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        ports: &[SocketAddr],
    ) -> Result<ServerProcess, StartError> {
        let mut server = ServerProcess::spawn(name, command.stdout(Stdio::null()))?;
        let watch = Stopwatch::start();
        for &address in ports {
            while TcpStream::connect(address).is_err() {
                server.check_running(watch)?;
                pause();
            }
        }
        server.idle_bytes = resident::of(server.id());
        Ok(server)
    }

    /// Starts a server that chooses its ports, and waits until it has printed all of them: lines such as
    /// `http http://127.0.0.1:1234`.
    pub(crate) fn start_and_read(
        name: &'static str,
        mut command: Command,
        listeners: &[&'static str],
    ) -> Result<(ServerProcess, HashMap<&'static str, SocketAddr>), StartError> {
        let mut server = ServerProcess::spawn(name, command.stdout(Stdio::piped()))?;
        let stdout = server.child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut found = HashMap::new();
        while found.len() < listeners.len() {
            let Some(Ok(line)) = lines.next() else { return Err(StartError::Ended(name)) };
            if let Some((listener, address)) = listener_address(&line, listeners) {
                found.insert(listener, address);
            }
        }
        // Keep reading, or the server's writes to standard output would fail.
        std::thread::spawn(move || lines.for_each(drop));
        server.idle_bytes = resident::of(server.id());
        Ok((server, found))
    }

    fn spawn(name: &'static str, command: &mut Command) -> Result<ServerProcess, StartError> {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.map_err(|source| StartError::Spawn { name, source })?;
        Ok(ServerProcess { child, name, idle_bytes: None })
    }

    fn check_running(&mut self, since: Stopwatch) -> Result<(), StartError> {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return Err(StartError::Ended(self.name));
        }
        if since.seconds() > START_SECONDS as f64 {
            return Err(StartError::Late(self.name));
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time of all its threads so far in nanoseconds, in user and kernel mode.
    pub(crate) fn cpu_nanos(&self) -> std::io::Result<u64> {
        self.cpu_nanos_of("")
    }

    /// The same of the threads whose names begin with a text.
    pub(crate) fn cpu_nanos_of(&self, threads: &str) -> std::io::Result<u64> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let task = task?.path();
            // A thread may end between being listed and being read.
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            if !name.starts_with(threads) {
                continue;
            }
            let schedstat = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            nanos +=
                schedstat.split_ascii_whitespace().next().and_then(|run| run.parse().ok()).unwrap_or(0_u64);
        }
        Ok(nanos)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already; an error cannot be reported from `drop`.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A port that was just free, for servers that cannot choose one themselves.
pub(crate) fn free_address() -> Result<SocketAddr, StartError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(StartError::Port)?;
    listener.local_addr().map_err(StartError::Port)
}

/// The listener in a line of output, and its address.
fn listener_address(line: &str, listeners: &[&'static str]) -> Option<(&'static str, SocketAddr)> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let listener = listeners.iter().find(|&&listener| listener == first)?;
    let url = words.next()?;
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    Some((listener, address.trim_end_matches('/').parse().ok()?))
}

#[expect(
    clippy::disallowed_methods,
    reason = "polls another process, which does not signal that it is ready"
)]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_what_is_printed() {
        let found =
            |line| listener_address(line, &["http", "resp"]).map(|(name, address)| (name, address.port()));
        assert_eq!(found("  http   http://127.0.0.1:40123"), Some(("http", 40_123)));
        assert_eq!(found("  resp   redis://127.0.0.1:6380"), Some(("resp", 6_380)));
        assert_eq!(found("  http   off"), None);
        assert_eq!(found("  grpc   127.0.0.1:8081"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_process_is_looked_at_and_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '  http http://127.0.0.1:1'; while :; do :; done"]);
        let (server, found) = ServerProcess::start_and_read("sh", command, &["http"]).unwrap();
        assert_eq!(found["http"].port(), 1);
        assert!(server.idle_bytes.is_some_and(|bytes| bytes > 0));
        let before = server.cpu_nanos().unwrap();
        while server.cpu_nanos().unwrap() == before {
            std::thread::yield_now();
        }
        assert!(server.cpu_nanos_of("sh").unwrap() > 0);
        assert_eq!(server.cpu_nanos_of("another").unwrap(), 0);
        let path = format!("/proc/{}", server.id());
        drop(server);
        assert!(!std::path::Path::new(&path).exists());
    }

    #[test]
    fn a_server_that_does_not_come_up_is_told() {
        let missing = Command::new("/nowhere/at/all");
        assert!(matches!(ServerProcess::start("none", missing, &[]), Err(StartError::Spawn { .. })));
        let ended = ServerProcess::start("true", Command::new("true"), &[free_address().unwrap()]);
        assert!(matches!(ended, Err(StartError::Ended("true"))));
        let silent = ServerProcess::start_and_read("true", Command::new("true"), &["http"]);
        assert!(matches!(silent, Err(StartError::Ended("true"))));
    }
}
