//! A Redis of one test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::asking::within;
use crate::home::Home;

/// Longer than it takes to start; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis on a port of its own, until it is dropped.
pub(crate) struct Redis {
    child: Option<Child>,
    pub(crate) port: u16,
    home: Home,
}

impl Redis {
    /// One that is not there yet.
    pub(crate) fn absent() -> Redis {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        Redis { child: None, port, home: Home::new() }
    }

    /// One that answers.
    pub(crate) fn start() -> Redis {
        let mut redis = Redis::absent();
        redis.come();
        redis
    }

    /// Starts it, or starts it anew, empty, where it was.
    pub(crate) fn come(&mut self) {
        let (port, home) = (self.port.to_string(), self.home.arg(""));
        let args = ["--port", &port, "--save", "", "--appendonly", "no", "--dir", &home];
        let child = Command::new("redis-server").args(args).stdout(Stdio::null()).spawn();
        self.child = Some(child.expect("redis-server is installed"));
        within(PATIENCE, "Redis comes up", || self.ask("PING") == Some("+PONG\r\n".to_owned()));
    }

    /// Ends it at once.
    pub(crate) fn go(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }

    /// A command, and the beginning of what it says.
    pub(crate) fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 4_096];
        let read = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..read]).into_owned())
    }

    /// The settings of a server that uses it.
    pub(crate) fn settings(&self, mode: &str) -> String {
        format!(
            "store: {{ mode: {mode}, max_keys: 10000, \
             redis: {{ url: \"redis://127.0.0.1:{}\", deadline: 500ms }} }}\n",
            self.port
        )
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.go();
    }
}
