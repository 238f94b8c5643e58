//! The admin listener: is it alive, is it ready, what is it doing.
//!
//! Nothing here changes anything, and nothing here is fast: pages are made on threads that may block.

mod answer;
mod debug;
mod gate;
mod health;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::bounds;
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::serve::{Outbox, Peer};
use crate::settings::Listener;

/// A connection is closed after this, whatever it does; clients open another.
const LIFE_MAX: Duration = Duration::from_secs(300);

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct AdminClient {
    /// Its address.
    pub address: IpAddr,
    /// Did it come to a listener that only this machine reaches?
    pub on_loopback: bool,
}

/// Answers one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    answer_connection(node, io, AdminClient { address: peer.address, on_loopback: peer.on_loopback }).await;
}

/// The same for who is not a `Peer`.
pub async fn answer_connection<I>(node: Arc<Node>, io: I, caller: AdminClient)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Probes that come while the server drains are answered; they only do not stay.
    let is_draining = node.lifecycle().phase() == Phase::Draining;
    let was_asked = AtomicBool::new(false);
    let many = node.stands_for_many(caller.address);
    let outbox = Outbox::new(&node.answers().account(caller.address, many));
    let service = service_fn(|request| {
        let node = Arc::clone(&node);
        was_asked.store(true, Ordering::Relaxed);
        let outbox = Arc::clone(&outbox);
        async move {
            // A page can be large, and whoever asks for many need not take one.
            let answer = match outbox.room().await {
                Ok(()) => answer::to(node, caller, request).await,
                Err(no_room) => answer::no_room(no_room),
            };
            Ok::<_, Infallible>(answer.map(|bytes| Full::new(outbox.hold(bytes))))
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
    let ending = timeout(LIFE_MAX, async {
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
    // That nothing more comes after an answer is the normal end of a connection.
    let is_late = |error: &hyper::Error| error.is_timeout() && !was_asked.load(Ordering::Relaxed);
    if ended.is_err_and(|error| error.is_parse() || is_late(&error)) {
        node.metrics().protocol_error(Listener::Admin);
    }
}
