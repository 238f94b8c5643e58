//! Removes versions of limits that nobody uses, in steps, so that no registration takes long.
//!
//! First every state that was written with such a version is rewritten with the next version that is kept. Why no
//! state has a removed number afterwards, although requests go on meanwhile: nobody can register or use a removed
//! version, so a request writes its number only where it has read it. A number in an overflow bucket was read there,
//! and one in the table was read in the same slot or in the overflow bucket; the same holds for logs. So the overflow
//! buckets are swept first. Then the sweep waits for the requests that may have read them before, and after that the
//! table and the logs are swept once. At the end it waits for the requests that may have read a removed number, and
//! frees the numbers.
//!
//! A name of which nothing is in use is removed with its states if all of them are idle; otherwise it stays.

use std::sync::{Arc, PoisonError};

use portable_atomic::AtomicU128;
use tidegate_core::{LimitVariant, Meter, Nanos};

use super::Memory;
use super::migrate::{edited, is_idle};
use super::probe::TableCounters;
use super::slot::{Slot, SlotEntry};
use super::version::{LimitIdentity, MemoryReader, MemoryVersion};
use crate::history::Registration;
use crate::history::reclaim::{Unused, UnusedGeneration, UnusedName};
use crate::{Clock, LimitRef};

/// How much of a sweep one registration does: so many slots or edits of a state.
const WORK: usize = 1 << 18;
/// Slots are swept in pieces of this size.
const PIECE: usize = 1 << 10;

type Identity = Arc<LimitIdentity>;
type Registering<'a> = Registration<'a, Identity>;

/// A sweep that is under way.
#[derive(Debug)]
pub(super) struct Sweep {
    generations: Vec<UnusedGeneration<Identity>>,
    /// Which generations must be kept, because there is no version for their states.
    kept_generations: Vec<bool>,
    names: Vec<UnusedName<Identity>>,
    /// Which names must be kept, because some of their states still count.
    kept_names: Vec<bool>,
    /// By the number of a version.
    fates: Vec<Fate>,
    stage: Stage,
}

/// What becomes of the states of a version.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    /// The unused generation to which it belongs: they are migrated.
    generation: Option<u32>,
    /// The unused name to which it belongs: they are removed if they are idle.
    name: Option<u32>,
}

/// What is swept next: the overflow buckets, slots from an index on, or a shard of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Overflows,
    Slots(usize),
    Logs(usize),
    Done,
}

impl Sweep {
    fn new(registration: &Registering<'_>) -> Sweep {
        let Unused { generations, names } = registration.unused();
        let mut sweep = Sweep {
            kept_generations: vec![false; generations.len()],
            kept_names: vec![false; names.len()],
            generations: Vec::new(),
            names: Vec::new(),
            fates: Vec::new(),
            stage: Stage::Overflows,
        };
        for (index, unused) in (0..).zip(&generations) {
            for (_, number) in unused.plain.generation.numbers() {
                sweep.fate_mut(number).generation = Some(index);
            }
        }
        for (index, name) in (0..).zip(&names) {
            for (_, number) in
                registration.generations(&name.newest.name).flat_map(|plain| plain.generation.numbers())
            {
                sweep.fate_mut(number).name = Some(index);
            }
        }
        Sweep { generations, names, ..sweep }
    }

    fn fate_mut(&mut self, number: u32) -> &mut Fate {
        let index = number as usize;
        if self.fates.len() <= index {
            self.fates.resize(index + 1, Fate::default());
        }
        &mut self.fates[index]
    }
}

/// Applies a sweep to states.
pub(super) struct Sweeper<'a, 'r> {
    sweep: &'a mut Sweep,
    registration: &'a Registering<'r>,
    /// Made before any state is read.
    pub(super) reader: MemoryReader<'a>,
    pub(super) now: Nanos,
    /// How much was done.
    work: usize,
}

