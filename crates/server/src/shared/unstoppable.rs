//! Questions to a shared store that are seen through, whoever has gone meanwhile.
//!
//! A client may leave while the store is asked. What was sent is charged then, and somebody has to hear the answer: what
//! one slot of a Cluster took is handed back if another refuses, and who was denied is remembered, so that nobody can
//! drain a limit, or keep the store busy, by asking and leaving.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tidegate::{Charge, Cost, LimitRef, Nanos, Role};
use tokio::runtime::Handle;

/// Charges that outlive the request they belong to.
pub(super) struct OwnedCharges(SmallVec<[OwnedCharge; 4]>);

struct OwnedCharge {
    limit: LimitRef,
    key: SmallVec<[u8; 32]>,
    tag: Option<SmallVec<[u8; 16]>>,
    cost: Cost,
    role: Role,
    delay: Nanos,
}

impl OwnedCharges {
    pub(super) fn of(charges: &[Charge<'_>]) -> OwnedCharges {
        let own = |charge: &Charge<'_>| OwnedCharge {
            limit: charge.limit.clone(),
            key: SmallVec::from_slice(charge.key),
            tag: charge.tag.map(SmallVec::from_slice),
            cost: charge.cost,
            role: charge.role,
            delay: charge.delay,
        };
        OwnedCharges(charges.iter().map(own).collect())
    }

    pub(super) fn borrowed(&self) -> SmallVec<[Charge<'_>; 8]> {
        self.0.iter().map(OwnedCharge::lend).collect()
    }
}

impl OwnedCharge {
    fn lend(&self) -> Charge<'_> {
        let OwnedCharge { limit, key, tag, cost, role, delay } = self;
        Charge { limit, key, cost: *cost, role: *role, delay: *delay, tag: tag.as_deref() }
    }
}

/// A future that goes on by itself if it is dropped after it has begun to wait.
pub(super) struct Unstoppable<T: Send + 'static> {
    running: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    has_waited: bool,
}

impl<T: Send + 'static> Unstoppable<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> Unstoppable<T> {
        Unstoppable { running: Some(Box::pin(future)), has_waited: false }
    }
}

impl<T: Send + 'static> Future for Unstoppable<T> {
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

impl<T: Send + 'static> Drop for Unstoppable<T> {
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
    fn slow() -> (Arc<AtomicBool>, Unstoppable<()>) {
        let done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&done);
        let future = async move {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            told.store(true, Ordering::Relaxed);
        };
        (done, Unstoppable::new(future))
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
