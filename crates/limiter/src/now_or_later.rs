//! A result that is ready, or a future of it.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A boxed future.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A result that is ready, or the future that will produce it.
///
/// Each call of a store returns this, and the engine passes it on: callers use a ready result without polling,
/// and await the rest. A caller that does not care can await all of them.
///
/// ```
/// use tidegate::NowOrLater;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let now = NowOrLater::Now(20).map(|number| number + 1);
/// assert!(matches!(now, NowOrLater::Now(21)));
///
/// let later = NowOrLater::later(async { 20 }).map(|number| number + 1);
/// assert!(matches!(later, NowOrLater::Later(_)));
/// assert_eq!(later.await, 21);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub enum NowOrLater<'a, T> {
    /// The result is ready.
    Now(T),
    /// The result has to be awaited.
    Later(Later<'a, T>),
}

/// Runs two futures at the same time, and returns both results.
#[cfg(feature = "policy")]
pub(crate) async fn both<A: Send, B: Send>(one: NowOrLater<'_, A>, mut other: Later<'_, B>) -> (A, B) {
    let mut one = match one {
        NowOrLater::Now(answer) => return (answer, other.await),
        NowOrLater::Later(later) => later,
    };
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(answer) = one.as_mut().poll(context)
        {
            first = Some(answer);
        }
        if second.is_none()
            && let Poll::Ready(answer) = other.as_mut().poll(context)
        {
            second = Some(answer);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

impl<'a, T> NowOrLater<'a, T> {
    /// The result of a future.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> NowOrLater<'a, T> {
        NowOrLater::Later(Box::pin(future))
    }

    /// Applies a function to the result: at once if it is ready, otherwise when it is.
    #[inline]
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> NowOrLater<'a, U>
    where
        T: 'a,
    {
        match self {
            NowOrLater::Now(answer) => NowOrLater::Now(change(answer)),
            NowOrLater::Later(later) => NowOrLater::later(async move { change(later.await) }),
        }
    }

    /// Polls a future once, so that several of them reach the store in the order in which they were made. The
    /// caller must still await the result.
    pub fn started(mut self) -> NowOrLater<'a, T> {
        if let NowOrLater::Later(later) = &mut self
            && let Poll::Ready(answer) = later.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return NowOrLater::Now(answer);
        }
        self
    }

    /// The result of a call that cannot wait, such as one to a store in memory. The engine may have wrapped it
    /// in a future because of a wait queue, but that future is ready when it is first polled.
    ///
    /// # Panics
    /// The future is pending.
    #[cfg(feature = "policy")]
    #[inline(always)]
    pub(crate) fn expect_now(self) -> T
    where
        T: 'a,
    {
        match self {
            NowOrLater::Now(answer) => answer,
            later => ready(later),
        }
    }
}

/// The result of a future that only uses a store in memory.
///
/// # Panics
/// The future is pending.
#[cfg(any(feature = "policy", feature = "testing"))]
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a call to a store in memory must not wait"),
    }
}

/// A ready result is moved out and never pinned.
impl<T> Unpin for NowOrLater<'_, T> {}

impl<'a, T: 'a> Future for NowOrLater<'a, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let NowOrLater::Later(later) = &mut *self {
            return later.as_mut().poll(context);
        }
        // Boxing a zero-sized future does not allocate.
        let polled_too_often = NowOrLater::Later(Box::pin(pending()));
        match std::mem::replace(&mut *self, polled_too_often) {
            NowOrLater::Now(answer) => Poll::Ready(answer),
            NowOrLater::Later(_) => Poll::Pending,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for NowOrLater<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NowOrLater::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            NowOrLater::Later(_) => f.write_str("Later"),
        }
    }
}
