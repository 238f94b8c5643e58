//! Live entries: what support staff and operators do at run time, beside the policy and never part of it, whatever the
//! policy's source.
//!
//! [`carrier`] keeps them and carries them from node to node; every node follows it ([`following`]) and has a copy of all
//! entries here. [`gates`] compiles blocks and exemptions for the engine, which decides by them, and [`overrides`] the
//! overrides of limits; [`changing`] is how the admin API adds and removes entries. [`acting`] resets keys and grants
//! tokens, [`reduced`] keeps of a request what the other nodes need for that, and [`renumbering`] writes buckets in the numbers
//! of an override.

pub(crate) mod acting;
mod answers;
pub(crate) mod carrier;
pub(crate) mod changing;
pub(crate) mod entry;
mod following;
pub(crate) mod gates;
mod kill_switch;
mod known;
mod override_defaults;
pub(crate) mod overrides;
pub(crate) mod reduced;
mod renumbering;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Nanos;
use tidegate::engine::OverrideUse;
use tidegate_database::UnixMillis;

pub(super) use following::follow;

pub(crate) use following::catch_up;

use acting::OwnActions;
use answers::AnswerBook;
use entry::{LiveEntry, LiveKind};
use known::KnownLive;

use super::carried::FollowedPlace;

/// The live entries that this node knows.
#[derive(Debug, Default)]
pub(crate) struct LiveBoard {
    known: Mutex<KnownLive>,
    /// How far the carrier was read. Whoever puts entries in force has its turn.
    place: FollowedPlace,
    /// Do the settings switch all limits off? Then no entry switches them on.
    forced_kill_switch: AtomicBool,
    /// The actions that this node does because it was asked for them.
    done: Mutex<OwnActions>,
    /// The answers to changes with an idempotency key, if there is no database.
    answers: Mutex<AnswerBook>,
    /// When the carrier was last told to forget what has ended, by the monotonic clock.
    tidied: Mutex<Option<Nanos>>,
}

impl LiveBoard {
    fn known(&self) -> MutexGuard<'_, KnownLive> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers to changes with an idempotency key, if there is no database.
    pub(crate) fn answers(&self) -> MutexGuard<'_, AnswerBook> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be news: look at once.
    pub(crate) fn wake(&self) {
        self.place.wake();
    }

    /// The entries that hold, newest first.
    pub(crate) fn entries(&self, now: UnixMillis) -> Vec<LiveEntry> {
        let mut entries: Vec<LiveEntry> =
            self.known().entries.values().filter(|entry| entry.holds(now)).cloned().collect();
        entries.sort_by(LiveEntry::newer_first);
        entries
    }

    /// The entry with an id, if it holds.
    pub(crate) fn entry(&self, id: &str, now: UnixMillis) -> Option<LiveEntry> {
        self.known().entries.get(id).filter(|entry| entry.holds(now)).cloned()
    }

    /// When an override was last used on this node, and whether the store could not count in its numbers.
    pub(crate) fn override_use(&self, id: &str) -> Option<Arc<OverrideUse>> {
        self.known().overrides.use_of(id)
    }

    /// How many entries of a kind hold.
    fn count(&self, kind: LiveKind, now: UnixMillis) -> usize {
        let is_counted = |entry: &&LiveEntry| entry.kind == kind && entry.holds(now);
        self.known().entries.values().filter(is_counted).count()
    }

    /// The entries that switch all limits off, newest first.
    pub(crate) fn kill_switches(&self, now: UnixMillis) -> Vec<LiveEntry> {
        let mut entries = self.entries(now);
        entries.retain(|entry| entry.kind == LiveKind::KillSwitch);
        entries
    }

    /// Do the settings switch all limits off?
    pub(crate) fn is_kill_switch_forced(&self) -> bool {
        self.forced_kill_switch.load(Ordering::Relaxed)
    }

    /// Notes that the settings switch all limits off.
    pub(crate) fn force_kill_switch(&self, on: bool) {
        self.forced_kill_switch.store(on, Ordering::Relaxed);
    }

    /// Waits until the entries have been read once, or whoever keeps them does not answer.
    pub(crate) async fn loaded(&self) {
        self.place.loaded().await;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_policy::PathSpelling;

    use super::*;
    use entry::LiveBody;

    /// The clocks of nodes differ, and two entries may be of the same millisecond.
    #[test]
    fn the_newest_is_what_was_added_last_whatever_the_clocks_say() {
        let entry = |id: &str, sequence: u64, created_at: i64| LiveEntry {
            id: id.to_owned(),
            kind: LiveKind::Override,
            sequence,
            body: LiveBody::default(),
            until: None,
            created_at: UnixMillis::new(created_at),
            author: String::new(),
            reason: None,
        };
        let board = LiveBoard::default();
        for added in [entry("z", 7, 5_000), entry("b", 8, 1_000), entry("a", 9, 1_000)] {
            board.known().put(added.id.clone(), Some(added));
        }
        let ids: Vec<String> = board.entries(UnixMillis::new(0)).into_iter().map(|entry| entry.id).collect();
        assert_eq!(ids, ["a", "b", "z"]);
        let known = board.known();
        let work = known.overrides.work(known.entries.values(), 1, PathSpelling::default());
        assert_eq!(work.newest_first(), ids);
    }
}
