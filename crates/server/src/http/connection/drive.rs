//! A connection from its first request to its end: by the client, by silence, or with the server.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::activity::Activity;
use crate::bounds::{DRAIN_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT};
use crate::http::Context;

/// How often it is looked whether anything happens: a connection is closed after between one and
/// one and a quarter times [`IDLE_TIMEOUT`].
const LOOKS: u32 = 4;

/// Runs a connection. `end` asks it to end after what is under way. `None` if it does not in time.
pub(crate) async fn drive<C: Future>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    context: Arc<Context>,
    has_streams: bool,
) -> Option<C::Output> {
    let (stop, stopped) = oneshot::channel();
    // The watch is a task of its own: within this one it would be looked at on every request.
    let _watch = AbortOnDropHandle::new(tokio::spawn(watch(context, has_streams, stop)));
    match select(pin!(connection), stopped).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right((grace, mut connection)) => {
            end(connection.as_mut());
            // The watch ends only after it has told.
            tokio::time::timeout(grace.unwrap_or(DRAIN_TIMEOUT), connection).await.ok()
        }
    }
}

/// Tells when the connection is to end, and how long it may take to.
async fn watch(context: Arc<Context>, has_streams: bool, stop: oneshot::Sender<Duration>) {
    let grace = tokio::select! {
        () = context.node.lifecycle().closing() => DRAIN_TIMEOUT,
        () = silence(&context.activity) => HEAD_TIMEOUT,
        // A stream that its client does not let on is not seen on the socket. Nothing more is owed to it.
        () = context.outbox.stalled(), if has_streams => Duration::ZERO,
    };
    // If nobody hears it, the connection has ended.
    let _told = stop.send(grace);
}

/// Resolves when nothing has happened for long.
async fn silence(activity: &Activity) {
    let (mut seen, mut quiet) = (activity.began(), 0);
    while quiet < LOOKS {
        tokio::time::sleep(IDLE_TIMEOUT / LOOKS).await;
        let began = activity.began();
        quiet = if began == seen && activity.is_idle() { quiet + 1 } else { 0 };
        seen = began;
    }
}
