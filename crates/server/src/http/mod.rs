//! The HTTP listener: decisions as JSON, and forward-auth for proxies.
//!
//! [`connection`] detects HTTP/1.1 or HTTP/2. HTTP/1.1 starts in the express lane ([`express`]), which answers the
//! most frequent kinds of request itself and hands the connection to hyper at the first other request. hyper calls
//! [`endpoints::route`], which finds the endpoint, decides, and returns a [`response`].
//!
//! A connection is one task of its worker. A second small task watches for idleness and for the shutdown of the
//! server, so that the first checks neither on each request.

pub(crate) mod body;
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
use crate::serve::{Peer, ResponseBacklog};
use connection::activity::Activity;
use connection::hyper_io::HyperIo;
pub(crate) use endpoints::reference_page::reference_page;

/// State shared by all requests of a connection.
#[derive(Debug)]
struct Context {
    node: Arc<Node>,
    peer: Peer,
    activity: Activity,
    /// The part of the body budget that this client's address may use.
    bodies: BudgetAccount,
    backlog: Arc<ResponseBacklog>,
}

impl Context {
    fn new(node: Arc<Node>, peer: Peer) -> Context {
        let is_proxy = node.is_loopback_or_proxy(peer.address);
        let bodies = node.body_budget().account(peer.address, is_proxy);
        let backlog = ResponseBacklog::new(&node.backlog_budget().account(peer.address, is_proxy));
        Context { node, peer, activity: Activity::default(), bodies, backlog }
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
        let io = HyperIo::new(io, seen, Arc::clone(&context), false);
        return Box::pin(serve_http2(context, io)).await;
    }
    if let Some((io, seen)) = express::serve(&context, io, seen).await {
        let io = HyperIo::new(io, seen, Arc::clone(&context), true);
        Box::pin(serve_http1(context, io)).await;
    }
}

async fn serve_http1<I>(context: Arc<Context>, io: HyperIo<I>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&context);
    let service = service_fn(move |request| endpoints::route::answer(Arc::clone(&shared), request));
    let mut builder = http1::Builder::new();
    // `HyperIo` times request heads: hyper's own timer also runs while a connection is idle, and costs an
    // allocation per request. `endpoints::route` counts headers, so that too many get a problem body.
    builder.header_read_timeout(None).max_header_size(HEAD_BYTES_MAX).max_buf_size(2 * HEAD_BYTES_MAX);
    // Responses are small: copying one into the head's buffer costs less than a vectored write.
    builder.writev(false);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let _ended =
        connection::drive::drive(connection, |connection| connection.graceful_shutdown(), context, false)
            .await;
}

async fn serve_http2<I>(context: Arc<Context>, io: HyperIo<I>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&context);
    let service = service_fn(move |request| endpoints::route::answer(Arc::clone(&shared), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    builder.max_concurrent_streams(STREAMS_MAX).max_header_list_size(HTTP2_HEAD_BYTES_MAX);
    builder.max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    // The flow-control window is how much unread data a client can make the server hold.
    let window = u32::try_from(BODY_BYTES_MAX).expect("the bound of a body fits into u32");
    builder.initial_stream_window_size(window).initial_connection_window_size(4 * window);
    builder.max_send_buf_size(BATCH_PIECE_BYTES);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let _ended =
        connection::drive::drive(connection, |connection| connection.graceful_shutdown(), context, true)
            .await;
}

#[cfg(test)]
mod tests;
