//! Several futures at once, on whatever runs them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs all of them to their ends; what they say is in their order.
pub(super) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut said: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, said) in running.iter_mut().zip(&mut said).filter(|(_, said)| said.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *said = Some(output);
            }
        }
        if said.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    said.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::testing::block_on_ready;

    #[tokio::test]
    async fn all_are_run_at_once_and_told_in_order() {
        let (first, second) = tokio::sync::oneshot::channel();
        let waits = async move { second.await.unwrap() };
        let sends = async move {
            first.send(1).unwrap();
            2
        };
        let futures: [Pin<Box<dyn Future<Output = i32>>>; 2] = [Box::pin(waits), Box::pin(sends)];
        assert_eq!(join_all(futures).await, [1, 2]);
    }

    #[test]
    fn none_are_done_at_once() {
        assert!(block_on_ready(join_all(Vec::<std::future::Ready<()>>::new())).is_empty());
    }
}
