//! Waiting for two futures at the same time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Waits for two futures at the same time.
pub(super) async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(move |context| {
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(context)
        {
            second = Some(output);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            waiting => {
                (first, second) = waiting;
                Poll::Pending
            }
        }
    })
    .await
}
