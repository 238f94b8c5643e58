//! Futures that never wait.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What a future says that is ready at once, such as one that asks a store in memory.
///
/// # Panics
/// When the future does wait.
#[inline(always)]
pub(crate) fn ready_now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store that never waits was waiting"),
    }
}
