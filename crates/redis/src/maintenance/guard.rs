//! The task that runs a store's maintenance, and stops with its guard.

use tidegate::{Nanos, Sleep};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::calls::Link;
use crate::client::RedisClientError;
use crate::store::RedisStore;

/// How long handing back leases may take when a node leaves. Leases that are not handed back expire on their own.
const LEAVE_MAX: Nanos = Nanos::from_millis(500);

/// The pause before maintenance restarts after a panic.
const RESTART_PAUSE: Nanos = Nanos::from_millis(250);

/// Runs the maintenance of a [`RedisStore`] for as long as it is held.
///
/// When it is dropped, or by [`MaintenanceGuard::shutdown`], the maintenance stops and the node leaves: it hands its
/// unused leases back and tells the other nodes that it is gone. `drop` does not wait for that; `shutdown` does, so
/// prefer it where the runtime is about to end.
#[derive(Debug)]
#[must_use = "maintenance stops as soon as the guard is dropped"]
pub struct MaintenanceGuard {
    /// Dropping the sender tells the task to leave and end.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl MaintenanceGuard {
    pub(crate) fn start<L, C>(store: RedisStore<L, C>) -> Result<MaintenanceGuard, RedisClientError>
    where
        L: Link + 'static,
        C: Sleep + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| RedisClientError::NoRuntime)?;
        let (stop, stopped) = oneshot::channel();
        Ok(MaintenanceGuard { stop, task: runtime.spawn(maintain(store, stopped)) })
    }

    /// Stops the maintenance, and returns once the node has left: after half a second at most.
    pub async fn shutdown(self) {
        drop(self.stop);
        // An error means that the task panicked or its runtime ended; either way it has stopped.
        let _ = self.task.await;
    }
}

async fn maintain<L, C>(store: RedisStore<L, C>, stopped: oneshot::Receiver<()>)
where
    L: Link + 'static,
    C: Sleep + 'static,
{
    stopped_or_forever(&store, stopped).await;
    tokio::select! {
        () = store.leave() => {}
        () = store.clock().sleep(LEAVE_MAX) => {}
    }
}

/// Runs the maintenance until the guard stops it. It runs in a task of its own: a panic in it ends that task only, and it
/// starts again, since without maintenance a store never recovers.
async fn stopped_or_forever<L, C>(store: &RedisStore<L, C>, mut stopped: oneshot::Receiver<()>)
where
    L: Link + 'static,
    C: Sleep + 'static,
{
    // If the first attempt fails, the breaker is open, and the heartbeats of the maintenance probe the server.
    tokio::select! {
        _ = store.first_attempt() => {}
        _ = &mut stopped => return,
    }
    loop {
        let running = store.clone();
        let mut task = AbortOnDropHandle::new(tokio::spawn(async move { running.run_maintenance().await }));
        tokio::select! {
            _panicked = &mut task => {}
            _ = &mut stopped => {
                // Wait until the task has ended: its last heartbeat must not follow the node's leaving.
                task.abort();
                let _aborted = task.await;
                return;
            }
        }
        tokio::select! {
            () = store.clock().sleep(RESTART_PAUSE) => {}
            _ = &mut stopped => return,
        }
    }
}
