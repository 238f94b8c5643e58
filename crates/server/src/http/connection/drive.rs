//! Runs a connection until the client closes it, it is idle too long, or the server shuts down.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::activity::Activity;
use crate::bounds::{DRAIN_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT};
use crate::http::Context;

/// Activity is checked this many times per [`IDLE_TIMEOUT`], so an idle connection is closed after 1 to 1¼ times that.
const CHECKS_PER_TIMEOUT: u32 = 4;

/// Runs a connection. `end` makes it shut down gracefully: finish the requests in flight, then close. Returns `None`
/// if it has not ended when the grace period is over.
pub(crate) async fn drive<C: Future>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    context: Arc<Context>,
    has_streams: bool,
) -> Option<C::Output> {
    let (stop, stopped) = oneshot::channel();
    // The watch is a task of its own: in this task its timers would be polled on every request.
    let _watch = AbortOnDropHandle::new(tokio::spawn(watch(context, has_streams, stop)));
    match select(pin!(connection), stopped).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right((grace, mut connection)) => {
            end(connection.as_mut());
            // The sender is dropped only after it has sent, so the default is never used.
            tokio::time::timeout(grace.unwrap_or(DRAIN_TIMEOUT), connection).await.ok()
        }
    }
}

/// Sends on `stop` when the connection is to end: how long it may take to do so.
async fn watch(context: Arc<Context>, has_streams: bool, stop: oneshot::Sender<Duration>) {
    let grace = tokio::select! {
        () = context.node.lifecycle().closing() => DRAIN_TIMEOUT,
        () = idle(&context.activity) => HEAD_TIMEOUT,
        // HTTP/2 flow control can stall a stream while the socket itself still moves. Such a client gets no grace.
        () = context.backlog.stalled(), if has_streams => Duration::ZERO,
    };
    // The receiver is gone if the connection has ended.
    let _sent = stop.send(grace);
}

/// Resolves when the connection has had no request for [`IDLE_TIMEOUT`].
async fn idle(activity: &Activity) {
    let (mut seen, mut idle_checks) = (activity.requests_started(), 0);
    while idle_checks < CHECKS_PER_TIMEOUT {
        tokio::time::sleep(IDLE_TIMEOUT / CHECKS_PER_TIMEOUT).await;
        let started = activity.requests_started();
        idle_checks = if started == seen && activity.is_idle() { idle_checks + 1 } else { 0 };
        seen = started;
    }
}
