//! The HTTP listener of the real binary, on a real socket.

pub(crate) mod client;
mod decisions;
mod fields;
mod hostile;
mod http2;
mod statuses;

use std::net::SocketAddr;

use client::Client;

use crate::support::home::Home;
use crate::support::server;

/// A limit for each test, so that they can share a policy.
const POLICY: &str = r#"
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: per-client, key: [client], sustained: { rate: 2, window: minute }, headers: [ietf, ratelimit-03, x-ratelimit] }
  - { name: per-domain, key: [domain], sustained: { rate: 2, window: minute }, headers: [ratelimit-07] }
  - { name: quiet, key: [plan], sustained: { rate: 1, window: hour }, response_headers: false }
  - { name: soft, key: ["header:x-soft"], sustained: { rate: 1, window: hour }, strategy: degrade, degrade: { tag: slow } }
  - { name: per-address, match: { path: /addresses }, key: [ip], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: line, key: ["header:x-line"], sustained: { rate: 1, window: 100ms }, strategy: queue, queue: { max_depth: 1, max_wait: 5s } }
block:
  - { ip: "::ffff:198.51.100.0/120", reason: abuse }
"#;

/// A server that ends with the test.
struct Server {
    _running: server::Server,
    _home: Home,
    address: SocketAddr,
}

impl Server {
    fn start() -> Server {
        Server::start_at("127.0.0.1:0")
    }

    fn start_at(listen: &str) -> Server {
        let home = Home::new();
        let mut command = server::listening_only("http", listen);
        command.args(["--policy", &home.write("policy.yaml", POLICY)]);
        let running = server::Server::start_with(command);
        Server { address: running.socket("http"), _running: running, _home: home }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}
