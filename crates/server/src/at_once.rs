//! Futures that need not wait, and several that wait together.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// What a future says that never waits: one that decides by limits in this process.
///
/// # Panics
/// When it waits after all.
#[inline(always)]
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => said,
        Poll::Pending => panic!("what is decided in this process was waited for"),
    }
}

/// One that has begun.
enum Begun<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
}

/// What all futures say, in their order. They begin in that order, and at most so many wait at once.
pub(crate) async fn in_order<F: Future>(
    futures: impl IntoIterator<Item = F>,
    at_most: usize,
) -> Vec<F::Output> {
    let mut futures = futures.into_iter();
    let mut said = Vec::with_capacity(futures.size_hint().0);
    let mut begun: VecDeque<Begun<F>> = VecDeque::with_capacity(at_most);
    poll_fn(|task| {
        loop {
            begun.extend(futures.by_ref().take(at_most - begun.len()).map(|f| Begun::Waiting(Box::pin(f))));
            for one in &mut begun {
                if let Begun::Waiting(future) = one
                    && let Poll::Ready(output) = future.as_mut().poll(task)
                {
                    *one = Begun::Done(output);
                }
            }
            let before = said.len();
            while let Some(Begun::Done(_)) = begun.front() {
                let Some(Begun::Done(output)) = begun.pop_front() else { break };
                said.push(output);
            }
            match begun.is_empty() {
                // There may be more to begin.
                false if said.len() > before => {}
                false => return Poll::Pending,
                true if said.len() == before => return Poll::Ready(()),
                true => {}
            }
        }
    })
    .await;
    said
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn they_begin_and_answer_in_order_and_few_wait_at_once() {
        let (waiting, most, began) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
        let wait = async |number: u64| {
            began.lock().unwrap().push(number);
            most.fetch_max(waiting.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            // The first take the longest.
            tokio::time::sleep(std::time::Duration::from_millis(100 - number)).await;
            waiting.fetch_sub(1, Ordering::Relaxed);
            number
        };
        let numbers: Vec<u64> = (0..20).collect();
        assert_eq!(in_order(numbers.iter().map(|number| wait(*number)), 4).await, numbers);
        assert_eq!((most.into_inner(), began.into_inner().unwrap()), (4, numbers));
        assert!(in_order(std::iter::empty::<std::future::Ready<()>>(), 4).await.is_empty());
    }

    #[test]
    #[should_panic(expected = "waited for")]
    fn waiting_where_nobody_waits_is_a_fault() {
        at_once(std::future::pending::<()>());
    }
}
