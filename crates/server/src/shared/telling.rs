//! One line in the log for each change of a shared store's health.

use tidegate::{Clock, Nanos};
use tidegate_redis::Health;

use super::Shared;

/// Values that are no states are told of this often at most.
const POISON_EVERY: Nanos = Nanos::from_secs(60);

/// Knows what was told last.
#[derive(Debug)]
pub(super) struct Teller {
    up: bool,
    poison: Poison,
}

impl Teller {
    /// Tells how the first attempt went.
    pub(super) fn new(shared: &Shared) -> Teller {
        let health = shared.health();
        if health.up {
            tracing::info!(store = shared.place, "the store answers");
        } else {
            down(shared, &health);
        }
        Teller { up: health.up, poison: Poison::default() }
    }

    /// Tells what has changed.
    pub(super) fn look(&mut self, shared: &Shared) {
        let health = shared.health();
        if health.up != self.up {
            self.up = health.up;
            if health.up {
                let (store, nodes) = (&shared.place, health.nodes);
                tracing::info!(store, nodes, "the store answers again; limits are shared");
            } else {
                down(shared, &health);
            }
        }
        if let Some(values) = self.poison.due(shared.store.errors().poisoned, shared.store.clock().now()) {
            tracing::warn!(
                store = shared.place,
                values,
                "values in the store were no states, and were replaced; does something else write there?"
            );
        }
    }
}

fn down(shared: &Shared, health: &Health) {
    tracing::warn!(
        store = shared.place,
        error = health.last_error.as_deref().unwrap_or("no answer"),
        "the store does not answer; each limit goes by its `on_store_error` until it does"
    );
}

/// Values that were no states, and when they were told of.
#[derive(Debug, Default)]
struct Poison {
    told: u64,
    next: Nanos,
}

impl Poison {
    /// How many to tell of now, of so many so far.
    fn due(&mut self, so_far: u64, now: Nanos) -> Option<u64> {
        let new = so_far.saturating_sub(self.told);
        if new == 0 || now < self.next {
            return None;
        }
        (self.told, self.next) = (so_far, now.saturating_add(POISON_EVERY));
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_told_of_once_a_minute_and_none_is_forgotten() {
        let mut poison = Poison::default();
        let at = Nanos::from_secs;
        assert_eq!(poison.due(0, at(100)), None);
        assert_eq!(poison.due(2, at(100)), Some(2));
        assert_eq!(poison.due(5, at(159)), None);
        assert_eq!(poison.due(6, at(160)), Some(4));
        assert_eq!(poison.due(6, at(500)), None, "nothing new");
    }
}
