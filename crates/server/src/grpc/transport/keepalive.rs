//! Decides when a connection ends: its client does not answer PINGs or does not read, it is too old, or the server
//! shuts down.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::bounds::{GRPC_CONNECTION_AGE, PING_INTERVAL, PING_TIMEOUT};
use crate::grpc::http2::session::SharedSession;
use crate::node::Node;
use crate::serve::ResponseBacklog;

/// How the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepaliveAction {
    /// Send GOAWAY: accept no more calls, and end after those in flight.
    GoAway,
    /// Close at once: the client does not answer PINGs, or does not read its responses.
    Close,
}

/// Waits until the connection must end.
pub(crate) async fn watch(
    node: &Node,
    session: SharedSession,
    backlog: Arc<ResponseBacklog>,
) -> KeepaliveAction {
    tokio::select! {
        () = backlog.stalled() => KeepaliveAction::Close,
        action = keep_alive(node, &session) => action,
        never = forgive_resets(&session) => match never {},
    }
}

/// Forgives resets of calls as time passes. While there are none, no timer runs.
async fn forgive_resets(session: &SharedSession) -> Infallible {
    loop {
        std::future::poll_fn(|cx| session.lock().poll_forgivable(cx)).await;
        sleep(Duration::from_secs(1)).await;
        session.lock().forgive_resets();
    }
}

async fn keep_alive(node: &Node, session: &SharedSession) -> KeepaliveAction {
    let mut old = pin!(sleep(age(RandomState::new().build_hasher().finish())));
    let mut closing = pin!(node.lifecycle().closing());
    loop {
        tokio::select! {
            () = &mut closing => return KeepaliveAction::GoAway,
            () = &mut old => return KeepaliveAction::GoAway,
            () = sleep(PING_INTERVAL) => {}
        }
        session.lock().ping();
        let answer = std::future::poll_fn(|cx| session.lock().poll_pong(cx));
        if timeout(PING_TIMEOUT, answer).await.is_err() {
            return KeepaliveAction::Close;
        }
    }
}

/// How old a connection may get: [`GRPC_CONNECTION_AGE`] plus or minus a tenth, so that connections opened together do
/// not all end at once.
fn age(random: u64) -> Duration {
    let tenth = GRPC_CONNECTION_AGE / 10;
    let spread = u64::try_from(2 * tenth.as_millis()).expect("a few minutes in milliseconds fit into u64");
    GRPC_CONNECTION_AGE - tenth + Duration::from_millis(random % (spread + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spread_by_a_tenth() {
        assert_eq!(age(0), Duration::from_secs(270));
        assert_eq!(age(60_000), Duration::from_secs(330));
        assert_eq!(age(60_001), Duration::from_secs(270));
    }
}
