//! One version of a limit: the numbers of a generation at some trust.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_core::{Carry, Limit, Nanos};

use crate::LimitRef;

/// Places for versions, each filled once.
pub(super) type VersionCells<D> = Box<[OnceLock<Arc<LimitVersion<D>>>]>;

/// One version of a limit.
#[derive(Debug)]
pub struct LimitVersion<D> {
    /// Its number in its history.
    pub number: u32,
    /// Its numbers, scaled by the trust.
    pub limit: Limit,
    /// What the store keeps with it.
    pub data: D,
    /// In hundredths; none in the plain version of a generation.
    pub trust: u8,
    /// How many edits came before it.
    pub generation: u32,
    /// What callers name it by.
    pub handle: LimitRef,
    /// The number of the plain version of its generation.
    pub(super) plain: u32,
    /// The number of the first version of its name.
    pub(super) first: u32,
    /// From when on it applies, and what it did with the tokens then.
    pub(super) since: ClockPair,
    pub(super) carry: Carry,
    /// Of a plain version: what an edit replaced it by.
    next: OnceLock<Arc<LimitVersion<D>>>,
    /// Of a plain version: the others of its generation, by trust less one.
    variants: OnceLock<VersionCells<D>>,
    /// May its keys be trusted: was that said of any version of its name, or was
    /// any ever asked for at some trust?
    trusted: Arc<AtomicBool>,
}

impl<D> LimitVersion<D> {
    /// A version that is in no history: of a limit that is never edited.
    pub fn alone(handle: LimitRef, data: D) -> LimitVersion<D> {
        LimitVersion {
            number: handle.id(),
            limit: *handle.limit(),
            data,
            trust: handle.trust(),
            generation: 0,
            plain: handle.id(),
            first: handle.id(),
            since: Nanos::ZERO.into(),
            carry: Carry::AsIs,
            next: OnceLock::new(),
            variants: OnceLock::new(),
            trusted: Arc::default(),
            handle,
        }
    }

    /// The first version of a name, or what an edit makes of the previous one.
    pub(super) fn plain(
        handle: LimitRef,
        data: D,
        previous: Option<&LimitVersion<D>>,
        carry: Carry,
        since: ClockPair,
    ) -> LimitVersion<D> {
        let first = LimitVersion { carry, since, ..LimitVersion::alone(handle, data) };
        match previous {
            None => first,
            Some(previous) => LimitVersion {
                generation: previous.generation + 1,
                first: previous.first,
                trusted: previous.trusted.clone(),
                ..first
            },
        }
    }

    /// A plain version at some trust.
    pub(super) fn variant(handle: LimitRef, data: D, plain: &LimitVersion<D>) -> LimitVersion<D> {
        LimitVersion {
            generation: plain.generation,
            plain: plain.number,
            first: plain.first,
            since: plain.since,
            carry: plain.carry,
            trusted: plain.trusted.clone(),
            ..LimitVersion::alone(handle, data)
        }
    }

    /// The keys of its limit may be trusted from now on.
    pub(super) fn trust_keys(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// May its keys be trusted more the next time?
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
    }

    /// Of a plain version: the plain version that an edit replaced it by.
    #[inline]
    pub(super) fn next(&self) -> Option<&LimitVersion<D>> {
        self.next.get().map(|next| &**next)
    }

    pub(super) fn replace_by(&self, next: Arc<LimitVersion<D>>) {
        assert!(self.next.set(next).is_ok(), "only the newest version is edited");
    }

    /// The plain version that edits of this plain one have led to.
    #[inline]
    pub fn newest(&self) -> &LimitVersion<D> {
        let mut version = self;
        while let Some(next) = version.next() {
            version = next;
        }
        version
    }

    /// The variant of a plain version, if it was ever asked for.
    pub fn known_variant(&self, trust: u8) -> Option<&Arc<LimitVersion<D>>> {
        let place = usize::from(trust).checked_sub(1)?;
        self.variants.get().and_then(|variants| variants.get(place)?.get())
    }

    /// All variants of a plain version that were ever asked for.
    pub fn known_variants(&self) -> impl Iterator<Item = &LimitVersion<D>> {
        self.variants.get().into_iter().flatten().filter_map(OnceLock::get).map(|variant| &**variant)
    }

    /// Keeps a new variant of a plain version.
    pub(super) fn keep_variant(&self, variant: Arc<LimitVersion<D>>) -> &Arc<LimitVersion<D>> {
        let variants = self.variants.get_or_init(|| (0..Limit::TRUST_MAX).map(|_| OnceLock::new()).collect());
        variants[usize::from(variant.trust) - 1].get_or_init(|| variant)
    }

    /// The numbers of a plain version at some trust.
    pub(super) fn scaled(&self, trust: u8) -> Limit {
        self.known_variant(trust).map_or_else(|| scaled(&self.limit, trust), |variant| variant.limit)
    }
}

/// The numbers that a state at some trust is written in. Where a limit cannot be
/// scaled, nobody was ever charged under the scaled numbers, and the plain ones
/// do as well.
pub fn scaled(limit: &Limit, trust: u8) -> Limit {
    limit.trusted(trust).unwrap_or(*limit)
}

/// An instant by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// By the steady clock, which buckets and logs go by.
    pub steady: Nanos,
    /// By the wall clock, which windows go by.
    pub wall: Nanos,
}

impl ClockPair {
    /// The instant as a limit sees it.
    pub fn seen_by(&self, limit: &Limit) -> Nanos {
        let windows = limit.meter().and_then(|meter| meter.windows());
        if windows.is_some() { self.wall } else { self.steady }
    }
}

impl From<Nanos> for ClockPair {
    /// For stores that have one clock for everything.
    fn from(now: Nanos) -> ClockPair {
        ClockPair { steady: now, wall: now }
    }
}
