//! Runs the server: listeners, worker threads, reloading and shutdown.
//!
//! [`listen`] binds the sockets, accepts connections and gives each to a thread, which runs the protocol's
//! `serve` function. [`backlog`] bounds the responses that clients have not read. [`reload`] reads changed files again.

mod backlog;
mod banner;
pub(crate) mod clock_watch;
mod listen;
pub(crate) mod reload;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::bounds::{DRAIN_NOTICE, DRAIN_TIMEOUT, LAST_FIGURES_TIME, LIVE_ENTRIES_WAIT, STORE_LEAVE_MAX};
use crate::control::glance;
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::settings::Listener;
pub(crate) use backlog::response_backlog::{BacklogFull, CountedBytes, ResponseBacklog};
pub(crate) use backlog::unsent::UnsentBytes;
pub(crate) use banner::Banner;
use listen::accept::Acceptor;
pub(crate) use listen::bind::{BoundListener, bind};
use listen::connections::Connections;
pub(crate) use listen::open_files::connections_max;
pub(crate) use listen::tls::Tls;
use listen::workers::Workers;

/// The client of a connection, and how it connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; an IPv4-mapped IPv6 address is stored as IPv4.
    pub(crate) address: IpAddr,
    /// Is the listener bound to loopback, so that only this machine reaches it?
    pub(crate) on_loopback: bool,
    /// Did the TLS handshake agree on HTTP/2? `None` without TLS.
    pub(crate) alpn_http2: Option<bool>,
}

/// Serves on bound listeners until SIGTERM, SIGINT or the end of `until`, then drains connections. `announce` is called when
/// all listeners accept and nothing at startup can fail any more.
///
/// # Errors
/// If threads cannot be started, a listener or `until` fails, or a second signal arrives while draining.
pub(crate) async fn run(
    node: Arc<Node>,
    bound: Vec<BoundListener>,
    tls: Option<Arc<Tls>>,
    announce: impl FnOnce(),
    until: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut stop = Stop::new()?;
    let connections = Connections::new(connections_max());
    let workers = Workers::start(node.settings().workers)?;
    let acceptor = Acceptor::new(Arc::clone(&node), workers, Arc::clone(&connections), tls);
    let mut accepting = JoinSet::new();
    let mut deciding: Vec<AbortHandle> = Vec::new();
    let (admin, decisions): (Vec<BoundListener>, Vec<BoundListener>) =
        bound.into_iter().partition(|bound| bound.listener == Listener::Admin);
    admin.into_iter().for_each(|bound| _ = accepting.spawn(acceptor.clone().accept(bound)));
    // Wait for the first attempt to connect to the shared store, so that the first request can already use it.
    if let Some(store_thread) = &node.store_thread() {
        store_thread.first_attempt_done().await;
    }
    // So that whoever is blocked is blocked from the first request on, and who is trusted has its limits.
    if let Some(control) = node.control() {
        let _too_late = timeout(LIVE_ENTRIES_WAIT, async {
            control.live().loaded().await;
            if node.limiter().trust_book().is_some() {
                control.trust().loaded().await;
            }
        })
        .await;
    }
    deciding.extend(decisions.into_iter().map(|bound| accepting.spawn(acceptor.clone().accept(bound))));
    node.lifecycle().enter(Phase::Serving);
    announce();
    tokio::select! {
        () = stop.received() => tracing::info!(connections = connections.deciding(), "stop signal received; draining connections"),
        ended = until => ended?,
        error = listener_failed(&mut accepting) => {
            tracing::error!(%error, "a listener has failed; the server stops");
            return Err(error);
        }
    }
    tokio::select! {
        () = drain(&node, &connections, accepting, &deciding) => Ok(()),
        () = stop.received() => Err(io::Error::other("second stop signal: open connections were closed")),
    }
}

/// Resolves with the error when a listener stops accepting, which it never should.
async fn listener_failed(accepting: &mut JoinSet<io::Result<()>>) -> io::Error {
    match accepting.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(panic)) => io::Error::other(panic),
        Some(Ok(Ok(()))) => io::Error::other("a listener has stopped accepting"),
        // There are no listeners, so none can fail.
        None => std::future::pending().await,
    }
}

/// Gives load balancers time to notice, then stops accepting and waits for connections to end.
async fn drain(
    node: &Arc<Node>,
    connections: &Connections,
    mut accepting: JoinSet<io::Result<()>>,
    deciding: &[AbortHandle],
) {
    let began = node.clock().now();
    node.lifecycle().enter(Phase::Draining);
    sleep(DRAIN_NOTICE).await;
    deciding.iter().for_each(AbortHandle::abort);
    while !deciding.iter().all(AbortHandle::is_finished) {
        // The result is an abort, as intended.
        let _ended = accepting.join_next().await;
    }
    node.lifecycle().close();
    let draining = DRAIN_TIMEOUT - DRAIN_NOTICE - LAST_FIGURES_TIME - STORE_LEAVE_MAX;
    let ended = timeout(draining, connections.idle()).await;
    // Before the store is left, since without a database they are written there.
    let took = Duration::from(node.clock().now().saturating_sub(began));
    glance::write_last(node, (DRAIN_TIMEOUT - STORE_LEAVE_MAX).saturating_sub(took)).await;
    if let Some(store_thread) = &node.store_thread() {
        store_thread.leave().await;
    }
    match ended {
        Ok(()) => tracing::info!("stopped"),
        Err(_) => {
            tracing::warn!(connections = connections.deciding(), "stopped; some connections were still open")
        }
    }
}

/// The signals that stop the server.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Stop> {
        Ok(Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_that_ends_is_noticed() {
        let mut accepting = JoinSet::new();
        let waiting = timeout(Duration::ZERO, listener_failed(&mut accepting)).await;
        assert!(waiting.is_err(), "without listeners none can fail");
        accepting.spawn(std::future::pending());
        accepting.spawn(async { Err(io::Error::from(io::ErrorKind::InvalidInput)) });
        assert_eq!(listener_failed(&mut accepting).await.kind(), io::ErrorKind::InvalidInput);
        accepting.spawn(async { panic!("on purpose") });
        assert!(listener_failed(&mut accepting).await.to_string().contains("on purpose"));
        let waiting = timeout(std::time::Duration::ZERO, listener_failed(&mut accepting)).await;
        assert!(waiting.is_err(), "the remaining listener still runs");
    }
}
