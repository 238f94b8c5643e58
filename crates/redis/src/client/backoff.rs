//! The wait before the next attempt to connect.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);

/// Exponential backoff with jitter: each wait is cut by up to half at random, so that nodes do not reconnect all at
/// once.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { next: FIRST, random: RandomState::new(), drawn: 0 }
    }

    /// The connection worked: start again with the shortest wait.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// The next wait.
    pub(super) fn wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        self.cut(whole)
    }

    /// A span, cut by up to half at random.
    pub(super) fn cut(&mut self, whole: Duration) -> Duration {
        self.drawn += 1;
        let part = u32::try_from(self.random.hash_one(self.drawn) % 500).expect("less than 500");
        whole - whole * part / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new();
        for whole in [20, 40, 80, 160, 320, 500, 500, 500] {
            let whole = Duration::from_millis(whole);
            let wait = backoff.wait();
            assert!(wait <= whole && wait > whole / 2, "{wait:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }

    #[test]
    fn two_nodes_do_not_wait_alike() {
        let waits = || {
            let mut backoff = Backoff::new();
            (0..16).map(|_| backoff.wait()).collect::<Vec<_>>()
        };
        assert_ne!(waits(), waits());
    }
}
