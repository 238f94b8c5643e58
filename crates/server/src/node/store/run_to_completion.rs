//! Calls to a shared store that run to completion even if their client has disconnected.
//!
//! A client may disconnect during a call to the store. The call is charged all the same, and its answer must be
//! processed: tokens that one slot of a Redis Cluster took are handed back if another slot refuses, and a denial is
//! remembered. Otherwise a client could drain a limit, or keep the store busy, by sending requests and disconnecting.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that is spawned as a task if it is dropped after its first `Pending`.
pub(super) struct RunsToCompletion<T: Send + 'static> {
    running: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    has_waited: bool,
}

impl<T: Send + 'static> RunsToCompletion<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> RunsToCompletion<T> {
        RunsToCompletion { running: Some(Box::pin(future)), has_waited: false }
    }
}

impl<T: Send + 'static> Future for RunsToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let running = self.running.as_mut().expect("it is not polled after it is ready");
        match running.as_mut().poll(context) {
            Poll::Ready(result) => {
                self.running = None;
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
        }
    }
}

impl<T: Send + 'static> Drop for RunsToCompletion<T> {
    fn drop(&mut self) {
        let Some(running) = self.running.take().filter(|_| self.has_waited) else { return };
        // Without a runtime the process is about to end, and leases and charges expire on the store.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(running));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A future that takes a second, and whether it has completed.
    fn slow() -> (Arc<AtomicBool>, RunsToCompletion<()>) {
        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        let future = async move {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            set.store(true, Ordering::Relaxed);
        };
        (done, RunsToCompletion::new(future))
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_comes_to_its_end() {
        let (done, future) = slow();
        let early = tokio::time::timeout(std::time::Duration::from_millis(10), future).await;
        assert!(early.is_err() && !done.load(Ordering::Relaxed));
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(done.load(Ordering::Relaxed), "the answer was processed");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_begun_does_not_begin() {
        let (done, future) = slow();
        drop(future);
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(!done.load(Ordering::Relaxed));
    }
}
