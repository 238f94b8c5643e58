//! Starts the `tidegate` binary as a server and watches its output.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Timeout of every wait; longer than anything here takes, so only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; killed on drop.
pub(crate) struct Server {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    /// What it printed at the start.
    pub(crate) banner: String,
}

/// The binary, without any `TIDEGATE_` variable in its environment.
pub(crate) fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    command.args(args).env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// A server with only one listener, on this address.
pub(crate) fn listening_only(listener: &str, address: &str) -> Command {
    let mut command = tidegate(&["serve"]);
    for name in ["http", "grpc", "resp", "admin"] {
        command.arg(format!("--{name}")).arg(if name == listener { address } else { "off" });
    }
    command
}

/// Flags that put every listener on a free port.
pub(crate) const ANYWHERE: [&str; 8] =
    ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

impl Server {
    /// Starts a server on free ports.
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_with(tidegate(&[&["serve"], &ANYWHERE[..], args].concat()))
    }

    /// Runs a command that starts a server, and waits for its banner.
    pub(crate) fn start_with(mut command: Command) -> Server {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let (out, err) = (lines(child.stdout.take()), lines(child.stderr.take()));
        let mut server = Server { child, out, err, banner: String::new() };
        loop {
            let Ok(line) = server.out.recv_timeout(PATIENCE) else {
                let said: Vec<String> = server.err.try_iter().collect();
                panic!("it does not start: {}\n{}", server.banner, said.join("\n"));
            };
            server.banner.push_str(&line);
            server.banner.push('\n');
            if line.is_empty() && server.has_said_all() {
                return server;
            }
        }
    }

    /// Has the whole banner been read? It ends with commands to try, unless no listener can be tried.
    fn has_said_all(&self) -> bool {
        let has = |start: &str| self.banner.lines().any(|line| line.starts_with(start));
        let nothing_to_try = || ["http", "resp", "admin"].iter().all(|name| self.told(name) == "off");
        has("Try:") || (has("  admin ") && nothing_to_try())
    }

    /// The text of the banner after a name.
    pub(crate) fn told(&self, name: &str) -> String {
        let line = |line: &&str| line.split_whitespace().next() == Some(name);
        let line = self.banner.lines().find(line).unwrap_or_else(|| panic!("no {name} in {}", self.banner));
        line.trim().split_once(' ').expect("there is more").1.trim().to_owned()
    }

    /// The address of a listener, without a scheme.
    pub(crate) fn address(&self, name: &str) -> String {
        let told = self.told(name);
        told.rsplit("//").next().expect("there is something").to_owned()
    }

    /// The same as a socket address.
    pub(crate) fn socket(&self, name: &str) -> SocketAddr {
        self.address(name).parse().expect("it is an address")
    }

    /// Waits for a log line that contains all these parts, and returns it.
    pub(crate) fn logged(&self, parts: &[&str]) -> String {
        loop {
            let line = self.err.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never logged: {parts:?}"));
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
        }
    }

    /// Waits for a line on standard output that contains this, the banner included, and returns it.
    pub(crate) fn printed(&self, part: &str) -> String {
        if let Some(line) = self.banner.lines().find(|line| line.contains(part)) {
            return line.to_owned();
        }
        loop {
            let line = self.out.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never printed: {part}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Stops it, and returns everything that it has printed to standard output and that was not read before, after the
    /// banner.
    pub(crate) fn all_printed(mut self) -> String {
        self.signal(Signal::TERM);
        let mut printed = self.banner.clone();
        while let Ok(line) = self.out.recv_timeout(PATIENCE) {
            printed.push_str(&line);
            printed.push('\n');
        }
        _ = self.child.wait();
        printed
    }

    /// Stops it, and returns everything that it has logged and that was not read before.
    pub(crate) fn stopped(mut self) -> String {
        self.signal(Signal::TERM);
        let mut said = String::new();
        while let Ok(line) = self.err.recv_timeout(PATIENCE) {
            said.push_str(&line);
            said.push('\n');
        }
        _ = self.child.wait();
        said
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there");
    }

    /// Are all its threads stopped by a signal?
    pub(crate) fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("it is there");
        let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
            // The state comes after the name, which is in parentheses.
            stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
        };
        tasks.into_iter().all(is_stopped)
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> ExitStatus {
        // Standard error is closed when the process ends.
        while self.err.recv_timeout(PATIENCE).is_ok() {}
        self.child.wait().expect("it can be waited for")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.err.try_iter().for_each(|line| eprintln!("the server: {line}"));
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn lines(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    let stream = BufReader::new(stream.expect("it is piped"));
    std::thread::spawn(move || {
        for line in stream.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The result of a command that has ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(mut command: Command) -> Ran {
    let output = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
