//! Looks after a connection: is the client alive, has the connection become old, does the server end?

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

use crate::bounds::{GRPC_CONNECTION_AGE, PING_INTERVAL, PING_TIMEOUT};
use crate::node::Node;
use crate::serve::ResponseBacklog;

/// What is to be done with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepaliveAction {
    /// Take no more calls, and end after those under way.
    GoAway,
    /// The client does not answer, or does not take what it is answered.
    GiveUp,
}

/// Waits until something is to be done.
pub(crate) async fn keep(
    node: Arc<Node>,
    mut pings: PingPong,
    backlog: Arc<ResponseBacklog>,
) -> KeepaliveAction {
    tokio::select! {
        () = backlog.stalled() => KeepaliveAction::GiveUp,
        advice = keep_alive(&node, &mut pings) => advice,
    }
}

async fn keep_alive(node: &Node, pings: &mut PingPong) -> KeepaliveAction {
    let mut old = pin!(sleep(age(RandomState::new().build_hasher().finish())));
    let mut closing = pin!(node.lifecycle().closing());
    loop {
        tokio::select! {
            () = &mut closing => return KeepaliveAction::GoAway,
            () = &mut old => return KeepaliveAction::GoAway,
            () = sleep(PING_INTERVAL) => {}
        }
        let answered = timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await;
        if !matches!(answered, Ok(Ok(_))) {
            return KeepaliveAction::GiveUp;
        }
    }
}

/// How old a connection becomes: within a tenth of the usual, so that connections that came together do
/// not all go at once.
fn age(random: u64) -> Duration {
    let tenth = GRPC_CONNECTION_AGE / 10;
    let spread = u64::try_from(2 * tenth.as_millis()).expect("minutes");
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
