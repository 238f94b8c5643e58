use std::pin::pin;
use std::time::Duration;

use super::*;
use crate::bounds::budget::ByteBudget;

const MAX: usize = 4 * BACKLOG_PER_CONNECTION_BYTES_MAX;

fn backlog() -> (Arc<ResponseBacklog>, BudgetAccount) {
    let account = ByteBudget::of(MAX).account([192, 0, 2, 1].into(), false);
    (ResponseBacklog::new(&account), account)
}

fn zeros(count: usize) -> Bytes {
    vec![0; count].into()
}

/// How many bytes another connection of the same address can still get.
fn left(account: &BudgetAccount) -> usize {
    let mut share = account.share();
    (0..=MAX).rev().step_by(1_024).find(|bytes| share.set_to(*bytes)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn answers_wait_until_those_before_are_taken() {
    let (backlog, account) = backlog();
    assert_eq!(backlog.wait_for_capacity().await, Ok(()));
    let small = backlog.count_until_sent(zeros(BACKLOG_FREE_BYTES));
    assert_eq!(left(&account), MAX / 4, "the first are free");
    let large = backlog.count_until_sent(zeros(BACKLOG_PER_CONNECTION_BYTES_MAX));
    assert!(backlog.is_full() && left(&account) < MAX / 4);
    let mut room = pin!(backlog.wait_for_capacity());
    let waited = tokio::time::timeout(Duration::from_secs(1), room.as_mut()).await;
    assert!(waited.is_err(), "there is none");
    drop(large);
    assert_eq!(room.await, Ok(()));
    drop(small);
    assert_eq!(left(&account), MAX / 4, "all of it is given back");
}

#[tokio::test(start_paused = true)]
async fn when_all_is_taken_nothing_is_answered() {
    let (backlog, account) = backlog();
    let mut others = account.share();
    assert!(others.grow_to(MAX / 4));
    assert_eq!(backlog.wait_for_capacity().await, Ok(()), "some are free");
    let forced = backlog.count_until_sent(zeros(2 * BACKLOG_FREE_BYTES));
    assert_eq!(backlog.wait_for_capacity().await, Err(BacklogFull));
    let in_turn = ResponseBacklog::new(&account);
    assert_eq!(in_turn.set_unsent(BACKLOG_FREE_BYTES), Ok(()));
    assert_eq!(in_turn.set_unsent(2 * BACKLOG_FREE_BYTES), Err(BacklogFull), "it is to be given up");
    drop((forced, others, in_turn));
    assert_eq!(backlog.wait_for_capacity().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_is_noticed_whatever_else_is() {
    let (backlog, _) = backlog();
    let began = tokio::time::Instant::now();
    let kept = backlog.count_until_sent(zeros(10));
    let busy = async {
        loop {
            let mut other = backlog.count_until_sent(zeros(1_000));
            other.advance(1_000);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! { () = backlog.stalled() => {} () = busy => {} }
    assert!(
        (CLIENT_READ_TIMEOUT..=2 * CLIENT_READ_TIMEOUT).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    drop(kept);
    let waited = tokio::time::timeout(10 * CLIENT_READ_TIMEOUT, backlog.stalled()).await;
    assert!(waited.is_err(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn getting_on_slowly_is_getting_on_and_bytes_are_not() {
    for (step, gets_on) in [(CLIENT_READ_BYTES_MIN / 8, true), (1, false)] {
        let (backlog, _) = backlog();
        let mut held = backlog.count_until_sent(zeros(100 * CLIENT_READ_BYTES_MIN));
        let taking = async {
            for _ in 0..100 {
                tokio::time::sleep(CLIENT_READ_TIMEOUT / 10).await;
                held.advance(step);
            }
        };
        let made_progress = tokio::select! { () = backlog.stalled() => false, () = taking => true };
        assert_eq!(made_progress, gets_on, "{step} bytes at a time");
    }
}
