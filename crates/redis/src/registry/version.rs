//! What the shared store keeps with each version of a limit: where its states are, and what is written beside them.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate::history::{self, VersionData};
use tidegate::{Limit, LimitError, LimitRef};

use super::text::Numbers;
use crate::keys::{Namer, Owner};
use crate::wire::numbers::countable;

/// How many numbers of others are told apart: more policies than are ever rolled out at once.
const STRANGERS_MAX: usize = 16;

/// One version of a limit.
pub(crate) type Version = history::Version<OnServer>;

/// What belongs to a version on the server.
#[derive(Debug)]
pub(crate) struct OnServer {
    written: ArcSwap<Written>,
    /// Of a plain version: numbers of others that its states were found in.
    strangers: Mutex<Vec<Limit>>,
    namer: Namer,
}

/// What is written beside states in these numbers.
#[derive(Debug)]
struct Written {
    numbers: Numbers,
    text: Arc<str>,
}

impl OnServer {
    fn new(numbers: Numbers, namer: Namer) -> OnServer {
        OnServer { written: ArcSwap::from_pointee(Written::new(numbers)), strangers: Mutex::default(), namer }
    }

    /// Of a limit that nobody has named.
    pub(super) fn ad_hoc(limit: Limit) -> OnServer {
        let numbers = Numbers { limit, trust: 0, edition: 0 };
        OnServer::new(numbers, Namer::new(Owner::AdHoc(&numbers.text()), &limit))
    }

    /// The names of its buckets.
    pub(crate) fn namer(&self) -> &Namer {
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
            self.written.store(Arc::new(Written::new(Numbers { edition, ..numbers })));
        }
    }
}

impl VersionData for OnServer {
    /// Can a script count the limit?
    fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
        countable(limit).map_err(|why| LimitError::NotShared { name: name.into(), why })
    }

    /// Numbers that the limit has had before are written in another edition.
    fn plain<'a>(limit: &LimitRef, before: impl Iterator<Item = &'a Version>) -> OnServer {
        let same = before.filter(|known| known.limit == *limit.limit());
        let edition = same.map(|known| known.data.edition().saturating_add(1)).max().unwrap_or(0);
        let numbers = Numbers { limit: *limit.limit(), trust: 0, edition };
        OnServer::new(numbers, Namer::new(Owner::Named(limit.name()), limit.limit()))
    }

    fn variant(limit: &LimitRef, plain: &Version) -> OnServer {
        let numbers = plain.data.written.load().numbers;
        OnServer::new(Numbers { trust: limit.trust(), ..numbers }, plain.data.namer.clone())
    }
}

/// Others write the states of a plain version in numbers that this node does not know. Some may have edited its numbers
/// away, and know what an edit does to the states from before it. What is written here from now on is none of those: it
/// is another edition, once for each of the others' numbers.
pub(super) fn met(plain: &Version, stranger: &Limit) {
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
    fn new(numbers: Numbers) -> Written {
        Written { text: numbers.text().into(), numbers }
    }
}
