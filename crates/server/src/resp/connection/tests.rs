//! Connections that stall, wait and end, on tokio's paused clock.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate::engine::trust::{AccountFacts, TrustOptions};
use tidegate_policy::Policy;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;
use crate::identity::Identity;
use crate::node::lifecycle::Phase;
use crate::settings::{Settings, TrustSettings};

/// A client, the task that serves it, and the node. The connection buffers `capacity` bytes each way.
fn connected(capacity: usize) -> (DuplexStream, JoinHandle<()>, Arc<Node>) {
    let node = node(None);
    let (client, server) = duplex(capacity);
    let served = tokio::spawn(serve(Arc::clone(&node), server, PEER));
    (client, served, node)
}

const PEER: Peer =
    Peer { address: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), on_loopback: true, alpn_http2: None };

fn node(password: Option<&str>) -> Arc<Node> {
    let resp_password = password.map(Into::into);
    let settings = Settings { max_keys: 100, resp_password, ..Settings::default() };
    let identity = Identity::new(&settings).expect("nothing is to be verified");
    let policy = Policy::parse("version: 1\nlimits: []\n").expect("a policy");
    Arc::new(Node::new(settings, policy.into(), identity).expect("no limits fit"))
}

async fn pong(client: &mut DuplexStream) {
    client.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays() {
    let (mut client, served, _node) = connected(1_024);
    pong(&mut client).await;
    tokio::time::advance(Duration::from_secs(100_000)).await;
    pong(&mut client).await;
    assert!(!served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn half_a_command_is_not_waited_for_without_end() {
    let (mut client, served, _node) = connected(1_024);
    for piece in [&b"PING\r\n*1\r\n"[..], b"$4\r\n", b"PI"] {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
    }
    // Sending a byte now and then is not enough: the command must be completed.
    served.await.unwrap();
    let mut said = Vec::new();
    client.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"+PONG\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_not_kept_without_end() {
    let (mut client, served, node) = connected(1_024);
    client.write_all(b"MULTI\r\nPING\r\n").await.unwrap();
    tokio::time::sleep(IDLE_TIMEOUT * 2).await;
    assert!(served.is_finished(), "nobody has sent EXEC");

    // One that was completed leaves nothing behind.
    let (mut client, server) = duplex(1_024);
    let served = tokio::spawn(serve(node, server, PEER));
    client.write_all(b"MULTI\r\nPING\r\nEXEC\r\n").await.unwrap();
    tokio::time::sleep(IDLE_TIMEOUT * 2).await;
    assert!(!served.is_finished());
    let mut said = [0; 5 + 9 + 11];
    client.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[tokio::test(start_paused = true)]
async fn transactions_count_as_memory_of_their_address() {
    let (mut client, served, node) = connected(1_024);
    let mut others = node.backlog_budget().account(PEER.address, true).share();
    others.force_to(crate::bounds::BACKLOG_BYTES_MAX);
    let echo = format!("ECHO {}\r\n", "x".repeat(1_000));
    // The server may close before all is sent.
    _ = client.write_all(format!("MULTI\r\n{}", echo.repeat(20)).as_bytes()).await;
    timeout(Duration::from_secs(1), served).await.expect("at once").unwrap();
}

#[tokio::test(start_paused = true)]
async fn whole_commands_start_the_time_anew() {
    let (mut client, served, _node) = connected(1_024);
    for _ in 0..10 {
        client.write_all(b"PING\r\n*1\r\n").await.unwrap();
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        client.write_all(b"$4\r\nPING\r\n").await.unwrap();
        let mut answers = [0; 14];
        client.read_exact(&mut answers).await.unwrap();
        assert_eq!(&answers, b"+PONG\r\n+PONG\r\n");
    }
    assert!(!served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_takes_end_the_connection() {
    let (mut client, served, _node) = connected(64);
    // More than the connection buffers: it can be sent only while the server reads.
    let sent = client.write_all(&b"PING\r\n".repeat(100)).await;
    assert!(sent.is_err(), "the server has closed");
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_wait_until_they_are_taken() {
    let (client, _served, _node) = connected(64);
    let (mut reader, mut writer) = tokio::io::split(client);
    let sending =
        tokio::spawn(async move { writer.write_all(&b"PING\r\n".repeat(5_000)).await.map(|()| writer) });
    for _ in 0..5_000 {
        let mut answer = [0; 7];
        reader.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }
    sending.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn draining_ends_a_connection_once_it_is_answered() {
    let (mut client, served, node) = connected(1_024);
    pong(&mut client).await;
    client.write_all(b"PING\r\nECHO last\r\n*1\r\n").await.unwrap();
    node.lifecycle().enter(Phase::Draining);
    node.lifecycle().close();
    let began = tokio::time::Instant::now();
    let mut said = Vec::new();
    client.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"+PONG\r\n$4\r\nlast\r\n");
    assert_eq!(began.elapsed(), Duration::ZERO, "what is incomplete is not waited for");
    drop(client);
    served.await.unwrap();
}

/// A client that sends one command and disconnects before the reply.
struct Gone(bool);

impl AsyncRead for Gone {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.0, true) {
            buffer.put_slice(b"ECHO secret\r\n");
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_the_answers_of_another() {
    let (mut client, _served, node) = connected(1_024);
    serve(node, Gone(false), PEER).await;
    pong(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_password_nobody_stays() {
    let node = node(Some("open sesame"));
    for (said, stays) in [("", false), ("AUTH wrong\r\n", false), ("AUTH \"open sesame\"\r\n", true)] {
        let (mut client, server) = duplex(1_024);
        let served = tokio::spawn(serve(Arc::clone(&node), server, PEER));
        client.write_all(said.as_bytes()).await.unwrap();
        tokio::time::sleep(RESP_AUTH_TIMEOUT * 2).await;
        assert_eq!(served.is_finished(), !stays, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_room_who_does_not_read_is_cut_off() {
    let (mut client, served, node) = connected(1_024);
    let mut others = node.backlog_budget().account(PEER.address, true).share();
    others.force_to(crate::bounds::BACKLOG_BYTES_MAX);
    pong(&mut client).await;
    // The server may close before all is sent.
    _ = client.write_all(&b"PING\r\n".repeat(10_000)).await;
    timeout(Duration::from_secs(1), served).await.expect("at once").unwrap();
    let (mut other, _served) = {
        let (client, server) = duplex(1_024);
        (client, tokio::spawn(serve(Arc::clone(&node), server, PEER)))
    };
    pong(&mut other).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_has_the_computed_trust_of_its_user() {
    let trust = Some(TrustSettings { file: None, options: TrustOptions::default() });
    let settings = Settings { trust, max_keys: 100, ..Settings::default() };
    let policy = "version: 1\nadaptive: { trust: true }\nlimits: [{ name: per-user, key: [user], \
                  sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }]";
    let identity = Identity::new(&settings).expect("nothing is to be verified");
    let node = Node::new(settings, Policy::parse(policy).expect("a policy").into(), identity).expect("small");
    let verified = AccountFacts { email_verified: Some(true), ..AccountFacts::default() };
    node.limiter().trust_book().expect("it is computed").replace_listed([("ann".into(), verified)].into());
    let (mut client, server) = duplex(1_024);
    let _served = tokio::spawn(serve(Arc::new(node), server, PEER));
    for (command, limit) in [("user ann", 12), ("user bob", 10), ("user ann trust 0.5", 15)] {
        client.write_all(format!("TG.CHECK {command}\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 1_024];
        let length = client.read(&mut answer).await.unwrap();
        let text = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(text.starts_with(&format!("*7\r\n:1\r\n:{limit}\r\n")), "{command}: {text}");
    }
}
