//! The control plane: the admin API, the policy that is in force and where it comes from, and who may change it.
//!
//! It runs on a thread of its own ([`thread`]), so that neither a large document nor a slow database delays a decision.
//! The data plane and the control plane meet at one place: `Node::swap_policy`.

pub mod access;
pub(crate) mod api;
pub(crate) mod collection;
mod running;
mod thread;

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use access::Access;
pub use running::{PolicySource, RunningPolicy};
use thread::ControlThread;

use crate::bounds::LONG_TASKS_MAX;

/// What the admin API works on. The node owns it.
#[derive(Debug)]
pub struct ControlPlane {
    running: ArcSwap<RunningPolicy>,
    access: Access,
    thread: ControlThread,
    /// Permits for work that computes for long: checking a large policy, replaying a trace.
    long_tasks: Arc<Semaphore>,
}

impl ControlPlane {
    /// Starts the thread of the control plane.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(running: RunningPolicy, access: Access) -> io::Result<ControlPlane> {
        Ok(ControlPlane {
            running: ArcSwap::from_pointee(running),
            access,
            thread: ControlThread::start()?,
            long_tasks: Arc::new(Semaphore::new(LONG_TASKS_MAX)),
        })
    }

    /// The policy in force, as it was written.
    pub fn running(&self) -> Arc<RunningPolicy> {
        self.running.load_full()
    }

    /// Notes that another policy is in force.
    pub(crate) fn set_running(&self, running: RunningPolicy) {
        self.running.store(Arc::new(running));
    }

    /// Who may use the admin API.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The runtime of the control plane.
    pub(crate) fn runtime(&self) -> &Handle {
        self.thread.handle()
    }

    /// Runs work that computes for long, on a thread where that delays nobody. At most [`LONG_TASKS_MAX`] run at once;
    /// the others wait. `None` if the work panicked, which the panic hook has logged.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = Arc::clone(&self.long_tasks);
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        let working = move || {
            // Kept until the work is done, even if nobody waits for it any more.
            let _permit = permit;
            work()
        };
        self.runtime().spawn_blocking(working).await.ok()
    }
}
