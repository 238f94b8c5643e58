//! Running: listeners, threads that answer, and how it all ends.

mod backlog;
mod banner;
pub(crate) mod clock_watch;
mod listen;
pub(crate) mod reload;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::bounds::{DRAIN_NOTICE, DRAIN_TIMEOUT, STORE_LEAVE_MAX};
use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::settings::Listener;
pub(crate) use backlog::outbox::{CountedBytes, Outbox, OutboxFull};
pub(crate) use backlog::unsent::UnsentBytes;
pub(crate) use banner::Banner;
use listen::accept::Acceptor;
pub(crate) use listen::bind::{BoundListener, bind};
use listen::connections::Connections;
pub(crate) use listen::files_max::connections_max;
pub(crate) use listen::tls::Tls;
use listen::workers::Workers;

/// Who is at the other end of a connection, and how it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; v4-mapped ones are folded.
    pub(crate) address: IpAddr,
    /// Did it come to a listener that only this machine reaches?
    pub(crate) on_loopback: bool,
    /// Did the TLS handshake agree on HTTP/2? `None` without TLS.
    pub(crate) alpn_http2: Option<bool>,
}

/// Serves on listeners that are open until told to stop, and then until connections have ended.
/// `announce` is called when nothing can fail any more.
///
/// # Errors
/// When threads cannot be started, or when it was told to stop twice.
pub(crate) async fn run(
    node: Arc<Node>,
    bound: Vec<BoundListener>,
    tls: Option<Arc<Tls>>,
    announce: impl FnOnce(),
) -> io::Result<()> {
    let mut stop = Stop::new()?;
    let connections = Connections::new(connections_max());
    let workers = Workers::start(node.settings().workers)?;
    let door = Acceptor::new(Arc::clone(&node), workers, Arc::clone(&connections), tls);
    let mut accepting = JoinSet::new();
    let mut deciding: Vec<AbortHandle> = Vec::new();
    let (admin, decisions): (Vec<BoundListener>, Vec<BoundListener>) =
        bound.into_iter().partition(|bound| bound.listener == Listener::Admin);
    admin.into_iter().for_each(|bound| _ = accepting.spawn(door.clone().accept(bound)));
    // Whoever asks the first question is to be answered by the shared store, if it is there.
    if let Some(store_thread) = &node.store_thread() {
        store_thread.first_attempt_done().await;
    }
    deciding.extend(decisions.into_iter().map(|bound| accepting.spawn(door.clone().accept(bound))));
    node.lifecycle().enter(Phase::Serving);
    announce();
    tokio::select! {
        () = stop.asked() => {}
        error = ended(&mut accepting) => {
            tracing::error!(%error, "a listener has ended, and the server with it");
            return Err(error);
        }
    }
    tracing::info!(connections = connections.deciding(), "told to stop; draining");
    tokio::select! {
        () = drain(&node, &connections, accepting, &deciding) => Ok(()),
        () = stop.asked() => Err(io::Error::other("told to stop twice: connections were cut off")),
    }
}

/// Resolves when a listener takes no more connections in, which it should do for ever: with why.
async fn ended(accepting: &mut JoinSet<io::Result<()>>) -> io::Error {
    match accepting.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(panic)) => io::Error::other(panic),
        Some(Ok(Ok(()))) => io::Error::other("a listener has stopped accepting"),
        // There is none: nothing can end.
        None => std::future::pending().await,
    }
}

/// Lets load balancers notice, then stops accepting and waits for connections to end.
async fn drain(
    node: &Node,
    connections: &Connections,
    mut accepting: JoinSet<io::Result<()>>,
    deciding: &[AbortHandle],
) {
    node.lifecycle().enter(Phase::Draining);
    sleep(DRAIN_NOTICE).await;
    deciding.iter().for_each(AbortHandle::abort);
    while !deciding.iter().all(AbortHandle::is_finished) {
        // It was aborted: that is how it ends.
        let _ended = accepting.join_next().await;
    }
    node.lifecycle().close();
    let ended = timeout(DRAIN_TIMEOUT - DRAIN_NOTICE - STORE_LEAVE_MAX, connections.idle()).await;
    if let Some(store_thread) = &node.store_thread() {
        store_thread.leave().await;
    }
    match ended {
        Ok(()) => tracing::info!("stopped"),
        Err(_) => {
            tracing::warn!(connections = connections.deciding(), "stopped; some connections had not ended")
        }
    }
}

/// The signals to stop.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Stop> {
        Ok(Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
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
        let waiting = timeout(std::time::Duration::ZERO, ended(&mut accepting)).await;
        assert!(waiting.is_err(), "where none is, none ends");
        accepting.spawn(std::future::pending());
        accepting.spawn(async { Err(io::Error::from(io::ErrorKind::InvalidInput)) });
        assert_eq!(ended(&mut accepting).await.kind(), io::ErrorKind::InvalidInput);
        accepting.spawn(async { panic!("on purpose") });
        assert!(ended(&mut accepting).await.to_string().contains("on purpose"));
        let waiting = timeout(std::time::Duration::ZERO, ended(&mut accepting)).await;
        assert!(waiting.is_err(), "the one that is left goes on");
    }
}
