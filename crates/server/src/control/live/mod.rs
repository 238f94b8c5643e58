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
mod override_window;
pub(crate) mod overrides;
mod reduced;
mod renumbering;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::engine::OverrideUse;
use tidegate_database::UnixMillis;
use tidegate_policy::PathSpelling;

pub(super) use following::follow;

use answers::AnswerBook;
use entry::{LiveEntry, LiveKind};
use overrides::{CompiledOverrides, ToldUses};

use super::carried::FollowedPlace;

/// The live entries that this node knows.
#[derive(Debug, Default)]
pub(crate) struct LiveBoard {
    known: Mutex<KnownLive>,
    /// How far the carrier was read. Whoever puts entries in force has its turn.
    place: FollowedPlace,
    /// Do the settings switch all limits off? Then no entry switches them on.
    forced_kill_switch: AtomicBool,
    /// The ids of actions that this node has done already, because it was asked for them; the last at the end.
    done: Mutex<VecDeque<String>>,
    /// The answers to changes with an idempotency key, if there is no database.
    answers: Mutex<AnswerBook>,
}

#[derive(Debug, Default)]
struct KnownLive {
    entries: BTreeMap<String, LiveEntry>,
    /// What has to be known of all entries each time; `None` if they have changed since. There may be very many, and they are
    /// looked at five times a second.
    summary: Option<EntrySummary>,
    /// The spelling of paths that the gates are compiled with; `None` if they are not those of the entries.
    compiled: Option<PathSpelling>,
    /// The same for overrides.
    compiled_overrides: Option<PathSpelling>,
    overrides: CompiledOverrides,
    /// The overrides that were added or have ended since overrides were last compiled.
    changed_overrides: Vec<LiveEntry>,
    /// Those of them whose buckets the store has not written in their new numbers, because it did not answer.
    unwritten_overrides: Vec<LiveEntry>,
    told_uses: ToldUses,
}

/// What has to be known of all entries each time.
#[derive(Clone, Copy, Debug)]
struct EntrySummary {
    /// When the first of them ends, if one does.
    first_end: Option<UnixMillis>,
    /// Is one of them the kill switch?
    is_killed: bool,
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
        entries.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
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
