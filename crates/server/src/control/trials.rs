//! The queue of calls that try a policy out: one at a time, so that long ones leave room for changes.
//!
//! A call whose client has disconnected leaves the queue, and no call waits without end; both would otherwise let one
//! client keep the turn from everybody else.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::ControlPlane;
use super::api::ApiError;
use crate::bounds::{TRIAL_TIME_MAX, TRIALS_MAX, TRIALS_WAITING_MAX};

/// The queue.
#[derive(Debug)]
pub(super) struct TrialQueue {
    /// Of those that wait and those that have the turn.
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// The turn of a call, until this is dropped.
#[derive(Debug)]
pub(crate) struct TrialTurn {
    _place: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
}

impl Default for TrialQueue {
    fn default() -> TrialQueue {
        TrialQueue {
            places: Arc::new(Semaphore::new(TRIALS_MAX + TRIALS_WAITING_MAX)),
            turns: Arc::new(Semaphore::new(TRIALS_MAX)),
        }
    }
}

impl TrialQueue {
    /// Waits for the turn, unless too many wait for it already. Dropping this leaves the queue.
    pub(super) async fn turn(&self) -> Result<TrialTurn, ApiError> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let detail = format!("{TRIALS_WAITING_MAX} calls that try policies out wait already: try again");
            return Err(ApiError::TooMany { detail, retry_after: TRIAL_TIME_MAX.as_secs() });
        };
        let turn = timeout(TRIAL_TIME_MAX, Arc::clone(&self.turns).acquire_owned());
        let turn = turn.await.map_err(|_| took_too_long())?.expect("the semaphore is never closed");
        Ok(TrialTurn { _place: place, _turn: turn })
    }
}

impl TrialTurn {
    /// Runs the part of a trial that computes for long. The turn lasts until that is done, even if nobody waits for it any
    /// more.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        control: &ControlPlane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let working = move || {
            let _turn = self;
            work()
        };
        control.run_long(working).await.ok_or(ApiError::Internal)
    }
}

/// The refusal of a trial that takes too long, or for whose turn it was waited too long.
pub(crate) fn took_too_long() -> ApiError {
    let seconds = TRIAL_TIME_MAX.as_secs();
    let detail = format!(
        "this takes longer than {seconds} seconds, or others compute for long: try again, with a smaller policy, or with the \
         same command of `tidegate` on a machine of yours"
    );
    ApiError::TooMany { detail, retry_after: seconds }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_refused(refusal: Option<Result<TrialTurn, ApiError>>, why: &str) -> bool {
        let Some(Err(error)) = refusal else { return false };
        let response = error.render();
        assert!(response.headers().contains_key("retry-after"));
        response.status() == 429 && error.to_string().contains(why)
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_has_an_end_and_who_leaves_it_makes_room() {
        let queue = TrialQueue::default();
        let mut turn = queue.turn().await.ok();
        let mut waiting: Vec<_> = (0..TRIALS_WAITING_MAX).map(|_| Box::pin(queue.turn())).collect();
        assert!(waiting.iter_mut().all(|waits| waits.now_or_never().is_none()));
        assert!(is_refused(queue.turn().now_or_never(), "wait already"));
        drop(waiting.remove(0));
        let mut last = Box::pin(queue.turn());
        assert!((&mut last).now_or_never().is_none(), "there is room for one");
        waiting.clear();
        turn.take();
        assert!(last.await.is_ok(), "those before it have left");
        assert!(queue.turn().await.is_ok(), "a turn that is dropped is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_turn_without_end() {
        let queue = TrialQueue::default();
        let turn = queue.turn().await.expect("nobody else tries anything");
        let waited = queue.turn().await;
        assert!(is_refused(Some(waited), "longer than 20 seconds"));
        drop(turn);
        assert!(queue.turn().await.is_ok());
    }
}
