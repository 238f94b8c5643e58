//! One line in the log for each change of a shared store's health, and of its master.

use tidegate::{Clock, Nanos};
use tidegate_redis::{Health, MasterWatch};

use super::SharedRedisStore;

/// Values that are no states are told of this often at most.
const POISON_EVERY: Nanos = Nanos::from_secs(60);

/// Knows what was told last.
#[derive(Debug)]
pub(super) struct StoreStateLog {
    up: bool,
    poison: Poison,
    masters: Masters,
}

impl StoreStateLog {
    /// Tells how the first attempt went.
    pub(super) fn new(shared: &SharedRedisStore) -> StoreStateLog {
        let health = shared.health();
        if health.up {
            tracing::info!(store = shared.place, "the store answers");
        } else {
            down(shared, &health);
        }
        StoreStateLog { up: health.up, poison: Poison::default(), masters: Masters::default() }
    }

    /// Tells what has changed.
    pub(super) fn look(&mut self, shared: &SharedRedisStore) {
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
        if let Some(watch) = shared.store.link().master_watch() {
            self.masters.changes(&watch).into_iter().for_each(|change| change.tell(shared, &watch));
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

fn down(shared: &SharedRedisStore, health: &Health) {
    tracing::warn!(
        store = shared.place,
        error = health.last_error.as_deref().unwrap_or("no answer"),
        "the store does not answer; each limit goes by its `on_store_error` until it does"
    );
}

/// The master that Sentinels watch over, as it was told of last.
#[derive(Debug, Default)]
struct Masters {
    moves: u64,
    /// Did less than a majority of the Sentinels answer?
    unwatched: bool,
    /// Has a majority ever answered? While nodes start, they are still being asked.
    was_watched: bool,
}

/// What is to be told of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterChange {
    Moved,
    Unwatched,
    Watched,
}

impl Masters {
    fn changes(&mut self, watch: &MasterWatch) -> Vec<MasterChange> {
        let mut changes = Vec::new();
        if watch.moves != self.moves {
            self.moves = watch.moves;
            changes.push(MasterChange::Moved);
        }
        let is_watched = watch.answering * 2 > watch.sentinels;
        self.was_watched |= is_watched;
        if self.was_watched && self.unwatched == is_watched {
            self.unwatched = !is_watched;
            changes.push(if is_watched { MasterChange::Watched } else { MasterChange::Unwatched });
        }
        changes
    }
}

impl MasterChange {
    fn tell(self, shared: &SharedRedisStore, watch: &MasterWatch) {
        let (store, master) = (&shared.place, watch.master.as_deref().unwrap_or("nobody"));
        let (answering, sentinels) = (watch.answering, watch.sentinels);
        match self {
            MasterChange::Moved => {
                tracing::info!(
                    store,
                    master,
                    "Sentinels name another master; the limits are asked for there now"
                );
            }
            MasterChange::Unwatched => {
                tracing::warn!(
                    store,
                    master,
                    answering,
                    sentinels,
                    "most Sentinels do not answer: should the master be replaced, this node may not hear of it"
                );
            }
            MasterChange::Watched => {
                tracing::info!(store, master, answering, sentinels, "most Sentinels answer again");
            }
        }
    }
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
    fn each_move_and_each_loss_of_the_majority_is_told_of_once() {
        let mut masters = Masters::default();
        let mut changes =
            |moves, answering| masters.changes(&MasterWatch { master: None, moves, sentinels: 4, answering });
        assert_eq!(changes(0, 0), [], "it has only begun to ask");
        assert_eq!(changes(0, 4), []);
        assert_eq!(changes(1, 3), [MasterChange::Moved]);
        assert_eq!(changes(1, 2), [MasterChange::Unwatched], "half are no majority");
        assert_eq!(changes(1, 1), []);
        assert_eq!(changes(2, 3), [MasterChange::Moved, MasterChange::Watched]);
        assert_eq!(changes(2, 4), []);
    }

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
