//! Which changes this node has made for requests with an `Idempotency-Key`, where there is no database that remembers it.

use std::collections::VecDeque;

use tidegate::Nanos;
use tidegate_database::ANSWERS_MAX;

/// How long a change is remembered.
const KEPT: Nanos = Nanos::from_secs(24 * 60 * 60);

/// The changes, oldest first.
#[derive(Debug, Default)]
pub(super) struct RepeatedChanges(VecDeque<RepeatedChange>);

#[derive(Debug)]
struct RepeatedChange {
    key: [u8; 32],
    request: [u8; 32],
    at: Nanos,
}

/// What is known about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUse {
    New,
    /// It was used for the same request, which was done.
    Done,
    /// It was used for another request.
    Other,
}

impl RepeatedChanges {
    /// How a key was used in the last 24 hours.
    pub(super) fn of(&self, key: &[u8; 32], request: &[u8; 32], now: Nanos) -> KeyUse {
        let known = self.0.iter().find(|known| known.key == *key && now.saturating_sub(known.at) < KEPT);
        match known {
            None => KeyUse::New,
            Some(known) if known.request == *request => KeyUse::Done,
            Some(_) => KeyUse::Other,
        }
    }

    /// Remembers that a request was done. The oldest makes room.
    pub(super) fn add(&mut self, key: [u8; 32], request: [u8; 32], at: Nanos) {
        if self.0.len() as u64 >= ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(RepeatedChange { key, request, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_for_a_day_and_the_oldest_makes_room() {
        let mut changes = RepeatedChanges::default();
        changes.add([1; 32], [2; 32], Nanos::ZERO);
        let known = |changes: &RepeatedChanges, request, at| changes.of(&[1; 32], &[request; 32], at);
        assert_eq!(known(&changes, 2, Nanos::ZERO), KeyUse::Done);
        assert_eq!(known(&changes, 3, Nanos::ZERO), KeyUse::Other);
        assert_eq!(changes.of(&[9; 32], &[2; 32], Nanos::ZERO), KeyUse::New);
        assert_eq!(known(&changes, 2, KEPT), KeyUse::New);
        (0..ANSWERS_MAX).for_each(|_| changes.add([5; 32], [5; 32], Nanos::ZERO));
        assert_eq!(known(&changes, 2, Nanos::ZERO), KeyUse::New);
        assert_eq!(changes.0.len() as u64, ANSWERS_MAX);
    }
}
