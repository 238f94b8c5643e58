//! A connection from its first request to its end: by the client, by silence, or with the server.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::Context;
use super::activity::Activity;
use crate::bounds::{DRAIN_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT};

/// How often it is looked whether anything happens: a connection is closed after between one and
/// one and a quarter times [`IDLE_TIMEOUT`].
const LOOKS: u32 = 4;

/// Runs a connection. `end` asks it to end after what is under way. `None` if it does not in time.
pub(super) async fn drive<C: Future>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    context: Arc<Context>,
    has_streams: bool,
) -> Option<C::Output> {
    let (stop, mut stopped) = oneshot::channel();
    // The watch is a task of its own: within this one it would be looked at on every request.
    let _watch = Watch(tokio::spawn(watch(context, has_streams, stop)).abort_handle());
    let mut connection = pin!(connection);
    let ended = poll_fn(|task| {
        if let Poll::Ready(ended) = connection.as_mut().poll(task) {
            return Poll::Ready(Ok(ended));
        }
        // The watch ends only after it has told.
        Pin::new(&mut stopped).poll(task).map(|grace| Err(grace.unwrap_or(DRAIN_TIMEOUT)))
    })
    .await;
    match ended {
        Ok(ended) => Some(ended),
        Err(grace) => {
            end(connection.as_mut());
            tokio::time::timeout(grace, connection).await.ok()
        }
    }
}

/// Ends with the connection that it is for.
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells when the connection is to end, and how long it may take to.
async fn watch(context: Arc<Context>, has_streams: bool, stop: oneshot::Sender<Duration>) {
    let grace = tokio::select! {
        () = context.node.lifecycle.closing() => DRAIN_TIMEOUT,
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
