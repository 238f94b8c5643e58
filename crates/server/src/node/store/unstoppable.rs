//! Questions to a shared store that are seen through, whoever has gone meanwhile.
//!
//! A client may leave while the store is asked. What was sent is charged then, and somebody has to hear the answer: what
//! one slot of a Cluster took is handed back if another refuses, and who was denied is remembered, so that nobody can
//! drain a limit, or keep the store busy, by asking and leaving.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that goes on by itself if it is dropped after it has begun to wait.
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
        let running = self.running.as_mut().expect("it is not asked again once it has answered");
        match running.as_mut().poll(context) {
            Poll::Ready(said) => {
                self.running = None;
                Poll::Ready(said)
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
        // Without a runtime the process is about to end, and what is leased or charged runs out by itself.
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

    /// Something that takes a second, and whether it came to its end.
    fn slow() -> (Arc<AtomicBool>, RunsToCompletion<()>) {
        let done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&done);
        let future = async move {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            told.store(true, Ordering::Relaxed);
        };
        (done, RunsToCompletion::new(future))
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_comes_to_its_end() {
        let (done, future) = slow();
        let early = tokio::time::timeout(std::time::Duration::from_millis(10), future).await;
        assert!(early.is_err() && !done.load(Ordering::Relaxed));
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(done.load(Ordering::Relaxed), "somebody heard the answer");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_begun_does_not_begin() {
        let (done, future) = slow();
        drop(future);
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(!done.load(Ordering::Relaxed));
    }
}
