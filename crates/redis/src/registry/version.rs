//! What the shared store keeps with each version of a limit: where its states are, and what is written beside them.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate::history::{self, VersionData};
use tidegate::{Limit, LimitError, LimitRef};

use super::text::StateNumbers;
use crate::keys::{KeyNamer, StateOwner};
use crate::wire::numbers::countable;

/// How many numbers of others are told apart: more policies than are ever rolled out at once.
const STRANGERS_MAX: usize = 16;

/// One version of a limit.
pub(crate) type RedisVersion = history::LimitVersion<VersionNames>;

/// What belongs to a version on the server.
#[derive(Debug)]
pub(crate) struct VersionNames {
    written: ArcSwap<Written>,
    /// Of a plain version: numbers of others that its states were found in.
    strangers: Mutex<Vec<Limit>>,
    namer: KeyNamer,
}

/// What is written beside states in these numbers.
#[derive(Debug)]
struct Written {
    numbers: StateNumbers,
    text: Arc<str>,
}

impl VersionNames {
    fn new(numbers: StateNumbers, namer: KeyNamer) -> VersionNames {
        VersionNames {
            written: ArcSwap::from_pointee(Written::new(numbers)),
            strangers: Mutex::default(),
            namer,
        }
    }

    /// Of a limit that nobody has named.
    pub(super) fn ad_hoc(limit: Limit) -> VersionNames {
        let numbers = StateNumbers { limit, trust: 0, edition: 0 };
        VersionNames::new(numbers, KeyNamer::new(StateOwner::AdHoc(&numbers.text()), &limit))
    }

    /// The names of its buckets.
    pub(crate) fn namer(&self) -> &KeyNamer {
        &self.namer
    }

    /// What is written beside a state.
    pub(crate) fn text(&self) -> Arc<str> {
        self.written.load().text.clone()
    }

    pub(super) fn edition(&self) -> u32 {
        self.written.load().numbers.edition
    }

    /// Others have gone back to these numbers more often than is known here: from now on they are written as those
    /// others write them.
    pub(super) fn adopt(&self, edition: u32) {
        let numbers = self.written.load().numbers;
        if edition > numbers.edition {
            self.written.store(Arc::new(Written::new(StateNumbers { edition, ..numbers })));
        }
    }
}

impl VersionData for VersionNames {
    /// Can a script count the limit?
    fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
        countable(limit).map_err(|why| LimitError::NotShared { name: name.into(), why })
    }

    /// Numbers that the limit has had before are written in another edition.
    fn plain<'a>(limit: &LimitRef, before: impl Iterator<Item = &'a RedisVersion>) -> VersionNames {
        let same = before.filter(|known| known.limit == *limit.limit());
        let edition = same.map(|known| known.data.edition().saturating_add(1)).max().unwrap_or(0);
        let numbers = StateNumbers { limit: *limit.limit(), trust: 0, edition };
        VersionNames::new(numbers, KeyNamer::new(StateOwner::Named(limit.name()), limit.limit()))
    }

    fn variant(limit: &LimitRef, plain: &RedisVersion) -> VersionNames {
        let numbers = plain.data.written.load().numbers;
        VersionNames::new(StateNumbers { trust: limit.trust(), ..numbers }, plain.data.namer.clone())
    }
}

/// Others write the states of a plain version in numbers that this node does not know. Some may have edited its numbers
/// away, and know what an edit does to the states from before it. What is written here from now on is none of those: it
/// is another edition, once for each of the others' numbers.
pub(super) fn met(plain: &RedisVersion, stranger: &Limit) {
    let mut strangers = plain.data.strangers.lock().unwrap_or_else(PoisonError::into_inner);
    if strangers.len() >= STRANGERS_MAX || strangers.contains(stranger) {
        return;
    }
    strangers.push(*stranger);
    let edition = plain.data.edition().saturating_add(1);
    plain.data.adopt(edition);
    plain.known_variants().for_each(|variant| variant.data.adopt(edition));
}

impl Written {
    fn new(numbers: StateNumbers) -> Written {
        Written { text: numbers.text().into(), numbers }
    }
}
