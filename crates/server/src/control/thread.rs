//! The thread of the control plane, with a runtime of its own.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::JoinError;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlThread {
    handle: Handle,
    ended: Arc<Notify>,
}

impl ControlThread {
    pub(crate) fn start() -> io::Result<ControlThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, ended) = (runtime.handle().clone(), Arc::new(Notify::new()));
        let end = Arc::clone(&ended);
        std::thread::Builder::new().name("control".into()).spawn(move || {
            runtime.block_on(end.notified());
            // A task that computes must not keep the process from ending.
            runtime.shutdown_background();
        })?;
        Ok(ControlThread { handle, ended })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the thread, and waits for it on the caller's. Not for threads that have a runtime.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let task = self.handle.spawn(work);
        self.handle.spawn(async move {
            let _nobody_waits = done.send(task.await);
        });
        result.recv().expect("the thread runs until this is dropped")
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}
