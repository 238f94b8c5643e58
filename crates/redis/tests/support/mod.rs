//! Real servers for tests, and a plain link to them.
#![allow(dead_code, unreachable_pub, reason = "every test uses some of it")]

pub mod vectors;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, ServerErrorKind, Value};
use tidegate::Nanos;
use tidegate_redis::testing::{Encoded, decode, decode_beat, encode, encode_beat};
use tidegate_redis::{Answer, Call, Link, LinkError};

/// A server of its own, without persistence, that ends with the test.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl RedisServer {
    /// Starts one on a free port and waits until it answers. The binary is that of `TIDEGATE_REDIS_SERVER`, or
    /// `redis-server`.
    ///
    /// # Panics
    /// When there is no such binary, or it does not start.
    pub fn start() -> RedisServer {
        RedisServer::start_with(&[])
    }

    /// The same with more arguments.
    pub fn start_with(arguments: &[&str]) -> RedisServer {
        let binary = std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        for _ in 0..5 {
            let port = free_port();
            let dir = fresh_dir(port);
            let child = Command::new(&binary)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .arg("--dir")
                .arg(&dir)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!(
                        "{binary} cannot be started ({error}): install redis-server 7 or later, or name one in \
                         TIDEGATE_REDIS_SERVER"
                    )
                });
            let mut server = RedisServer { child, port, dir };
            if server.comes_up() {
                return server;
            }
        }
        panic!("{binary} does not come up: does it run by hand?");
    }

    /// Somebody else may have got the port; then it ends by itself.
    fn comes_up(&mut self) -> bool {
        for _ in 0..500 {
            if self.child.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            if self.answers() {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        false
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut line = String::new();
        stream.write_all(b"PING\r\n").is_ok()
            && BufReader::new(stream).read_line(&mut line).is_ok()
            && line == "+PONG\r\n"
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `redis://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of its own, to look at what is there.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("the address is one");
        client.get_connection().expect("the server answers")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    listener.local_addr().expect("it is bound").port()
}

fn fresh_dir(port: u16) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tidegate-redis-{}-{port}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("there is room for a directory");
    dir
}

/// A prefix that no other test uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A runtime for tests that wait on several threads.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// The plainest link there is: one connection, no deadline.
#[derive(Clone, Debug)]
pub struct PlainLink {
    connection: MultiplexedConnection,
    prefix: String,
    slots: bool,
}

impl PlainLink {
    pub async fn connect(server: &RedisServer, prefix: &str) -> PlainLink {
        let client = redis::Client::open(server.url()).expect("the address is one");
        let connection = client.get_multiplexed_async_connection().await.expect("the server answers");
        PlainLink { connection, prefix: prefix.into(), slots: false }
    }

    /// The same, said to be spread over slots.
    pub fn with_slots(self) -> PlainLink {
        PlainLink { slots: true, ..self }
    }

    pub async fn send(&self, encoded: &Encoded) -> Result<Value, LinkError> {
        let script = encoded.script;
        match self.eval("EVALSHA", &script.sha, encoded).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.eval("EVAL", &script.text, encoded).await
            }
            other => other,
        }
        .map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn eval(&self, verb: &str, script: &str, encoded: &Encoded) -> Result<Value, redis::RedisError> {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(encoded.keys.len());
        encoded.keys.iter().for_each(|key| {
            command.arg(&*key.0);
        });
        encoded.args.iter().for_each(|argument| {
            command.arg(argument.as_slice());
        });
        command.query_async(&mut self.connection.clone()).await
    }
}

impl Link for PlainLink {
    async fn call(&self, call: &Call) -> Result<Answer, LinkError> {
        decode(call, self.send(&encode(call)).await?)
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        decode_beat(self.send(&encode_beat(&self.prefix, node, alive, within)).await?)
    }

    fn has_slots(&self) -> bool {
        self.slots
    }
}
