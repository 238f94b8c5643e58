//! One version of a limit: the numbers of a generation at some trust.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use tidegate::{Carry, Limit, LimitRef, Nanos};

use super::{Namer, Numbers, Owner};

/// How many numbers of others are told apart: more policies than are ever rolled out at once.
const STRANGERS_MAX: usize = 16;

/// One version of a limit.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) handle: LimitRef,
    /// Its numbers, scaled by the trust.
    pub(crate) limit: Limit,
    /// The plain numbers of its generation.
    pub(super) base: Limit,
    /// How many edits came before it.
    pub(super) generation: u32,
    /// The number of the plain version of its generation, if it is another.
    pub(super) plain: Option<u32>,
    /// From when on it applies, and what it did with the tokens then.
    pub(super) since: Nanos,
    pub(super) carry: Carry,
    /// The number of the first version of the name, if it is another.
    pub(super) first: Option<u32>,
    /// Of a plain version: what an edit replaced it by.
    pub(super) next: OnceLock<Arc<Version>>,
    /// Of a plain version: the others of its generation, by trust less one.
    variants: OnceLock<Box<[OnceLock<Arc<Version>>]>>,
    written: ArcSwap<Written>,
    /// Of a plain version: numbers of others that its states were found in.
    strangers: Mutex<Vec<Limit>>,
    /// May its keys be trusted: was that said of any version of its name, or was it ever asked for at some trust?
    trusted: Arc<AtomicBool>,
    namer: Namer,
}

/// What is written beside states in these numbers.
#[derive(Debug)]
pub(crate) struct Written {
    pub(super) edition: u32,
    pub(crate) text: Arc<str>,
}

impl Version {
    pub(super) fn plain(
        handle: LimitRef,
        previous: Option<&Version>,
        edition: u32,
        since: Nanos,
        carry: Carry,
    ) -> Version {
        let limit = *handle.limit();
        Version {
            limit,
            base: limit,
            generation: previous.map_or(0, |version| version.generation + 1),
            plain: None,
            since,
            carry,
            first: previous.map(|version| version.first.unwrap_or(version.number())),
            next: OnceLock::new(),
            variants: OnceLock::new(),
            written: Written::swap(limit, 0, edition),
            strangers: Mutex::default(),
            trusted: previous.map(|version| version.trusted.clone()).unwrap_or_default(),
            namer: Namer::new(Owner::Named(handle.name()), &limit),
            handle,
        }
    }

    pub(super) fn variant(plain: &Version, handle: LimitRef) -> Version {
        Version {
            limit: *handle.limit(),
            base: plain.base,
            generation: plain.generation,
            plain: (plain.number() > 0).then(|| plain.number()),
            since: plain.since,
            carry: plain.carry,
            first: plain.first,
            next: OnceLock::new(),
            variants: OnceLock::new(),
            written: Written::swap(plain.base, handle.trust(), plain.written.load().edition),
            strangers: Mutex::default(),
            trusted: plain.trusted.clone(),
            namer: plain.namer.clone(),
            handle,
        }
    }

    pub(super) fn ad_hoc(handle: LimitRef) -> Version {
        let limit = *handle.limit();
        let text = Numbers { limit, trust: 0, edition: 0 }.text();
        Version {
            limit,
            base: limit,
            generation: 0,
            plain: None,
            since: Nanos::ZERO,
            carry: Carry::AsIs,
            first: None,
            next: OnceLock::new(),
            variants: OnceLock::new(),
            namer: Namer::new(Owner::AdHoc(&text), &limit),
            written: Written::swap(limit, 0, 0),
            strangers: Mutex::default(),
            trusted: Arc::default(),
            handle,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.handle.id()
    }

    pub(crate) fn trust(&self) -> u8 {
        self.handle.trust()
    }

    /// The keys of its limit may be trusted from now on.
    pub(super) fn trust_keys(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// How much longer than until it is full a state of it is kept: see [`crate::Entry::spare`].
    pub(crate) fn spare(&self) -> Nanos {
        let meter = self.limit.meter().filter(|_| self.trusted.load(Ordering::Relaxed));
        meter.map_or(Nanos::ZERO, |meter| meter.idle_later(self.base.capacity()))
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
        self.written.load().edition
    }

    /// Others have gone back to these numbers more often than is known here: from now on they are written as those
    /// others write them.
    pub(super) fn adopt(&self, edition: u32) {
        if edition > self.edition() {
            self.written.store(Arc::new(Written::new(self.base, self.trust(), edition)));
        }
    }

    /// Others write the states of this plain version in numbers that this node does not know. Some may have edited
    /// these numbers away, and know what an edit does to the states from before it. What is written here from now
    /// on is none of those: it is another edition, once for each of the others' numbers.
    pub(super) fn met(&self, stranger: &Limit) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.len() >= STRANGERS_MAX || strangers.contains(stranger) {
            return;
        }
        strangers.push(*stranger);
        let edition = self.edition().saturating_add(1);
        self.adopt(edition);
        let variants = self.variants.get().into_iter().flatten().filter_map(OnceLock::get);
        variants.for_each(|variant| variant.adopt(edition));
    }

    /// The variant of a plain version, if it was ever asked for.
    pub(super) fn known_variant(&self, trust: u8) -> Option<&Arc<Version>> {
        let place = usize::from(trust).checked_sub(1)?;
        self.variants.get().and_then(|variants| variants.get(place)?.get())
    }

    pub(super) fn keep_variant(&self, variant: Arc<Version>) {
        let variants = self.variants.get_or_init(|| (0..Limit::TRUST_MAX).map(|_| OnceLock::new()).collect());
        let place = usize::from(variant.trust()) - 1;
        variants[place].set(variant).expect("variants are made under the lock");
    }
}

impl Written {
    fn new(limit: Limit, trust: u8, edition: u32) -> Written {
        Written { edition, text: Numbers { limit, trust, edition }.text().into() }
    }

    fn swap(limit: Limit, trust: u8, edition: u32) -> ArcSwap<Written> {
        ArcSwap::from_pointee(Written::new(limit, trust, edition))
    }
}
