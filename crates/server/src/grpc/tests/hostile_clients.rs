//! What a client cannot make a connection hold or do.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::bounds::budget::ByteBudget;
use crate::bounds::{BACKLOG_PER_CONNECTION_BYTES_MAX, GRPC_LINGER};
use crate::grpc::http2::call_stream::{RequestStream, ResponseStream};
use crate::grpc::http2::session::{Http2Session, SharedSession};
use crate::grpc::transport::call::GrpcCall;
use crate::serve::ResponseBacklog;

const PEER: Peer = Peer {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    on_loopback: true,
    alpn_http2: None,
};

/// However a call waits, its future must not outlive its stream: a client can open and reset calls without end.
#[tokio::test(start_paused = true)]
async fn a_reset_ends_a_call_whatever_it_waits_for() {
    let node = node();
    let (whole, part) = (framed(1, 0, 1, &[0; 5]), framed(1, 0, 0, &[0; 2]));
    for (path, body, is_backlog_full) in [
        (HEALTH, &whole, true),
        (HEALTH, &part, false),
        (REFLECTION, &whole, true),
        (REFLECTION, &part, false),
        ("/envoy.service.auth.v3.Authorization/Check", &whole, true),
        ("/grpc.health.v1.Health/Watch", &whole, false),
    ] {
        let account = ByteBudget::of(1 << 22).account(PEER.address, true);
        let (backlog, bodies) = (ResponseBacklog::new(&account), Arc::new(account));
        let unread = vec![0; if is_backlog_full { BACKLOG_PER_CONNECTION_BYTES_MAX } else { 0 }];
        let _unread = backlog.count_until_sent(unread.into());
        let session = SharedSession::new(Http2Session::new(Arc::clone(&backlog), true));
        let (mut calls, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        session.lock().receive(&[&greeting()[PREFACE.len()..], &framed_head(1, path), body].concat());
        session.lock().take_opened(&mut calls);
        let (id, head) = calls.pop().expect("it was opened");
        let (request, respond) = (RequestStream::new(&session, id), ResponseStream::new(&session, id));
        let call = GrpcCall::open(head, request, respond, PEER, &backlog, &bodies).expect("it is sound");
        let mut waiting = call.answer_now(&node, &mut cx).expect("it waits");
        assert!(waiting.as_mut().poll(&mut cx).is_pending(), "{path}: it waits");
        session.lock().receive(&framed(1, 3, 0, &[0, 0, 0, 8]));
        assert!(waiting.as_mut().poll(&mut cx).is_ready(), "{path}: its client is gone");
    }
}

/// The start of a message of 60,000 bytes.
fn half_a_message() -> Bytes {
    [&[0, 0, 0, 0xea, 0x60][..], &[0; 30_000]].concat().into()
}

#[tokio::test(start_paused = true)]
async fn unfinished_messages_share_a_budget() {
    for path in [REFLECTION, HEALTH] {
        let mut node = node();
        Arc::get_mut(&mut node).expect("nobody else has it").set_body_budget(ByteBudget::of(64 * 1_024));
        let (_served, client) = serve(&node);
        let (mut send, _connection) = connect(client).await;
        let (mut first, mut streams) = (None, Vec::new());
        for _ in 0..2 {
            let (response, mut stream) = call(&mut send, path, None).await;
            stream.send_data(half_a_message(), false).expect("it is open");
            streams.push(stream);
            match first {
                None => first = Some(response),
                Some(_) => assert_eq!(status_of(response).await, "8", "{path}"),
            }
            sleep(Duration::from_millis(1)).await;
        }
        // The first had its share, and gives it back with its end.
        assert_eq!(status_of(first.expect("it was sent")).await, "4", "{path}");
        let (response, _stream) = call(&mut send, HEALTH, asking_for_health()).await;
        assert_eq!(status_of(response).await, "0");
        assert!(node.body_budget().account(PEER.address, true).share().grow_to(48 * 1_024), "{path}");
    }
}

async fn status_of(response: h2::client::ResponseFuture) -> String {
    let (head, mut body) = response.await.expect("it is answered").into_parts();
    while let Some(piece) = body.data().await {
        piece.expect("it comes");
    }
    let trailers = body.trailers().await.expect("it ends well").unwrap_or(head.headers);
    trailers["grpc-status"].to_str().expect("a number").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_reflection_request_that_has_begun_must_come_in_time() {
    let (_served, client) = serve(&node());
    let (mut send, _connection) = connect(client).await;
    let (response, mut stream) = call(&mut send, REFLECTION, None).await;
    sleep(3 * BODY_TIMEOUT).await;
    let began = tokio::time::Instant::now();
    stream.send_data(half_a_message(), false).expect("it is open");
    assert_eq!(status_of(response).await, "4");
    assert_eq!(began.elapsed(), BODY_TIMEOUT);
}

/// A client that sends without a pause, and reads everything.
struct Flood {
    bytes: Vec<u8>,
    /// What comes with the next read.
    next: Box<dyn FnMut() -> Vec<u8> + Send>,
    reads: Arc<AtomicUsize>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Flood {
    fn new(next: impl FnMut() -> Vec<u8> + Send + 'static) -> Flood {
        let (reads, written) = Default::default();
        Flood { bytes: greeting(), next: Box::new(next), reads, written }
    }
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        free: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        assert!(self.reads.fetch_add(1, Ordering::Relaxed) < 1_000, "nobody else has a turn");
        if self.bytes.is_empty() {
            self.bytes = (self.next)();
        }
        let read = self.bytes.len().min(free.remaining());
        free.put_slice(&self.bytes[..read]);
        self.bytes.drain(..read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.written.lock().expect("no panic").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_leaves_turns_to_others() {
    let (node, mut ids) = (node(), (0..).map(|n| 2 * n + 1));
    let flood = Flood::new(move || ids.by_ref().take(100).flat_map(framed_call).collect());
    let (reads, written) = (Arc::clone(&flood.reads), Arc::clone(&flood.written));
    let mut served = Box::pin(connection::serve(Arc::clone(&node), flood, PEER));
    for turn in 1..=3 {
        assert!(futures_util::poll!(served.as_mut()).is_pending());
        let reads = reads.load(Ordering::Relaxed);
        assert!((turn..=5 * turn).contains(&reads), "{reads} after {turn} turns");
    }
    node.lifecycle().close();
    assert!(futures_util::poll!(served.as_mut()).is_pending());
    let go_away = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
    let written = written.lock().expect("no panic");
    assert!(written.windows(go_away.len()).any(|bytes| bytes == go_away), "its timers go on");
}

/// Calls that wait are bounded, even if the client resets them before the server looks at them again. An assertion in
/// the connection counts them.
#[tokio::test(start_paused = true)]
async fn calls_that_are_opened_and_reset_do_not_pile_up() {
    let round = |n: u32| (n * STREAMS_MAX..(n + 1) * STREAMS_MAX).map(|n| 2 * n + 1);
    let mut next = 0_u32;
    let flood = Flood::new(move || {
        let last = next.checked_sub(1).map(round).into_iter().flatten();
        let resets = last.flat_map(|id| framed(id, 3, 0, &[0, 0, 0, 8]));
        let calls = round(next).flat_map(|id| framed_head(id, REFLECTION));
        next += 1;
        resets.chain(calls).collect()
    });
    let reads = Arc::clone(&flood.reads);
    let mut served = Box::pin(connection::serve(node(), flood, PEER));
    while reads.load(Ordering::Relaxed) < 50 {
        assert!(futures_util::poll!(served.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
}

/// A socket that is closed with unread input is reset, and the client may lose the last responses.
#[tokio::test(start_paused = true)]
async fn what_a_client_sends_after_the_end_is_discarded() {
    let node = node();
    let (served, mut client) = serve(&node);
    client.write_all(&[greeting(), framed_call(1)].concat()).await.expect("it is open");
    node.lifecycle().close();
    let mut received = Vec::new();
    while !received.windows(8).any(|bytes| bytes == b"tg-leave") {
        client.read_buf(&mut received).await.expect("it is open");
    }
    client.write_all(&framed(0, 6, 1, b"tg-leave")).await.expect("it is open");
    client.read_to_end(&mut received).await.expect("the server ends it");
    let began = tokio::time::Instant::now();
    client.write_all(&[0; 200_000]).await.expect("it is still read");
    served.await.expect("it ends");
    assert_eq!(began.elapsed(), GRPC_LINGER);
}
