//! Logs each change of a shared store's health and of its master, with one line; changes of its health are events too.

use tidegate::{Clock, Nanos};
use tidegate_redis::{Health, MasterWatch};

use super::SharedRedisStore;
use crate::observe::Events;

/// Replaced values are logged at most once in this interval.
const REPLACED_LOG_INTERVAL: Nanos = Nanos::from_secs(60);

/// The state that was logged last.
#[derive(Debug)]
pub(super) struct StoreStateLog {
    up: bool,
    events: Events,
    replaced: ReplacedValues,
    masters: Masters,
}

impl StoreStateLog {
    /// Logs the result of the first attempt.
    pub(super) fn new(shared: &SharedRedisStore, events: Events) -> StoreStateLog {
        let health = shared.health();
        if health.up {
            tracing::info!(store = shared.address, "the store answers");
        } else {
            log_down(shared, &health);
            events.store_fallback(true, shared.store.clock().wall());
        }
        let (replaced, masters) = (ReplacedValues::default(), Masters::default());
        StoreStateLog { up: health.up, events, replaced, masters }
    }

    /// Logs what has changed.
    pub(super) fn log_changes(&mut self, shared: &SharedRedisStore) {
        let health = shared.health();
        if health.up != self.up {
            self.up = health.up;
            self.events.store_fallback(!health.up, shared.store.clock().wall());
            if health.up {
                let (store, nodes) = (&shared.address, health.nodes);
                tracing::info!(store, nodes, "the store answers again; limits are shared");
            } else {
                log_down(shared, &health);
            }
        }
        if let Some(watch) = shared.store.link().master_watch() {
            self.masters.changes(&watch).into_iter().for_each(|change| change.log(shared, &watch));
        }
        if let Some(values) = self.replaced.due(shared.store.errors().poisoned, shared.store.clock().now()) {
            tracing::warn!(
                store = shared.address,
                values,
                "replaced values in the store that Tidegate did not write; does another program use these keys?"
            );
        }
    }
}

fn log_down(shared: &SharedRedisStore, health: &Health) {
    tracing::warn!(
        store = shared.address,
        error = health.last_error.as_deref().unwrap_or("no answer"),
        "the store does not answer; each limit uses its `on_store_error` until it does"
    );
}

/// The state of the master and its Sentinels that was logged last.
#[derive(Debug, Default)]
struct Masters {
    moves: u64,
    /// Does less than a majority of the Sentinels answer?
    unwatched: bool,
    /// Has a majority ever answered? At the start, the first answers are still on their way.
    was_watched: bool,
}

/// A change to log.
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
    fn log(self, shared: &SharedRedisStore, watch: &MasterWatch) {
        let (store, master) = (&shared.address, watch.master.as_deref().unwrap_or("none"));
        let (answering, sentinels) = (watch.answering, watch.sentinels);
        match self {
            MasterChange::Moved => {
                tracing::info!(store, master, "Sentinels name another master; the limits are kept there now");
            }
            MasterChange::Unwatched => {
                tracing::warn!(
                    store,
                    master,
                    answering,
                    sentinels,
                    "most Sentinels do not answer: this node may not learn of a new master"
                );
            }
            MasterChange::Watched => {
                tracing::info!(store, master, answering, sentinels, "most Sentinels answer again");
            }
        }
    }
}

/// How many replaced values were logged, and when the next ones may be.
#[derive(Debug, Default)]
struct ReplacedValues {
    logged: u64,
    next: Nanos,
}

impl ReplacedValues {
    /// How many of `so_far` replaced values to log now.
    fn due(&mut self, so_far: u64, now: Nanos) -> Option<u64> {
        let new = so_far.saturating_sub(self.logged);
        if new == 0 || now < self.next {
            return None;
        }
        (self.logged, self.next) = (so_far, now.saturating_add(REPLACED_LOG_INTERVAL));
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
        assert_eq!(changes(0, 0), [], "the Sentinels have not answered yet");
        assert_eq!(changes(0, 4), []);
        assert_eq!(changes(1, 3), [MasterChange::Moved]);
        assert_eq!(changes(1, 2), [MasterChange::Unwatched], "half are no majority");
        assert_eq!(changes(1, 1), []);
        assert_eq!(changes(2, 3), [MasterChange::Moved, MasterChange::Watched]);
        assert_eq!(changes(2, 4), []);
    }

    #[test]
    fn poison_is_told_of_once_a_minute_and_none_is_forgotten() {
        let mut replaced = ReplacedValues::default();
        let at = Nanos::from_secs;
        assert_eq!(replaced.due(0, at(100)), None);
        assert_eq!(replaced.due(2, at(100)), Some(2));
        assert_eq!(replaced.due(5, at(159)), None);
        assert_eq!(replaced.due(6, at(160)), Some(4));
        assert_eq!(replaced.due(6, at(500)), None, "nothing new");
    }
}
