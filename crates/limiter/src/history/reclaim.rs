//! Removing the versions that nobody uses, so that their numbers can be reused.
//!
//! A generation that is not in use and not the newest of its name can be removed once no state is written with its
//! versions. A store that writes numbers into its states first migrates those states to the next generation that is
//! kept: by the rule for edits, so that they are what they would have become at their next charge. A name of which no
//! generation is in use can be removed once nothing of its states is used.
//!
//! A request never removes anything: only a store that registers limits does, which happens when a policy is put in
//! force.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::registration::Registration;
use super::{History, LimitVersion, NameEntry, VERSIONS_MAX, VersionData};

/// The fewest versions at which unused ones are looked for.
pub(super) const RECLAIM_AT: usize = 1 << 10;

/// What nobody uses.
#[derive(Debug)]
pub struct Unused<D> {
    /// Generations; those of one name are together, oldest first.
    pub generations: Vec<UnusedGeneration<D>>,
    /// Names.
    pub names: Vec<UnusedName<D>>,
}

/// A generation that is neither in use nor the newest of its name.
#[derive(Debug)]
pub struct UnusedGeneration<D> {
    /// Its plain version.
    pub plain: Arc<LimitVersion<D>>,
    /// The plain version of the next generation that is kept.
    pub next: Arc<LimitVersion<D>>,
}

/// A name of which no generation is in use.
#[derive(Debug)]
pub struct UnusedName<D> {
    /// The plain version of its newest generation.
    pub newest: Arc<LimitVersion<D>>,
    /// Tells whether it was registered again.
    pub registered: u64,
}

impl<D> History<D> {
    /// Waits until every [`super::VersionReader`] that exists now has ended. The calling thread must not have one.
    pub fn wait_for_readers(&self) {
        self.numbers.wait_for_readers();
    }
}

impl<D> Registration<'_, D> {
    /// How many versions there are.
    pub fn versions(&self) -> usize {
        VERSIONS_MAX as usize - self.history.numbers.free_count()
    }

    /// Are there so many versions that it is worth looking for unused ones?
    pub fn is_reclaim_due(&self) -> bool {
        self.versions() >= self.names.reclaim_at
    }

    /// Decides when to look for unused versions again: when there are twice as many as now, so that the work for each
    /// edit stays the same, but before half of the free numbers are taken.
    pub fn set_reclaim_time(&mut self) {
        let versions = self.versions();
        let half = versions + (VERSIONS_MAX as usize - versions) / 2 + 1;
        self.names.reclaim_at = (2 * versions).max(RECLAIM_AT).min(half);
    }

    /// Finds what nobody uses. Generations stay unused. A name may be registered again once the names are unlocked.
    pub fn unused(&self) -> Unused<D> {
        let mut unused = Unused { generations: Vec::new(), names: Vec::new() };
        for entry in self.names.by_name.values() {
            let in_use = entry.kept.iter().any(|version| version.generation.is_in_use());
            if !in_use {
                let name = UnusedName { newest: entry.newest().clone(), registered: entry.registered };
                unused.names.push(name);
            }
            if entry.kept.len() > 1 {
                entry.find_unused(&mut unused.generations);
            }
        }
        unused
    }

    /// Was the name not registered since it was found?
    pub fn is_still_unused(&self, name: &UnusedName<D>) -> bool {
        let entry = self.names.by_name.get(&*name.newest.name);
        entry.is_some_and(|entry| entry.registered == name.registered)
    }
}

impl<D> NameEntry<D> {
    fn find_unused(&self, found: &mut Vec<UnusedGeneration<D>>) {
        let (mut unused, mut next, mut oldest_in_use) = (Vec::new(), self.newest(), u32::MAX);
        // From the newest on, because each needs the next one that is kept.
        for plain in self.kept.iter().rev().skip(1) {
            if plain.generation.is_in_use() {
                (next, oldest_in_use) = (plain, plain.generation.index);
            } else {
                unused.push(UnusedGeneration { plain: plain.clone(), next: next.clone() });
            }
        }
        let is_word = |version: &LimitVersion<D>| version.limit.meter().is_some();
        // An edit between a word and a log drops the state, but a request from before must still find it.
        let is_needed = |unused: &UnusedGeneration<D>| {
            is_word(&unused.plain) != is_word(&unused.next) && oldest_in_use < unused.plain.generation.index
        };
        found.extend(unused.into_iter().rev().filter(|unused| !is_needed(unused)));
    }
}

impl<D: VersionData> Registration<'_, D> {
    /// Removes generations, and then names that are still unused. No state may refer to the numbers of their
    /// versions any more, and no reader may have found one.
    pub fn remove<'u>(
        &mut self,
        generations: impl Iterator<Item = &'u UnusedGeneration<D>>,
        names: impl Iterator<Item = &'u UnusedName<D>>,
    ) {
        let mut numbers: Vec<u32> = Vec::new();
        let mut by_name: HashMap<&str, HashSet<u64>> = HashMap::new();
        for unused in generations {
            unused.plain.data.removed();
            numbers.extend(unused.plain.generation.numbers().map(|(_, number)| number));
            by_name.entry(&unused.plain.name).or_default().insert(unused.plain.id);
        }
        for (name, removed) in by_name {
            if let Some(entry) = self.names.by_name.get_mut(name) {
                entry.kept.retain(|version| !removed.contains(&version.id));
            }
        }
        for name in names.filter(|name| self.is_still_unused(name)).collect::<Vec<_>>() {
            // It stays if a generation could not be removed.
            if self.generations(&name.newest.name).count() == 1 {
                self.names.by_name.remove(&*name.newest.name);
                numbers.extend(name.newest.generation.numbers().map(|(_, number)| number));
            }
        }
        self.history.numbers.remove(numbers.into_iter());
        if self.names.by_name.capacity() > 4 * self.names.by_name.len() {
            self.names.by_name.shrink_to_fit();
        }
    }

    /// Removes limits that were never edited and have no variants, by the ids of their references. No state may
    /// refer to them, and nobody may use those references any more.
    pub(crate) fn forget<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let removed: Vec<u32> = names
            .filter_map(|name| self.names.by_name.remove(name))
            .flat_map(|entry| entry.kept)
            .flat_map(|version| version.generation.numbers().map(|(_, number)| number).collect::<Vec<_>>())
            .collect();
        self.history.numbers.remove(removed.into_iter());
    }
}
