//! One gRPC connection, and the calls on it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{CatchUnwind, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::RecvStream;
use h2::server::{self, SendResponse};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::call::{GrpcCall, WaitingCall};
use super::keepalive::{self, KeepaliveAction};
use crate::bounds::{
    BODY_BYTES_MAX, DRAIN_TIMEOUT, HEAD_TIMEOUT, HTTP2_HEAD_BYTES_MAX, PENDING_RESETS_MAX, STREAMS_MAX,
};
use crate::node::Node;
use crate::serve::{CountedBytes, Peer, ResponseBacklog};

/// Answers calls until the connection ends. A client that does not speak HTTP/2 is disconnected.
pub(crate) async fn serve<I>(node: Arc<Node>, io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let window = u32::try_from(2 * BODY_BYTES_MAX).expect("the bound of a message fits into u32");
    let handshake = server::Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HTTP2_HEAD_BYTES_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        // A stream's window holds a whole message, the connection's several, so that clients need not wait.
        .initial_window_size(window)
        .initial_connection_window_size(8 * window)
        .handshake::<_, CountedBytes>(io);
    let Ok(Ok(mut wire)) = timeout(HEAD_TIMEOUT, handshake).await else { return };

    let is_proxy = node.is_loopback_or_proxy(peer.address);
    let backlog = ResponseBacklog::new(&node.backlog_budget().account(peer.address, is_proxy));
    let mut tasks = JoinSet::new();
    if let Some(pings) = wire.ping_pong() {
        let watch = keepalive::watch(Arc::clone(&node), pings, Arc::clone(&backlog));
        tasks.spawn(async { Ended::Keepalive(watch.await) });
    }
    let (accepted, waiting) = (Vec::new(), FuturesUnordered::new());
    let mut connection = Connection { node: &node, peer, backlog, wire, accepted, waiting, tasks };
    std::future::poll_fn(|cx| connection.poll(cx)).await;
}

type AcceptedCall = (Request<RecvStream>, SendResponse<CountedBytes>);

struct Connection<'n, I> {
    node: &'n Node,
    peer: Peer,
    backlog: Arc<ResponseBacklog>,
    wire: server::Connection<I, CountedBytes>,
    /// Accepted calls that are not answered yet.
    accepted: Vec<AcceptedCall>,
    /// Calls that wait for the store, in a wait queue, or for the rest of a body. They end with the connection.
    waiting: FuturesUnordered<CatchUnwind<AssertUnwindSafe<WaitingCall<'n>>>>,
    /// Timers of the connection.
    tasks: JoinSet<Ended>,
}

/// A task of the connection that has ended.
enum Ended {
    /// The connection must end.
    Keepalive(KeepaliveAction),
    /// The time for calls in flight after GOAWAY is over.
    Grace,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<'_, I> {
    /// Accepts and answers calls as far as possible; ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // `poll_accept` also sends responses, so accept all calls before answering any: their responses are then
            // sent together.
            match self.wire.poll_accept(cx) {
                Poll::Ready(Some(Ok(call))) => {
                    self.accepted.push(call);
                    continue;
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            if !self.accepted.is_empty() {
                self.answer_accepted(cx);
                continue;
            }
            // A call that panicked has ended too: dropping its future has reset its stream.
            if let Poll::Ready(Some(_ended)) = self.waiting.poll_next_unpin(cx) {
                continue;
            }
            match self.tasks.poll_join_next(cx) {
                Poll::Ready(Some(Err(_panicked))) => {}
                Poll::Ready(Some(Ok(Ended::Keepalive(KeepaliveAction::GoAway)))) => self.go_away(),
                Poll::Ready(Some(Ok(Ended::Keepalive(KeepaliveAction::Close) | Ended::Grace))) => {
                    return Poll::Ready(());
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn answer_accepted(&mut self, cx: &mut Context<'_>) {
        for (request, respond) in self.accepted.drain(..) {
            let backlog = Arc::clone(&self.backlog);
            let call = GrpcCall::open(request, respond, self.peer, backlog);
            if let Some(waiting) = call.and_then(|call| call.answer_now(self.node, cx)) {
                self.waiting.push(AssertUnwindSafe(waiting).catch_unwind());
            }
        }
    }

    /// Sends GOAWAY, and gives calls in flight [`DRAIN_TIMEOUT`] to end.
    fn go_away(&mut self) {
        self.wire.graceful_shutdown();
        self.tasks.spawn(async {
            sleep(DRAIN_TIMEOUT).await;
            Ended::Grace
        });
    }
}
