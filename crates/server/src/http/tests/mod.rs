//! Tests over in-memory connections, on tokio's paused clock: time moves only when every task waits.

mod forwarding;
mod guarding;
mod identifying;
mod queueing;
mod timeouts;
mod unread_responses;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::identity::Identity;
use crate::node::Node;
use crate::serve::Peer;
use crate::settings::Settings;

const LOCAL: Peer =
    Peer { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), on_loopback: true, alpn_http2: None };

/// A node with this policy.
fn node(policy: &str, settings: Settings) -> Arc<Node> {
    let settings = Settings { max_keys: 1_000, ..settings };
    let policy = Policy::parse(policy).expect("a valid policy");
    let identity = Identity::new(&settings).expect("good keys");
    Arc::new(Node::new(settings, policy.into(), identity).expect("a few limits"))
}

/// The other end of a connection.
struct Client(DuplexStream);

impl Client {
    fn connect(node: &Arc<Node>, peer: Peer) -> Client {
        let (client, server) = tokio::io::duplex(1 << 20);
        tokio::spawn(super::serve(Arc::clone(node), server, peer));
        Client(client)
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("the connection is open");
    }

    async fn post(&mut self, path: &str, headers: &str, body: &str) {
        let host = if headers.starts_with("Host:") { "" } else { "Host: localhost\r\n" };
        let length = body.len();
        self.send(&format!("POST {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n{body}"))
            .await;
    }

    /// Reads one response: head and body.
    async fn answer(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("an answer comes"));
        }
        let head = String::from_utf8(head).expect("text");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
        self.0.read_exact(&mut body).await.expect("the body comes");
        if head.contains("transfer-encoding: chunked") {
            while let Some(chunk) = self.chunk().await {
                body.extend(chunk);
            }
        }
        (head, String::from_utf8(body).expect("text"))
    }

    /// Reads a chunk of a body; `None` after the last.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.0.read_u8().await.expect("a chunk comes"));
        }
        let length = usize::from_str_radix(String::from_utf8(line).expect("text").trim_end(), 16);
        let length = length.expect("a number");
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).await.expect("all of it comes");
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// How long it takes until the server closes the connection, without sending anything more.
    async fn closed_after(&mut self) -> Duration {
        let started = tokio::time::Instant::now();
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.expect("it is closed");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
        started.elapsed()
    }
}

/// Lets other tasks run without letting time pass.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
