//! What is there at once, or has to be waited for.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Something that has to be waited for.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is there, or the future that will give it.
///
/// This is the one place where it is told whether a decision waits: a store says it of each call, the engine hands it
/// on, and whoever asked takes what is there and awaits the rest. Who does not care awaits all of it.
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
#[must_use = "what has to be waited for happens only when it is awaited"]
pub enum NowOrLater<'a, T> {
    /// It is there.
    Now(T),
    /// It has to be waited for.
    Later(Later<'a, T>),
}

impl<'a, T> NowOrLater<'a, T> {
    /// What a future will give.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> NowOrLater<'a, T> {
        NowOrLater::Later(Box::pin(future))
    }

    /// The same, changed: at once, or when it is there.
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

    /// Begins what has to be waited for, so that a store is asked in the order in which several came. Somebody has to
    /// await it all the same.
    pub fn begun(mut self) -> NowOrLater<'a, T> {
        if let NowOrLater::Later(later) = &mut self
            && let Poll::Ready(answer) = later.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return NowOrLater::Now(answer);
        }
        self
    }

    /// The answer of something that cannot wait, such as a store in memory. Where a future was made for it all the
    /// same, since a queue might have been waited in, it is ready.
    ///
    /// # Panics
    /// When it does wait.
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

/// What a future gives that asks nobody but a store in memory.
///
/// # Panics
/// When it waits.
#[cfg(any(feature = "policy", feature = "testing"))]
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store in memory was waiting"),
    }
}

/// An answer that is there is moved out, never pinned.
impl<T> Unpin for NowOrLater<'_, T> {}

impl<'a, T: 'a> Future for NowOrLater<'a, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let NowOrLater::Later(later) = &mut *self {
            return later.as_mut().poll(context);
        }
        // A box of nothing takes no memory.
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
