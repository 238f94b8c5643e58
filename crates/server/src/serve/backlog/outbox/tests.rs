use std::pin::pin;
use std::time::Duration;

use super::*;
use crate::bounds::budget::ByteBudget;

const MAX: usize = 4 * ANSWERS_PER_CONNECTION_BYTES_MAX;

fn outbox() -> (Arc<Outbox>, BudgetAccount) {
    let account = ByteBudget::of(MAX).account([192, 0, 2, 1].into(), false);
    (Outbox::new(&account), account)
}

fn zeros(count: usize) -> Bytes {
    vec![0; count].into()
}

/// What can still be taken by another connection of the same address.
fn left(account: &BudgetAccount) -> usize {
    let mut share = account.share();
    (0..=MAX).rev().step_by(1_024).find(|bytes| share.set_to(*bytes)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn answers_wait_until_those_before_are_taken() {
    let (outbox, account) = outbox();
    assert_eq!(outbox.room().await, Ok(()));
    let small = outbox.hold(zeros(ANSWERS_FREE_BYTES));
    assert_eq!(left(&account), MAX / 4, "the first are free");
    let large = outbox.hold(zeros(ANSWERS_PER_CONNECTION_BYTES_MAX));
    assert!(outbox.is_full() && left(&account) < MAX / 4);
    let mut room = pin!(outbox.room());
    let waited = tokio::time::timeout(Duration::from_secs(1), room.as_mut()).await;
    assert!(waited.is_err(), "there is none");
    drop(large);
    assert_eq!(room.await, Ok(()));
    drop(small);
    assert_eq!(left(&account), MAX / 4, "all of it is given back");
}

#[tokio::test(start_paused = true)]
async fn when_all_is_taken_nothing_is_answered() {
    let (outbox, account) = outbox();
    let mut others = account.share();
    assert!(others.grow_to(MAX / 4));
    assert_eq!(outbox.room().await, Ok(()), "some are free");
    let forced = outbox.hold(zeros(2 * ANSWERS_FREE_BYTES));
    assert_eq!(outbox.room().await, Err(OutboxFull));
    let in_turn = Outbox::new(&account);
    assert_eq!(in_turn.set_backlog(ANSWERS_FREE_BYTES), Ok(()));
    assert_eq!(in_turn.set_backlog(2 * ANSWERS_FREE_BYTES), Err(OutboxFull), "it is to be given up");
    drop((forced, others, in_turn));
    assert_eq!(outbox.room().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_is_noticed_whatever_else_is() {
    let (outbox, _) = outbox();
    let began = tokio::time::Instant::now();
    let kept = outbox.hold(zeros(10));
    let busy = async {
        loop {
            let mut other = outbox.hold(zeros(1_000));
            other.advance(1_000);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! { () = outbox.stalled() => {} () = busy => {} }
    assert!((TAKE_TIMEOUT..=2 * TAKE_TIMEOUT).contains(&began.elapsed()), "{:?}", began.elapsed());
    drop(kept);
    let waited = tokio::time::timeout(10 * TAKE_TIMEOUT, outbox.stalled()).await;
    assert!(waited.is_err(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn getting_on_slowly_is_getting_on_and_bytes_are_not() {
    for (step, gets_on) in [(TAKE_BYTES_MIN / 8, true), (1, false)] {
        let (outbox, _) = outbox();
        let mut held = outbox.hold(zeros(100 * TAKE_BYTES_MIN));
        let taking = async {
            for _ in 0..100 {
                tokio::time::sleep(TAKE_TIMEOUT / 10).await;
                held.advance(step);
            }
        };
        let got_on = tokio::select! { () = outbox.stalled() => false, () = taking => true };
        assert_eq!(got_on, gets_on, "{step} bytes at a time");
    }
}
