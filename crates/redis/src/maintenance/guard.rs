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
    tokio::select! {
        () = run_and_restart(&store) => {}
        _ = stopped => {}
    }
    tokio::select! {
        () = store.leave() => {}
        () = store.clock().sleep(LEAVE_MAX) => {}
    }
}

/// Runs the maintenance in a task of its own: a panic in it ends that task only, and it starts again. Without
/// maintenance a store never recovers.
async fn run_and_restart<L, C>(store: &RedisStore<L, C>)
where
    L: Link + 'static,
    C: Sleep + 'static,
{
    // If this fails, the breaker is open, and the heartbeats of the maintenance probe the server.
    let _ = store.first_attempt().await;
    loop {
        let running = store.clone();
        let task = tokio::spawn(async move { running.run_maintenance().await });
        let _ = AbortOnDropHandle::new(task).await;
        store.clock().sleep(RESTART_PAUSE).await;
    }
}
