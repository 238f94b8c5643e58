//! Starts redis-server processes, for the tests of all crates.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses some of it")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A server on a port of its own, without persistence, that ends with the test.
#[derive(Debug)]
pub struct Redis {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its directory.
    pub dir: PathBuf,
    /// The password of the default user, if it has one.
    pub password: Option<&'static str>,
    binary: String,
    args: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// A plain one. The binary is that of `TIDEGATE_REDIS_SERVER`, or `redis-server`.
    ///
    /// # Panics
    /// When there is no such binary, or it does not start.
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// A server with more arguments.
    pub fn start_with(args: &[&str]) -> Redis {
        Redis::start_on(free_port(), args)
    }

    /// A server on a given port.
    pub fn start_on(port: u16, args: &[&str]) -> Redis {
        let mut redis = Redis::absent_on(port, args);
        redis.restart();
        redis
    }

    /// A server of another binary, such as Valkey.
    pub fn start_binary(binary: String) -> Redis {
        let mut redis = Redis::absent();
        redis.binary = binary;
        redis.restart();
        redis
    }

    /// A Sentinel.
    pub fn start_sentinel(config: &str) -> Redis {
        Redis::start_sentinel_on(free_port(), config)
    }

    /// A Sentinel on a given port.
    pub fn start_sentinel_on(port: u16, config: &str) -> Redis {
        let mut redis = Redis::absent_on(port, &[]);
        let file = redis.dir.join("sentinel.conf");
        std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\n{config}\n"))
            .expect("a file in a new directory");
        redis.args = vec![file.display().to_string(), "--sentinel".into()];
        redis.restart();
        redis
    }

    /// A server that is not started yet: [`Redis::restart`] starts it.
    pub fn absent() -> Redis {
        Redis::absent_on(free_port(), &[])
    }

    fn absent_on(port: u16, args: &[&str]) -> Redis {
        let plain = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let args = plain.iter().chain(args).map(ToString::to_string).collect();
        let binary = std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        Redis { port, dir: new_dir(), password: None, binary, args, child: None }
    }

    /// Starts it, or starts it again without its data, and waits until it answers.
    pub fn restart(&mut self) {
        let mut command = Command::new(&self.binary);
        command.args(&self.args).current_dir(&self.dir).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!(
                "{} cannot be started ({error}): install redis-server 7 or later, or name one in \
                 TIDEGATE_REDIS_SERVER",
                self.binary
            )
        });
        for _ in 0..1_000 {
            if let Some(status) = child.try_wait().expect("a child can be asked") {
                panic!("{} on port {} ended with {status}", self.binary, self.port);
            }
            if self.answers() {
                self.child = Some(child);
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        _ = child.kill();
        panic!("{} does not come up: does it run by hand?", self.binary);
    }

    /// Does it react to a command? A server that wants a password answers so, and one that wants TLS closes the
    /// connection. One that still reads its data from the disk is not there yet.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let waits = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let asked = waits.and_then(|()| stream.write_all(b"PING\r\n"));
        let mut reply = [0; 16];
        let reaction = asked.and_then(|()| stream.read(&mut reply));
        !reply.starts_with(b"-LOADING") && !reaction.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// How many scripts it has run.
    pub fn scripts_run(&self) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(b"INFO commandstats\r\nQUIT\r\n").expect("it reads");
        let mut stats = String::new();
        stream.read_to_string(&mut stats).expect("it answers");
        let runs = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls: u64 = rest.split(',').next()?.parse().ok()?;
            // A script that it does not know yet is sent again: it has not run.
            let failed: u64 = rest.split("failed_calls=").nth(1)?.trim().parse().ok()?;
            ["eval", "evalsha"].contains(&name).then_some(calls - failed)
        };
        stats.lines().filter_map(runs).sum()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it has ended");
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// The output of `redis-cli`.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(args)
            .envs(self.password.map(|password| ("REDISCLI_AUTH", password)))
            .output()
            .expect("redis-cli is installed beside redis-server");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The number behind a name in `INFO`; zero if there is none.
    pub fn info(&self, section: &str, name: &str) -> u64 {
        let info = self.cli(&["INFO", section]);
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("0");
        let digits = line.strip_prefix("calls=").unwrap_or(line);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().expect("a number")
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn new_dir() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("tidegate-redis-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for temporary files");
    dir
}

/// A free port outside the range of ephemeral ports, since tests run side by side. The port 10,000 above it, which a
/// Cluster uses for its bus, is free too.
pub fn free_port() -> u16 {
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let below = RandomState::new().build_hasher().finish() % 12_000;
        let port = 10_000 + u16::try_from(below).expect("it is below 12,000");
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}
