//! A connection over time, on tokio's paused clock.

mod hostile_clients;
mod same_answers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use tidegate::Clock;
use tidegate::engine::trust::{AccountFacts, TrustOptions};
use tidegate_policy::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::http2::PREFACE;
use super::http2::hpack::encoder::put_field;
use super::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use super::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::proto::grpc::health::v1::health_check_response::ServingStatus;
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};
use super::rls;
use super::transport::{connection, frame};
use crate::bounds::{
    BODY_TIMEOUT, CLIENT_READ_TIMEOUT, DRAIN_TIMEOUT, HEAD_TIMEOUT, PING_INTERVAL, PING_TIMEOUT, STREAMS_MAX,
};
use crate::identity::Identity;
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::observe::{Origin, Protocol};
use crate::serve::Peer;
use crate::settings::{Settings, TrustSettings};

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

fn node() -> Arc<Node> {
    let settings = Settings { max_keys: 1_000, ..Settings::default() };
    let policy = Policy::parse("version: 1\nlimits: []\n").expect("a policy");
    let identity = Identity::new(&settings).expect("it needs no files");
    let node = Node::new(settings, policy.into(), identity).expect("it is small");
    node.lifecycle().enter(Phase::Serving);
    Arc::new(node)
}

/// A connection to a node: the server's end and the client's.
fn serve(node: &Arc<Node>) -> (JoinHandle<()>, DuplexStream) {
    let (client, server) = tokio::io::duplex(64 * 1_024);
    let peer = Peer { address: [127, 0, 0, 1].into(), on_loopback: true, alpn_http2: None };
    (tokio::spawn(connection::serve(Arc::clone(node), server, peer)), client)
}

async fn connect(io: DuplexStream) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let (send, connection) = h2::client::handshake(io).await.expect("it speaks HTTP/2");
    (send, tokio::spawn(connection))
}

/// Opens a call and returns the pending response. Without a body, the request stays open.
async fn call(
    send: &mut SendRequest<Bytes>,
    path: &str,
    body: Option<Bytes>,
) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
    let request = Request::post(format!("http://tidegate{path}")).header("content-type", "application/grpc");
    *send = send.clone().ready().await.expect("it is open");
    let request = request.body(()).expect("sound");
    let (response, mut stream) = send.send_request(request, false).expect("it is open");
    if let Some(body) = body {
        stream.send_data(body, true).expect("it is open");
    }
    (response, stream)
}

