//! The history of limits, for implementing stores: names, numbers, edits, and what an edit, an override or a change of
//! trust does to the state of a key.
//!
//! A state is stored together with the number of the limit version it was written with, so every reader can
//! interpret it: a key that returns after an edit, and a neighbour that looks for an idle key to replace.
//! Registering a limit makes its first [`Generation`], and every edit another one, each with a plain
//! [`LimitVersion`]. The variants of a generation, for overrides and trusted keys, are versions too, made at the first use.
//! [`edits`] has the rule for migrating a state from one version to another.
//!
//! A generation is *in use* while anybody holds a [`LimitRef`] of it. Those that are not, and names of which no
//! generation is, can be removed; then their numbers are reused: see [`reclaim`].
//!
//! Lock order: the names, then the making of variants, then the free numbers.

mod check;
pub mod edits;
mod generation;
mod numbers;
pub mod reclaim;
mod registration;
mod version;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::{Limit, LimitVariant, OverrideNumbers};

pub use generation::Generation;
use numbers::NumberTable;
pub use numbers::{FoundVersion, VersionReader};
pub use registration::Registration;
pub use version::{ClockPair, LimitVersion, scaled};

use crate::{LimitError, LimitRef};

/// The most versions in a history at once: every 20-bit number except zero.
pub const VERSIONS_MAX: u32 = (1 << 20) - 1;

/// The data that a store attaches to each version of a limit.
pub trait VersionData: Sized + Send + Sync + 'static {
    /// Can the store count a limit with these numbers? By default, every limit.
    ///
    /// # Errors
    /// It cannot.
    fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
        let _ = (name, limit);
        Ok(())
    }

    /// The data of a new generation of a limit; `before` are the plain versions of the earlier ones that are still
    /// known, oldest first.
    fn plain<'a>(name: &str, limit: &Limit, before: impl Iterator<Item = &'a LimitVersion<Self>>) -> Self;

    /// The data of a variant of a plain version.
    fn variant(variant: LimitVariant, plain: &LimitVersion<Self>) -> Self;

    /// Called before a plain version is removed while its name is kept.
    fn removed(&self) {}
}

/// The versions of limits by number, and the generations of each name.
#[derive(Debug)]
pub struct History<D> {
    /// Tells histories apart, and is never zero.
    id: u64,
    numbers: NumberTable<D>,
    names: Mutex<Names<D>>,
    making_variant: Mutex<()>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct Names<D> {
    by_name: HashMap<Arc<str>, NameEntry<D>>,
    /// How often names were registered.
    registrations: u64,
    /// Versions that nobody uses are looked for when there are this many versions.
    reclaim_at: usize,
}

/// What is known of a name.
#[derive(Debug)]
struct NameEntry<D> {
    /// The plain versions of its generations that were not removed, oldest first; at least the newest.
    kept: VecDeque<Arc<LimitVersion<D>>>,
    /// [`Names::registrations`] when it was last registered.
    registered: u64,
}

impl<D> NameEntry<D> {
    fn newest(&self) -> &Arc<LimitVersion<D>> {
        self.kept.back().expect("the newest generation of a name is removed with the name")
    }
}

impl<D> Default for History<D> {
    fn default() -> History<D> {
        static HISTORIES: AtomicU64 = AtomicU64::new(1);
        let names = Names { by_name: HashMap::new(), registrations: 0, reclaim_at: reclaim::RECLAIM_AT };
        History {
            id: HISTORIES.fetch_add(1, Ordering::Relaxed),
            numbers: NumberTable::default(),
            names: Mutex::new(names),
            making_variant: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }
}

impl<D> History<D> {
    /// Reads versions by number. The calling thread must not register limits as long as it has the reader.
    #[inline]
    pub fn read(&self) -> VersionReader<'_, D> {
        self.numbers.read()
    }

    /// Locks the names, to register limits and to remove those that nobody uses.
    pub fn registration(&self) -> Registration<'_, D> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Registration { history: self, names }
    }

    /// Was this version made here?
    #[inline]
    pub fn has_made(&self, version: &LimitVersion<D>) -> bool {
        version.history == self.id
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl<D: VersionData> History<D> {
    /// The variant of a reference; takes a lock only the first time.
    ///
    /// # Errors
    /// The scaled numbers are out of range, the store cannot count them, or there are too many versions.
    ///
    /// # Panics
    /// The limit was registered elsewhere.
    pub fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        // The reference keeps the generation, and with it the numbers of its versions.
        self.version_at(&self.own_version(limit).generation, variant).map(|variant| variant.handle())
    }

    /// Keys of a limit may soon be charged in these numbers of overrides, and in no others.
    ///
    /// # Panics
    /// The limit was registered elsewhere.
    pub fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        let generation = &self.own_version(limit).generation;
        let in_force = numbers.iter().filter_map(|numbers| generation.limit.at((*numbers).into()).ok());
        generation.set_fill_times(in_force.map(|overridden| overridden.fill_time()));
    }

    fn own_version<'l>(&self, limit: &'l LimitRef) -> &'l LimitVersion<D> {
        let version = LimitVersion::of(limit).filter(|version| self.has_made(version));
        version.expect("a limit is used with the store in which it was registered")
    }

    /// The version of a generation that is not removed meanwhile, in this variant.
    fn version_at(
        &self,
        generation: &Generation,
        variant: LimitVariant,
    ) -> Result<Arc<LimitVersion<D>>, LimitError> {
        let known = || generation.number_at(variant).map(|number| self.numbers.get(number).clone());
        if let Some(known) = known() {
            return Ok(known);
        }
        let plain = generation.number_at(LimitVariant::PLAIN).map(|number| self.numbers.get(number).clone());
        let plain = plain.expect("a generation in use has a plain version");
        let limit = plain.limit.at(variant)?;
        D::check(&plain.name, &limit)?;
        let _one_at_a_time = self.making_variant.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known() {
            return Ok(known);
        }
        if variant.numbers.is_some() && self.numbers.free_count() <= VERSIONS_MAX as usize / 2 {
            return Err(LimitError::TooMany { max: VERSIONS_MAX });
        }
        let number = self.numbers.take(1)?[0];
        if variant.trust > 0 {
            generation.trust_keys();
        }
        if let Some(overridden) = variant.numbers.and_then(|numbers| plain.limit.at(numbers.into()).ok()) {
            generation.note_fill_time(&overridden);
        }
        let version = Arc::new(LimitVersion {
            number,
            id: self.next_id(),
            name: plain.name.clone(),
            limit,
            data: D::variant(variant, &plain),
            variant,
            generation: plain.generation.clone(),
            history: self.id,
        });
        self.numbers.store(version.clone());
        generation.set_number(variant, number);
        Ok(version)
    }
}

#[cfg(test)]
impl<D> History<D> {
    /// Pretends that all numbers except `left` have been assigned.
    pub(crate) fn leave_numbers(&self, left: u32) {
        self.numbers.leave(left);
    }

    /// Does anybody wait for readers?
    pub(crate) fn is_anyone_waiting(&self) -> bool {
        self.numbers.is_anyone_waiting()
    }
}

#[cfg(test)]
impl<D: VersionData> History<D> {
    /// Registers one limit.
    pub(crate) fn name(
        &self,
        name: &str,
        limit: Limit,
        carry: tidegate_core::Carry,
        now: tidegate_core::Nanos,
    ) -> Result<LimitRef, LimitError> {
        self.registration()
            .name_all(&[crate::NamedLimit { name, limit, carry, trusted: false }], now.into())
            .map(|mut named| named.remove(0))
    }
}

#[cfg(test)]
mod tests;
