//! One gRPC connection, and the calls on it.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, CatchUnwind, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::call::{GrpcCall, WaitingCall};
use super::keepalive::{self, KeepaliveAction};
use super::wire::Wire;
use crate::bounds::budget::BudgetAccount;
use crate::bounds::{DRAIN_TIMEOUT, GRPC_LINGER, GRPC_WAITING_MAX, HEAD_TIMEOUT, STREAMS_MAX};
use crate::grpc::http2::PREFACE;
use crate::grpc::http2::call_stream::{RequestStream, ResponseStream};
use crate::grpc::http2::head::CallHead;
use crate::grpc::http2::session::{Http2Session, SharedSession};
use crate::node::Node;
use crate::serve::{Peer, ResponseBacklog};

/// How often a connection is read before other connections, its timers and its waiting calls have their turn.
const READS_PER_POLL: usize = 4;

/// A connection keeps the memory for so many calls of one read.
const ACCEPTED_KEPT: usize = 32;

/// Answers calls until the connection ends. A client that does not speak HTTP/2 is disconnected.
pub(crate) async fn serve<I>(node: Arc<Node>, mut io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(Ok(())) = timeout(HEAD_TIMEOUT, greet(&mut io)).await else { return };
    let is_proxy = node.is_loopback_or_proxy(peer.address);
    let backlog = ResponseBacklog::new(&node.backlog_budget().account(peer.address, is_proxy));
    let bodies = Arc::new(node.body_budget().account(peer.address, is_proxy));
    let session = SharedSession::new(Http2Session::new(Arc::clone(&backlog), is_proxy));
    let timers = FuturesUnordered::new();
    let watch = keepalive::watch(&node, session.clone(), Arc::clone(&backlog));
    timers.push(watch.map(Ended::Keepalive).boxed());
    let wire = Wire::new(io);
    let (accepted, waiting) = (Vec::new(), FuturesUnordered::new());
    let mut connection =
        Connection { node: &node, peer, backlog, bodies, session, wire, accepted, waiting, timers };
    std::future::poll_fn(|cx| connection.poll(cx)).await;
    let Connection { session, mut wire, waiting, timers, .. } = connection;
    let is_over = session.lock().is_over();
    drop((waiting, timers));
    if is_over {
        // Closing a socket with unread input resets it, and the client could lose the last frames.
        let _passed = timeout(GRPC_LINGER, wire.discard_input()).await;
    }
}

/// Receives the client's preface.
async fn greet(io: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    io.read_exact(&mut preface).await?;
    if preface == *PREFACE { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

struct Connection<'n, I> {
    node: &'n Node,
    peer: Peer,
    backlog: Arc<ResponseBacklog>,
    bodies: Arc<BudgetAccount>,
    session: SharedSession,
    wire: Wire<I>,
    /// Calls that are opened and not answered yet.
    accepted: Vec<(u32, CallHead)>,
    /// Calls that wait for the store, in a wait queue, or for the rest of a body. They end with the connection.
    waiting: FuturesUnordered<CatchUnwind<AssertUnwindSafe<WaitingCall<'n>>>>,
    /// Timers of the connection.
    timers: FuturesUnordered<BoxFuture<'n, Ended>>,
}

/// A timer of the connection that has ended.
enum Ended {
    /// The connection must end.
    Keepalive(KeepaliveAction),
    /// The time for calls in flight after GOAWAY is over.
    Grace,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<'_, I> {
    /// Receives and answers calls as far as possible; ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_timers(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut reads = 0;
        loop {
            let Ok(is_sent) = self.wire.send(cx, &self.session, &self.backlog) else {
                return Poll::Ready(());
            };
            let is_over = self.session.lock().is_over();
            if is_over && is_sent {
                return self.wire.shut_down(cx);
            }
            // From a client that leaves too much unread, nothing more is read.
            let has_room = is_sent || (!self.backlog.is_full() && self.backlog.check_budget().is_ok());
            let is_crowded = self.waiting.len() >= GRPC_WAITING_MAX;
            if has_room && !is_over && !is_crowded && reads < READS_PER_POLL {
                match self.wire.receive(cx, &self.session, &mut self.accepted) {
                    Poll::Ready(Ok(())) => {
                        reads += 1;
                        self.answer_accepted(cx);
                        continue;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            // A call that panicked has ended too: dropping its future has reset its stream.
            while let Poll::Ready(Some(_ended)) = self.waiting.poll_next_unpin(cx) {}
            if is_crowded && self.waiting.len() < GRPC_WAITING_MAX {
                continue;
            }
            // What calls have written is sent together.
            let session = self.session.lock();
            if !is_sent || !(session.has_output() || session.is_over()) {
                if reads == READS_PER_POLL {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
    }

    /// Handles timers that have passed; ready when the connection must end.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(Some(ended)) = self.timers.poll_next_unpin(cx) {
            match ended {
                Ended::Keepalive(KeepaliveAction::GoAway) => self.go_away(),
                Ended::Keepalive(KeepaliveAction::Close) | Ended::Grace => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    fn answer_accepted(&mut self, cx: &mut Context<'_>) {
        for (id, head) in self.accepted.drain(..) {
            let request = RequestStream::new(&self.session, id);
            let respond = ResponseStream::new(&self.session, id);
            let call = GrpcCall::open(head, request, respond, self.peer, &self.backlog, &self.bodies);
            if let Some(waiting) = call.and_then(|call| call.answer_now(self.node, cx)) {
                self.waiting.push(AssertUnwindSafe(waiting).catch_unwind());
            }
        }
        debug_assert!(
            self.waiting.len() < GRPC_WAITING_MAX + STREAMS_MAX as usize,
            "calls that wait are bounded"
        );
        self.accepted.shrink_to(ACCEPTED_KEPT);
    }

    /// Sends GOAWAY, and gives calls in flight [`DRAIN_TIMEOUT`] to end.
    fn go_away(&mut self) {
        self.session.lock().leave();
        self.timers.push(sleep(DRAIN_TIMEOUT).map(|()| Ended::Grace).boxed());
    }
}
