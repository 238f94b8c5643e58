//! The admin listener: health, readiness, metrics, the busiest keys, trust scores and burst penalties, over HTTP/1.1.
//!
//! `body` is what a response sends, `guard` checks the `Host` and the token of a request, `endpoints` finds the page,
//! and `health`, `hot_keys`, `trust` and `penalties` render theirs. Only a burst penalty can be changed: it can be
//! lifted. Metrics are rendered on a blocking thread, because that takes long.

mod body;
mod endpoints;
mod guard;
mod health;
pub(crate) mod hot_keys;
pub(crate) mod penalties;
mod trust;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use body::AdminBody;

use crate::bounds;
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::serve::{Peer, ResponseBacklog};
use crate::settings::Listener;

/// A connection is closed after this even if it is in use; clients open another.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);

/// The client of a connection to the admin listener.
#[derive(Clone, Copy, Debug)]
pub struct AdminClient {
    /// Its address.
    pub address: IpAddr,
    /// Is the listener bound to loopback, so that only this machine reaches it?
    pub on_loopback: bool,
    /// Is the connection encrypted by TLS?
    pub is_encrypted: bool,
}

impl AdminClient {
    /// Can nobody read on the network what the client sends?
    pub(crate) fn is_private(self) -> bool {
        self.on_loopback || self.is_encrypted
    }

    /// The address that a request comes from: behind a trusted proxy, the one that the proxy names.
    pub(crate) fn address_of(self, node: &Node, headers: &HeaderMap) -> IpAddr {
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        node.identity().client_info(headers, self.address).ip
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_encrypted = peer.alpn_http2.is_some();
    answer_connection(
        node,
        io,
        AdminClient { address: peer.address, on_loopback: peer.on_loopback, is_encrypted },
    )
    .await;
}

/// Serves one connection, for callers outside the crate, which have no `Peer`.
pub async fn answer_connection<I>(node: Arc<Node>, io: I, caller: AdminClient)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Probes that connect while the server drains are answered, but the connection is not kept alive.
    let is_draining = node.lifecycle().phase() == Phase::Draining;
    let had_request = AtomicBool::new(false);
    let is_proxy = node.is_loopback_or_proxy(caller.address);
    let backlog = ResponseBacklog::new(&node.backlog_budget().account(caller.address, is_proxy));
    let service = service_fn(|request| {
        let node = Arc::clone(&node);
        had_request.store(true, Ordering::Relaxed);
        let backlog = Arc::clone(&backlog);
        async move {
            // Pages can be large, so a client must read its responses before the next page is rendered.
            let answer = match backlog.wait_for_capacity().await {
                Ok(()) => endpoints::respond(node, caller, request).await,
                Err(full) => endpoints::backlog_full(full),
            };
            Ok::<_, Infallible>(AdminBody::of(answer, &backlog))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds::HEAD_TIMEOUT)
        .max_headers(bounds::HEADERS_MAX)
        .max_buf_size(bounds::HEAD_BYTES_MAX)
        .keep_alive(!is_draining)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let ending = timeout(CONNECTION_AGE_MAX, async {
        tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = node.lifecycle().closing(), if !is_draining => None,
        }
    });
    let ended = ending.await.ok().flatten();
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(bounds::BODY_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    // A timeout after a response is the normal end of a connection, not a protocol error.
    let is_late = |error: &hyper::Error| error.is_timeout() && !had_request.load(Ordering::Relaxed);
    if ended.is_err_and(|error| error.is_parse() || is_late(&error)) {
        node.metrics().protocol_error(Listener::Admin);
    }
}
