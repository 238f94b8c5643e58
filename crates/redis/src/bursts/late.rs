//! Actions of burst detectors that this node hears of after the requests that have led to them were decided. They wait
//! here until somebody reports them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::{BurstAction, BurstCount, BurstSubject, LateBurst, Nanos};

/// The most that wait with all that is known of them. Of further ones only the number and the last time are kept.
pub(crate) const LATE_MAX: usize = 4_096;

/// The late actions that nobody has reported yet.
#[derive(Debug, Default)]
pub(crate) struct LateBursts {
    waiting: Mutex<WaitingLate>,
    /// How many there are, to look without the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct WaitingLate {
    whole: VecDeque<LateBurst>,
    /// How many warnings and blocks did not fit.
    nameless: [usize; 2],
    /// When the last of these was heard of.
    nameless_at: Nanos,
}

impl LateBursts {
    /// Adds an action; without a subject, nothing is known but the action.
    pub(super) fn add(
        &self,
        count: &BurstCount,
        subject: Option<Box<BurstSubject>>,
        action: BurstAction,
        at: Nanos,
    ) {
        let mut waiting = self.waiting();
        match subject {
            Some(subject) if waiting.whole.len() < LATE_MAX => {
                let about = Some((*count, subject));
                waiting.whole.push_back(LateBurst { action, at, about });
            }
            _ => {
                waiting.nameless[action as usize] += 1;
                waiting.nameless_at = at;
            }
        }
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Is there any?
    pub(super) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Removes at most `most`, the oldest first.
    pub(super) fn take(&self, most: usize) -> Vec<LateBurst> {
        if !self.has_some() {
            return Vec::new();
        }
        let mut waiting = self.waiting();
        let some = waiting.whole.len().min(most);
        let mut taken: Vec<LateBurst> = waiting.whole.drain(..some).collect();
        for action in [BurstAction::Warned, BurstAction::Blocked] {
            let some = waiting.nameless[action as usize].min(most - taken.len());
            waiting.nameless[action as usize] -= some;
            let one = LateBurst { action, at: waiting.nameless_at, about: None };
            taken.extend(std::iter::repeat_n(one, some));
        }
        self.count.store(waiting.len(), Ordering::Release);
        taken
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingLate> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingLate {
    fn len(&self) -> usize {
        self.whole.len() + self.nameless[0] + self.nameless[1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::{count, subject};
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_no_action_is_lost() {
        let late = LateBursts::default();
        let at = Nanos::from_secs;
        for n in 0..LATE_MAX as u64 + 3 {
            late.add(&count(n.into()), Some(Box::new(subject("a"))), BurstAction::Warned, at(n));
        }
        late.add(&count(1), None, BurstAction::Blocked, at(9_000));
        assert_eq!(late.waiting().whole.len(), LATE_MAX);
        let first = late.take(1);
        assert_eq!(first[0].about.as_ref().map(|(count, _)| count.key), Some(0), "the oldest");
        let mut actions = [1, 0];
        while late.has_some() {
            let taken = late.take(1_000);
            assert!((1..=1_000).contains(&taken.len()));
            taken.iter().for_each(|one| actions[one.action as usize] += 1);
        }
        assert_eq!(actions, [LATE_MAX + 3, 1]);
        assert_eq!(late.take(10), []);
    }
}
