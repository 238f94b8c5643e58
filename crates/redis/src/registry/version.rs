//! The data that the shared store keeps with each version of a limit: the keys of its states, and their text.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate::history::{self, VersionData};
use tidegate::{Limit, LimitError, LimitVariant};

use super::numbers_text::StateNumbers;
use crate::calls::wire::numbers::countable;
use crate::registry::keys::{KeyNamer, StateOwner};

/// The most foreign numbers that are distinguished: more than there are policies in a rollout.
const FOREIGN_NUMBERS_MAX: usize = 16;

/// One version of a limit.
pub(crate) type RedisVersion = history::LimitVersion<VersionNames>;

/// The keys and the text of a version.
#[derive(Debug)]
pub(crate) struct VersionNames {
    written: ArcSwap<Written>,
    /// For a plain version: numbers that other nodes wrote its states in, and that this node does not know.
    foreign_numbers: Mutex<Vec<Limit>>,
    namer: KeyNamer,
    /// Every edition of a version of this name that was removed is lower, in whatever numbers. Shared by all versions
    /// of the name.
    removed_below: Arc<AtomicU32>,
}

/// Numbers and their text.
#[derive(Debug)]
struct Written {
    numbers: StateNumbers,
    text: Arc<str>,
}

impl VersionNames {
    fn new(numbers: StateNumbers, namer: KeyNamer, removed_below: Arc<AtomicU32>) -> VersionNames {
        VersionNames {
            removed_below,
            written: ArcSwap::from_pointee(Written::new(numbers)),
            foreign_numbers: Mutex::default(),
            namer,
        }
    }

    /// For an ad hoc limit.
    pub(super) fn ad_hoc(limit: Limit) -> VersionNames {
        let numbers = StateNumbers { limit, variant: LimitVariant::PLAIN, edition: 0 };
        VersionNames::new(numbers, KeyNamer::new(StateOwner::AdHoc(&numbers.text()), &limit), Arc::default())
    }

    /// Makes the keys of its buckets.
    pub(crate) fn namer(&self) -> &KeyNamer {
        &self.namer
    }

    /// The text that is stored with its states.
    pub(crate) fn text(&self) -> Arc<str> {
        self.written.load().text.clone()
    }

    pub(super) fn edition(&self) -> u32 {
        self.written.load().numbers.edition
    }

    /// Writes this edition from now on, if it is newer: other nodes have edited the limit away from these numbers and
    /// back more often than this node.
    pub(super) fn adopt(&self, edition: u32) {
        let numbers = self.written.load().numbers;
        if edition > numbers.edition {
            self.written.store(Arc::new(Written::new(StateNumbers { edition, ..numbers })));
        }
    }
}

impl VersionData for VersionNames {
    /// Checks that scripts can count the limit.
    fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
        countable(limit).map_err(|why| LimitError::NotShared { name: name.into(), why })
    }

    /// Numbers that the limit had before get the next edition. Numbers that are not known may be those of a version
    /// that was removed, so they get an edition that none of those had.
    fn plain<'a>(name: &str, limit: &Limit, before: impl Iterator<Item = &'a RedisVersion>) -> VersionNames {
        let (mut removed_below, mut same) = (Arc::default(), 0);
        for known in before {
            removed_below = known.data.removed_below.clone();
            if known.limit == *limit {
                same = same.max(known.data.edition().saturating_add(1));
            }
        }
        let edition = same.max(removed_below.load(Ordering::Relaxed));
        let numbers = StateNumbers { limit: *limit, variant: LimitVariant::PLAIN, edition };
        VersionNames::new(numbers, KeyNamer::new(StateOwner::Named(name), limit), removed_below)
    }

    fn variant(variant: LimitVariant, plain: &RedisVersion) -> VersionNames {
        let data = &plain.data;
        let numbers = StateNumbers { variant, ..data.written.load().numbers };
        VersionNames::new(numbers, data.namer.clone(), data.removed_below.clone())
    }

    fn removed(&self) {
        self.removed_below.fetch_max(self.edition().saturating_add(1), Ordering::Relaxed);
    }
}

/// Other nodes write the states of this version in numbers that this node does not know. They may have edited the limit
/// away from this node's numbers, and apply that edit to every state in these numbers. What this node writes from now
/// on is not from before their edit, so it gets the next edition: once for each of the foreign numbers.
pub(super) fn note_foreign_numbers(
    plain: &RedisVersion,
    variants: impl Iterator<Item = Arc<RedisVersion>>,
    foreign: &Limit,
) {
    let mut foreign_numbers = plain.data.foreign_numbers.lock().unwrap_or_else(PoisonError::into_inner);
    if foreign_numbers.len() >= FOREIGN_NUMBERS_MAX || foreign_numbers.contains(foreign) {
        return;
    }
    foreign_numbers.push(*foreign);
    let edition = plain.data.edition().saturating_add(1);
    plain.data.adopt(edition);
    variants.for_each(|variant| variant.data.adopt(edition));
}

impl Written {
    fn new(numbers: StateNumbers) -> Written {
        Written { text: numbers.text().into(), numbers }
    }
}