impl Sweeper<'_, '_> {
    /// Applies the sweep to a state with this number: `migrate` brings it from its version to another one, and
    /// `is_idle` returns whether it then can be removed without loss. Returns whether to remove it.
    pub(super) fn apply<S>(
        &mut self,
        state: &mut S,
        number: u32,
        migrate: impl FnOnce(&mut S, &MemoryVersion, &MemoryVersion),
        is_idle: impl FnOnce(&mut S, &MemoryReader<'_>) -> bool,
    ) -> bool {
        self.work += 1;
        let fate = self.sweep.fates.get(number as usize).copied().unwrap_or_default();
        if let Some(generation) = fate.generation {
            let (found, next) = (self.reader.get(number), &self.sweep.generations[generation as usize].next);
            match target(self.registration, next, found.variant) {
                Some(target) => {
                    self.work += (target.generation.index - found.generation.index) as usize;
                    migrate(state, &found, &target);
                }
                None => self.sweep.kept_generations[generation as usize] = true,
            }
        }
        let Some(name) = fate.name else { return false };
        let is_idle = is_idle(state, &self.reader);
        if !is_idle {
            self.sweep.kept_names[name as usize] = true;
        }
        is_idle
    }
}

/// The version to which a state is migrated: the same variant in the next generation that is kept. `None` if there is no
/// number for it, or if that generation cannot be scaled: after a later edit the state must have its variant again.
fn target(
    registration: &Registering<'_>,
    next: &Arc<MemoryVersion>,
    variant: LimitVariant,
) -> Option<Arc<MemoryVersion>> {
    registration.version_at(&next.generation, variant).ok()
}

impl<C: Clock> Memory<C> {
    /// Removes limits whose keys are all idle at `now` and that have no edits, variants or logs. References to
    /// them must not be used any more: their numbers are reused.
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "only ad hoc limits are removed"))]
    pub(crate) fn forget(&mut self, limits: &[LimitRef], now: Nanos) {
        let versions: Vec<&MemoryVersion> = limits.iter().map(|limit| self.version(limit)).collect();
        let highest = versions.iter().map(|version| version.number).max().unwrap_or_default();
        let mut dead = vec![false; highest as usize + 1];
        versions.iter().for_each(|version| dead[version.number as usize] = true);
        let wall = self.clock.wall_at(now);
        self.table.forget(|version| dead.get(version as usize).is_some_and(|dead| *dead), now, wall);
        self.registry.registration().forget(versions.iter().map(|version| &*version.name));
    }

    /// Goes on with a sweep, or begins one if it is worth it.
    pub(super) fn reclaim_some(&self, registration: &mut Registering<'_>, now: Nanos) {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        if sweep.is_none() && registration.is_reclaim_due() {
            *sweep = Some(Sweep::new(registration));
        }
        let mut left = WORK;
        while let Some(under_way) = sweep.as_mut().filter(|_| left > 0) {
            left = left.saturating_sub(self.step(under_way, registration, now));
            if under_way.stage == Stage::Done {
                *sweep = None;
            }
        }
    }

    /// Ends the sweep that is under way, and does another one.
    pub(super) fn reclaim_all(&self, registration: &mut Registering<'_>, now: Nanos) {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        let finish = |mut sweep: Sweep, registration: &mut Registering<'_>| {
            while sweep.stage != Stage::Done {
                self.step(&mut sweep, registration, now);
            }
        };
        if let Some(under_way) = sweep.take() {
            finish(under_way, registration);
        }
        finish(Sweep::new(registration), registration);
    }

    /// One step of a sweep; returns how much work it was.
    fn step(&self, sweep: &mut Sweep, registration: &mut Registering<'_>, now: Nanos) -> usize {
        let (work, next) = self.sweep_states(sweep, registration, now);
        match next {
            Stage::Slots(0) => self.registry.wait_for_readers(),
            Stage::Done => self.finish(sweep, registration),
            Stage::Overflows | Stage::Slots(_) | Stage::Logs(_) => {}
        }
        sweep.stage = next;
        work
    }

    fn sweep_states(&self, sweep: &mut Sweep, registration: &Registering<'_>, now: Nanos) -> (usize, Stage) {
        let (stage, reader) = (sweep.stage, self.registry.read());
        let mut sweeper = Sweeper { sweep, registration, reader, now, work: 1 };
        let next = match stage {
            Stage::Overflows => {
                self.sweep_overflows(&mut sweeper);
                Stage::Slots(0)
            }
            Stage::Slots(index) => {
                let piece = self.table.pieces(index, PIECE).next().unwrap_or_default();
                piece.iter().for_each(|slot| self.sweep_slot(&mut sweeper, slot, &self.table.counters));
                if piece.is_empty() { Stage::Logs(0) } else { Stage::Slots(index + piece.len()) }
            }
            Stage::Logs(index) if self.logs.sweep_shard(index, &mut sweeper) => Stage::Logs(index + 1),
            Stage::Logs(_) | Stage::Done => Stage::Done,
        };
        (sweeper.work, next)
    }

    fn sweep_overflows(&self, sweeper: &mut Sweeper<'_, '_>) {
        let generations = sweeper.sweep.generations.iter().map(|unused| &unused.next);
        let versions = generations.chain(sweeper.sweep.names.iter().map(|name| &name.newest));
        let mut identities: Vec<Identity> = versions.map(|version| version.data.clone()).collect();
        // The generations of one name are together.
        identities.dedup_by(|one, other| Arc::ptr_eq(one, other));
        for identity in identities {
            let overflow = &identity.overflow;
            self.sweep_slot(sweeper, &overflow.slot, &overflow.counters);
            let mut log = overflow.log();
            if log.sweep(sweeper) {
                *log = Default::default();
            }
        }
    }

    fn sweep_slot(&self, sweeper: &mut Sweeper<'_, '_>, slot: &AtomicU128, counters: &TableCounters) {
        let now = sweeper.now;
        loop {
            let entry = slot.get();
            if entry.is_empty() || entry.is_dead() || entry.is_claim() {
                sweeper.work += 1;
                return;
            }
            let mut next = entry;
            let migrate = |entry: &mut SlotEntry, found: &MemoryVersion, target: &MemoryVersion| {
                *entry = migrated(*entry, found, target);
            };
            let is_idle = |entry: &mut SlotEntry, reader: &MemoryReader<'_>| {
                let instant = |meter: &Meter| self.windows.of(meter, &self.clock, now);
                entry.is_dead() || is_idle(&reader.get(entry.tag.version()), entry.state, instant)
            };
            if sweeper.apply(&mut next, entry.tag.version(), migrate, is_idle) {
                next = SlotEntry::DEAD;
            }
            if next == entry {
                return;
            }
            if next.is_dead() {
                counters.record_eviction_time(now, self.clock.wall_at(now));
            }
            if slot.replace(entry, next).is_ok() {
                if next.is_dead() {
                    counters.count_eviction();
                }
                return;
            }
        }
    }

    /// Frees the numbers of what was swept.
    fn finish(&self, sweep: &Sweep, registration: &mut Registering<'_>) {
        self.registry.wait_for_readers();
        let generations = sweep.generations.iter().zip(&sweep.kept_generations).filter(|(_, kept)| !**kept);
        let names = sweep.names.iter().zip(&sweep.kept_names).filter(|(_, kept)| !**kept);
        registration.remove(generations.map(|(unused, _)| unused), names.map(|(unused, _)| unused));
        registration.set_reclaim_time();
    }
}

/// An entry migrated to another version in the same variant. A limit that has become a sliding log keeps no state in
/// slots.
fn migrated(entry: SlotEntry, found: &MemoryVersion, target: &MemoryVersion) -> SlotEntry {
    if target.meter().is_none() {
        return SlotEntry::DEAD;
    }
    let (_, state) = edited(found, entry.state, &target.generation);
    SlotEntry { tag: entry.tag.with_version(target.number), state }
}

#[cfg(test)]
impl<C: Clock> Memory<C> {
    /// Begins a sweep, or goes on with it for so many steps.
    fn sweep_steps(&self, steps: usize, now: Nanos) {
        let registration = &mut self.registry.registration();
        let mut sweep = self.sweep.lock().unwrap();
        let under_way = sweep.get_or_insert_with(|| Sweep::new(registration));
        for _ in 0..steps {
            self.step(under_way, registration, now);
            if under_way.stage == Stage::Done {
                *sweep = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
