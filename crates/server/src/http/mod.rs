//! The HTTP listener: decisions as JSON, and forward-auth for proxies.
//!
//! It stands on hyper itself, without a router, and in front of hyper is a lane for the plainest
//! requests ([`express`]). One connection is one task of its worker; a second, small one watches for silence and for
//! the end of the server, so that the first looks at neither while it answers.

mod body;
mod connection;
mod endpoints;
mod express;
mod response;

use std::sync::Arc;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::bounds::budget::BudgetAccount;
use crate::bounds::{
    BATCH_PIECE_BYTES, BODY_BYTES_MAX, HEAD_BYTES_MAX, HTTP2_HEAD_BYTES_MAX, PENDING_RESETS_MAX,
    PING_INTERVAL, PING_TIMEOUT, STREAMS_MAX,
};
use crate::node::Node;
use crate::serve::{Outbox, Peer};
use connection::activity::Activity;
use connection::patient::SniffedConnection;
pub(crate) use endpoints::page::page;

/// What all requests of a connection share.
#[derive(Debug)]
struct Context {
    node: Arc<Node>,
    peer: Peer,
    activity: Activity,
    /// What it may take of the room for bodies.
    bodies: BudgetAccount,
    outbox: Arc<Outbox>,
}

impl Context {
    fn new(node: Arc<Node>, peer: Peer) -> Context {
        let many = node.stands_for_many(peer.address);
        let bodies = node.bodies().account(peer.address, many);
        let outbox = Outbox::new(&node.answers().account(peer.address, many));
        Context { node, peer, activity: Activity::default(), bodies, outbox }
    }
}

/// Answers one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, mut io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (is_http2, seen) = match peer.alpn_http2 {
        Some(agreed) => (agreed, Bytes::new()),
        None => match connection::detect::first_bytes(&mut io, node.lifecycle()).await {
            Some(detected) => detected,
            None => return,
        },
    };
    let context = Arc::new(Context::new(node, peer));
    if is_http2 {
        let io = SniffedConnection::new(io, seen, Arc::clone(&context), false);
        return Box::pin(serve_http2(context, io)).await;
    }
    if let Some((io, seen)) = express::serve(&context, io, seen).await {
        let io = SniffedConnection::new(io, seen, Arc::clone(&context), true);
        Box::pin(serve_http1(context, io)).await;
    }
}

async fn serve_http1<I>(context: Arc<Context>, io: SniffedConnection<I>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&context);
    let service = service_fn(move |request| endpoints::route::answer(Arc::clone(&shared), request));
    let mut builder = http1::Builder::new();
    // `SniffedConnection` times heads: hyper's own timer would also run while a connection is idle, and costs an
    // allocation for each request. Headers are counted where they can be answered for.
    builder.header_read_timeout(None).max_header_size(HEAD_BYTES_MAX).max_buf_size(2 * HEAD_BYTES_MAX);
    // Answers are small: copying one costs less than a second buffer for the kernel.
    builder.writev(false);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let _ended =
        connection::drive::drive(connection, |connection| connection.graceful_shutdown(), context, false)
            .await;
}

async fn serve_http2<I>(context: Arc<Context>, io: SniffedConnection<I>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&context);
    let service = service_fn(move |request| endpoints::route::answer(Arc::clone(&shared), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    builder.max_concurrent_streams(STREAMS_MAX).max_header_list_size(HTTP2_HEAD_BYTES_MAX);
    builder.max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    // What a client may send before somebody reads it is what it can make the server hold.
    let window = u32::try_from(BODY_BYTES_MAX).expect("some kilobytes");
    builder.initial_stream_window_size(window).initial_connection_window_size(4 * window);
    builder.max_send_buf_size(BATCH_PIECE_BYTES);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let _ended =
        connection::drive::drive(connection, |connection| connection.graceful_shutdown(), context, true)
            .await;
}

#[cfg(test)]
mod tests;
