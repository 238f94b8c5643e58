//! A redis-server of a test's own.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to start.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// A server, killed when it is dropped.
pub(crate) struct Redis {
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    /// What the default user needs, if anything.
    pub(crate) password: Option<&'static str>,
    binary: String,
    args: Vec<String>,
    child: Child,
}

impl Redis {
    /// A plain one.
    pub(crate) async fn start() -> Redis {
        Redis::start_with(&[]).await
    }

    /// One with some more arguments.
    pub(crate) async fn start_with(args: &[&str]) -> Redis {
        Redis::start_on(free_port(), args).await
    }

    /// One on a port that others know already.
    pub(crate) async fn start_on(port: u16, args: &[&str]) -> Redis {
        let dir = new_dir();
        let plain = ["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"];
        let args = plain.iter().chain(args).map(ToString::to_string).collect();
        Redis::run(binary(), args, dir, port).await
    }

    /// A plain one of another make.
    pub(crate) async fn start_binary(binary: String) -> Redis {
        let port = free_port();
        let args = ["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"];
        Redis::run(binary, args.map(str::to_owned).to_vec(), new_dir(), port).await
    }

    /// One that watches over others.
    pub(crate) async fn start_sentinel(config: &str) -> Redis {
        Redis::start_sentinel_on(free_port(), config).await
    }

    /// One that watches over others, on a port that somebody knows already.
    pub(crate) async fn start_sentinel_on(port: u16, config: &str) -> Redis {
        let dir = new_dir();
        let file = dir.join("sentinel.conf");
        std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\n{config}\n"))
            .expect("a file in a new directory");
        let args = vec![file.display().to_string(), "--sentinel".into()];
        Redis::run(binary(), args, dir, port).await
    }

    async fn run(binary: String, args: Vec<String>, dir: PathBuf, port: u16) -> Redis {
        let child = spawn(&binary, &args, &dir);
        let redis = Redis { port, dir, password: None, binary, args, child };
        redis.answers().await;
        redis
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }

    /// The same one again, empty.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(&self.binary, &self.args, &self.dir);
        self.answers().await;
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// What `redis-cli` says.
    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(args)
            .envs(self.password.map(|password| ("REDISCLI_AUTH", password)))
            .output()
            .expect("redis-cli is installed beside redis-server");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The number behind a name in `INFO`; zero if there is none.
    pub(crate) fn info(&self, section: &str, name: &str) -> u64 {
        let info = self.cli(&["INFO", section]);
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("0");
        let digits = line.strip_prefix("calls=").unwrap_or(line);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().expect("a number")
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    async fn answers(&self) {
        until(STARTS_WITHIN, "redis-server accepts connections", async || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        })
        .await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn binary() -> String {
    std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into())
}

fn spawn(binary: &str, args: &[String], dir: &PathBuf) -> Child {
    Command::new(binary)
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("these tests need {binary}: install Redis 7 or Valkey ({error})"))
}

fn new_dir() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("tidegate-server-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for temporary files");
    dir
}

/// A port that nobody had a moment ago.
pub(crate) fn free_port() -> u16 {
    // A Cluster talks among itself on a port 10,000 higher, so the highest ones are of no use.
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are ports");
        let port = listener.local_addr().expect("it is bound").port();
        if port < 55_000 {
            return port;
        }
    }
}

/// Tries until it is so; fails if it takes longer.
pub(crate) async fn until(within: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
