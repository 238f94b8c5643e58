//! The thread of the control plane, with a runtime of its own.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct ControlThread {
    handle: Handle,
    ended: Arc<Notify>,
}

impl ControlThread {
    pub(super) fn start() -> io::Result<ControlThread> {
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

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}
