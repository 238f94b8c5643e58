//! Registering limits, with the names locked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard};

use tidegate_core::LimitVariant;

use super::{ClockPair, Generation, History, LimitVersion, NameEntry, Names, VersionData};
use crate::{LimitError, LimitRef, NamedLimit};

/// A history with its names locked: meanwhile, limits are neither registered nor removed by others.
#[derive(Debug)]
pub struct Registration<'a, D> {
    pub(super) history: &'a History<D>,
    pub(super) names: MutexGuard<'a, Names<D>>,
}

impl<D> Registration<'_, D> {
    /// The plain versions of the generations of a name that were not removed, oldest first.
    pub fn generations(&self, name: &str) -> impl DoubleEndedIterator<Item = &Arc<LimitVersion<D>>> {
        self.names.by_name.get(name).into_iter().flat_map(|entry| &entry.kept)
    }

    /// All variants of a plain version from [`Registration::generations`].
    pub fn variants(&self, plain: &LimitVersion<D>) -> impl Iterator<Item = Arc<LimitVersion<D>>> {
        let variants = plain.generation.numbers().filter(|(variant, _)| *variant != LimitVariant::PLAIN);
        variants.map(|(_, number)| self.history.numbers.get(number).clone())
    }
}

impl<D: VersionData> Registration<'_, D> {
    /// Registers limits, or edits them as of `at`: all of them, or none.
    ///
    /// # Errors
    /// There are too many versions, or the store cannot count one of the limits.
    pub fn name_all(
        &mut self,
        limits: &[NamedLimit<'_>],
        at: ClockPair,
    ) -> Result<Vec<LimitRef>, LimitError> {
        limits.iter().try_for_each(|named| D::check(named.name, &named.limit))?;
        let mut numbers = self.history.numbers.take(self.count_new(limits))?;
        Ok(limits.iter().map(|named| self.name_one(named, at, &mut numbers)).collect())
    }

    /// How many versions registering these limits makes.
    fn count_new(&self, limits: &[NamedLimit<'_>]) -> usize {
        let mut registered = HashMap::new();
        let mut count = 0;
        for named in limits {
            let newest = || self.names.by_name.get(named.name).map(|entry| entry.newest().limit);
            let known = registered.insert(named.name, named.limit).or_else(newest);
            count += usize::from(known != Some(named.limit));
        }
        count
    }

    fn name_one(&mut self, named: &NamedLimit<'_>, at: ClockPair, numbers: &mut VecDeque<u32>) -> LimitRef {
        self.names.registrations += 1;
        let registered = self.names.registrations;
        let previous = self.names.by_name.get_mut(named.name).map(|entry| {
            entry.registered = registered;
            entry.newest().clone()
        });
        if let Some(known) = previous.as_ref().filter(|_| named.trusted) {
            known.generation.trust_keys();
        }
        if let Some(known) = previous.as_ref().filter(|known| known.limit == named.limit) {
            return known.handle();
        }
        let number = numbers.pop_front().expect("the new versions were counted");
        let earlier = previous.as_ref().map(|previous| &*previous.generation);
        let generation = Arc::new(Generation::new(named.limit, named.carry, at, earlier));
        let before = self.generations(named.name).map(|version| &**version);
        let version = Arc::new(LimitVersion {
            number,
            id: self.history.next_id(),
            name: previous.as_ref().map_or_else(|| named.name.into(), |previous| previous.name.clone()),
            limit: named.limit,
            data: D::plain(named.name, &named.limit, before),
            variant: LimitVariant::PLAIN,
            generation,
            history: self.history.id,
        });
        if named.trusted {
            version.generation.trust_keys();
        }
        self.history.numbers.store(version.clone());
        version.generation.set_number(LimitVariant::PLAIN, number);
        if let Some(previous) = previous {
            previous.generation.replace_by(version.generation.clone());
        }
        let entry = self.names.by_name.entry(version.name.clone());
        let entry = entry.or_insert_with(|| NameEntry { kept: VecDeque::new(), registered });
        entry.kept.push_back(version.clone());
        version.handle()
    }

    /// The version of a generation from [`Registration::generations`] in this variant.
    ///
    /// # Errors
    /// As [`History::variant`].
    pub fn version_at(
        &self,
        generation: &Generation,
        variant: LimitVariant,
    ) -> Result<Arc<LimitVersion<D>>, LimitError> {
        self.history.version_at(generation, variant)
    }
}
