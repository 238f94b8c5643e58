//! The HTTP listener as its users meet it: the real binary, on a real socket.

mod client;
mod decisions;
mod fields;
mod hostile;
mod http2;
mod statuses;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::Client;

/// A limit for each test, so that they can share a policy.
const POLICY: &str = r#"
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: per-client, key: [client], sustained: { rate: 2, window: minute }, headers: [ietf, ratelimit-03, x-ratelimit] }
  - { name: quiet, key: [plan], sustained: { rate: 1, window: hour }, response_headers: false }
  - { name: soft, key: ["header:x-soft"], sustained: { rate: 1, window: hour }, strategy: degrade, degrade: { tag: slow } }
  - { name: per-address, match: { path: /addresses }, key: [ip], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: line, key: ["header:x-line"], sustained: { rate: 1, window: 100ms }, strategy: queue, queue: { max_depth: 1, max_wait: 5s } }
block:
  - { ip: "::ffff:198.51.100.0/120", reason: abuse }
"#;

/// A server that ends with the test.
struct Server {
    process: Child,
    address: SocketAddr,
    policy: PathBuf,
}

impl Server {
    fn start() -> Server {
        Server::start_at("127.0.0.1:0")
    }

    fn start_at(listen: &str) -> Server {
        let name = format!("http-{}-{:?}.yaml", std::process::id(), std::thread::current().id());
        let policy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&policy, POLICY).expect("a policy can be written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--http", listen, "--grpc", "off", "--resp", "off", "--admin", "off"])
            .arg("--policy")
            .arg(&policy)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map(|line| line.expect("it prints text"));
        let address = lines.find_map(|line| {
            let address = line.trim().strip_prefix("http ")?.trim().strip_prefix("http://")?;
            Some(address.parse().expect("an address"))
        });
        // What else it prints must not make it wait.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, address: address.expect("it says where it listens"), policy }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
        std::fs::remove_file(&self.policy).expect("it was written");
    }
}