fn asking_for_health() -> Option<Bytes> {
    Some(frame::encode(&HealthCheckRequest::default()))
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_hung_up_on() {
    let (served, mut client) = serve(&node());
    let began = tokio::time::Instant::now();
    served.await.expect("it ends");
    assert_eq!(began.elapsed(), HEAD_TIMEOUT);
    let mut said = Vec::new();
    client.read_to_end(&mut said).await.expect("the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn who_sends_half_a_greeting_is_hung_up_on() {
    let (served, mut client) = serve(&node());
    client.write_all(b"PRI * HTTP/2.0\r\n").await.expect("it is open");
    let began = tokio::time::Instant::now();
    served.await.expect("it ends");
    assert_eq!(began.elapsed(), HEAD_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_client_that_is_alive_stays_until_the_connection_is_old() {
    let (served, client) = serve(&node());
    let (_send, connection) = connect(client).await;
    let began = tokio::time::Instant::now();
    connection.await.expect("it ends").expect("without an error");
    let age = began.elapsed();
    assert!((Duration::from_secs(269)..=Duration::from_secs(331)).contains(&age), "{age:?}");
    served.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_no_ping_is_hung_up_on() {
    let (served, client) = serve(&node());
    // The handshake is done, but from here on the client's connection is not polled.
    let (_send, _connection) = h2::client::handshake::<_>(client).await.expect("it speaks HTTP/2");
    let began = tokio::time::Instant::now();
    served.await.expect("it ends");
    assert_eq!(began.elapsed(), PING_INTERVAL + PING_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let (_served, client) = serve(&node());
    let (mut send, _connection) = connect(client).await;
    let began = tokio::time::Instant::now();
    let (response, _stream) = call(&mut send, HEALTH, None).await;
    let response = response.await.expect("it is answered");
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!(began.elapsed(), BODY_TIMEOUT);
    let (response, _stream) = call(&mut send, HEALTH, asking_for_health()).await;
    assert!(response.await.is_ok_and(|response| response.headers().get("grpc-status").is_none()));
}

#[tokio::test(start_paused = true)]
async fn before_the_server_ends_clients_are_told() {
    let node = node();
    let (served, client) = serve(&node);
    let (mut send, connection) = connect(client).await;
    let (response, _stream) = call(&mut send, "/grpc.health.v1.Health/Watch", asking_for_health()).await;
    let mut body = response.await.expect("it is answered").into_body();
    for wanted in [ServingStatus::Serving, ServingStatus::NotServing] {
        let status = body.data().await.expect("it goes on").expect("it is sound");
        let status = HealthCheckResponse::decode(&status[5..]).expect("it can be read");
        assert_eq!(status.status(), wanted);
        node.lifecycle().enter(Phase::Draining);
        node.lifecycle().close();
    }
    let trailers = body.trailers().await.expect("it ends well").expect("with trailers");
    assert_eq!(trailers["grpc-status"], "14");
    connection.await.expect("it ends").expect("without an error");
    served.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_does_not_keep_the_server() {
    let node = node();
    let (served, client) = serve(&node);
    let (mut send, _connection) = connect(client).await;
    let (_response, _stream) = call(&mut send, REFLECTION, None).await;
    sleep(Duration::from_millis(1)).await;
    node.lifecycle().close();
    let began = tokio::time::Instant::now();
    served.await.expect("it ends");
    assert_eq!(began.elapsed(), DRAIN_TIMEOUT);
}

/// A frame of a client.
fn framed(id: u32, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&[0, length[0], length[1], kind, flags], &id.to_be_bytes()[..], payload].concat()
}

/// The start of a call: its headers.
fn framed_head(id: u32, path: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in
        [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")]
    {
        put_field(&mut head, name, value);
    }
    framed(id, 1, 4, &head)
}

/// A health check in frames.
fn framed_call(id: u32) -> Vec<u8> {
    [framed_head(id, HEALTH), framed(id, 0, 1, &[0; 5])].concat()
}

/// What a client sends before its first call.
fn greeting() -> Vec<u8> {
    [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()
}

#[tokio::test(start_paused = true)]
async fn from_a_client_that_does_not_read_no_more_is_read() {
    let (served, mut client) = serve(&node());
    client.write_all(&greeting()).await.expect("it is open");
    let mut calls = 0;
    let began = tokio::time::Instant::now();
    while let Ok(Ok(())) =
        timeout(Duration::from_secs(1), client.write_all(&framed_call(2 * calls + 1))).await
    {
        calls += 1;
        assert!(calls < 20_000, "it reads on");
    }
    served.await.expect("it ends");
    let ended = began.elapsed();
    assert!((CLIENT_READ_TIMEOUT..=2 * CLIENT_READ_TIMEOUT).contains(&ended), "{ended:?}");
}

/// Two ends that both write before they read must not wait for each other.
#[tokio::test(start_paused = true)]
async fn a_client_may_write_all_its_calls_before_it_reads() {
    let (mut client, server) = tokio::io::duplex(1_024);
    let peer = Peer { address: [127, 0, 0, 1].into(), on_loopback: true, alpn_http2: None };
    let _served = tokio::spawn(connection::serve(node(), server, peer));
    let calls = (0..STREAMS_MAX).flat_map(|n| framed_call(2 * n + 1));
    let all: Vec<u8> = greeting().into_iter().chain(calls).collect();
    client.write_all(&all).await.expect("it is open");
    let mut received = Vec::new();
    while received.windows(11).filter(|bytes| bytes == b"grpc-status").count() < STREAMS_MAX as usize {
        let read = timeout(Duration::from_secs(1), client.read_buf(&mut received)).await;
        assert!(matches!(read, Ok(Ok(1..))), "{read:?}");
    }
}

#[test]
fn the_rate_limit_service_applies_the_trust_of_a_user() {
    let trust = Some(TrustSettings { file: None, options: TrustOptions::default() });
    let settings = Settings { trust, max_keys: 1_000, ..Settings::default() };
    let policy = "version: 1\nadaptive: { trust: true }\nlimits: [{ name: per-user, key: [user], \
                  sustained: { rate: 5, window: hour } }]";
    let identity = Identity::new(&settings).expect("it needs no files");
    let node = Node::new(settings, Policy::parse(policy).expect("a policy").into(), identity).expect("small");
    let book = node.limiter().trust_book().expect("trust is computed");
    let verified = AccountFacts { email_verified: Some(true), ..AccountFacts::default() };
    book.set_facts("ann", verified, node.clock().wall());
    let admitted = |user: &str, descriptors: usize| {
        let entry = Entry { key: "user_id".into(), value: user.into() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
        let (domain, descriptors) = ("d".into(), vec![descriptor; descriptors]);
        let asked = RateLimitRequest { domain, descriptors, ..RateLimitRequest::default() };
        let allows = |_: &usize| {
            let origin = Origin { protocol: Protocol::Rls, traceparent: None };
            let peer = Peer { address: [127, 0, 0, 1].into(), on_loopback: true, alpn_http2: None };
            let answer = rls::should_rate_limit(&node, origin, peer, asked.encode_to_vec().into());
            let answer = answer.now_or_never().expect("memory answers at once").expect("a sound request");
            RateLimitResponse::decode(&answer[5..]).expect("a response").overall_code == 1
        };
        (0..10).filter(allows).count()
    };
    assert_eq!((admitted("ann", 1), admitted("bob", 1)), (6, 5), "one descriptor");
    book.set_facts("eve", verified, node.clock().wall());
    assert_eq!((admitted("eve", 2), admitted("dan", 2)), (6, 5), "several are one request");
}
