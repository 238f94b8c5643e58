//! One version of a limit: the numbers of a generation at some trust.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_core::{Carry, Limit, Nanos};

use crate::LimitRef;

/// Cells for versions, each filled once.
pub(super) type VersionCells<D> = Box<[OnceLock<Arc<LimitVersion<D>>>]>;

/// One version of a limit.
#[derive(Debug)]
pub struct LimitVersion<D> {
    /// Its number in its history.
    pub number: u32,
    /// Its numbers, scaled by the trust.
    pub limit: Limit,
    /// The store's data for it.
    pub data: D,
    /// The trust in hundredths; zero in the plain version of a generation.
    pub trust: u8,
    /// How many edits came before it.
    pub generation: u32,
    /// The reference that callers use.
    pub handle: LimitRef,
    /// The number of the plain version of its generation.
    pub(super) plain: u32,
    /// The number of the first version of its name.
    pub(super) first: u32,
    /// When it took effect, and what it did with the tokens then.
    pub(super) since: ClockPair,
    pub(super) carry: Carry,
    /// In a plain version: the version that replaced it in an edit.
    next: OnceLock<Arc<LimitVersion<D>>>,
    /// In a plain version: the variants of its generation, at index trust − 1.
    variants: OnceLock<VersionCells<D>>,
    /// May keys have trust? True if any version of this name was registered as trusted, or a variant was ever
    /// used. Shared by all versions of the name.
    trusted: Arc<AtomicBool>,
}

impl<D> LimitVersion<D> {
    /// A version outside any history, for a limit that is never edited.
    pub fn standalone(handle: LimitRef, data: D) -> LimitVersion<D> {
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

    /// The first version of a name, or the one that an edit makes after `previous`.
    pub(super) fn plain(
        handle: LimitRef,
        data: D,
        previous: Option<&LimitVersion<D>>,
        carry: Carry,
        since: ClockPair,
    ) -> LimitVersion<D> {
        let first = LimitVersion { carry, since, ..LimitVersion::standalone(handle, data) };
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

    /// A variant of a plain version, at the trust of `handle`.
    pub(super) fn variant(handle: LimitRef, data: D, plain: &LimitVersion<D>) -> LimitVersion<D> {
        LimitVersion {
            generation: plain.generation,
            plain: plain.number,
            first: plain.first,
            since: plain.since,
            carry: plain.carry,
            trusted: plain.trusted.clone(),
            ..LimitVersion::standalone(handle, data)
        }
    }

    /// Records that keys of this limit may have trust.
    pub(super) fn trust_keys(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// May a key have more trust at its next charge?
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
    }

    /// For a plain version: the plain version that replaced it in an edit.
    #[inline]
    pub(super) fn next(&self) -> Option<&LimitVersion<D>> {
        self.next.get().map(|next| &**next)
    }

    pub(super) fn replace_by(&self, next: Arc<LimitVersion<D>>) {
        assert!(self.next.set(next).is_ok(), "only the newest version is edited");
    }

    /// For a plain version: the newest plain version of its name.
    #[inline]
    pub fn newest(&self) -> &LimitVersion<D> {
        let mut version = self;
        while let Some(next) = version.next() {
            version = next;
        }
        version
    }

    /// The variant of a plain version, if it was ever used.
    pub fn known_variant(&self, trust: u8) -> Option<&Arc<LimitVersion<D>>> {
        let index = usize::from(trust).checked_sub(1)?;
        self.variants.get().and_then(|variants| variants.get(index)?.get())
    }

    /// All variants of a plain version that were ever used.
    pub fn known_variants(&self) -> impl Iterator<Item = &LimitVersion<D>> {
        self.variants.get().into_iter().flatten().filter_map(OnceLock::get).map(|variant| &**variant)
    }

    /// Stores a new variant of a plain version.
    pub(super) fn keep_variant(&self, variant: Arc<LimitVersion<D>>) -> &Arc<LimitVersion<D>> {
        let variants = self.variants.get_or_init(|| (0..Limit::TRUST_MAX).map(|_| OnceLock::new()).collect());
        variants[usize::from(variant.trust) - 1].get_or_init(|| variant)
    }

    /// The numbers of a plain version at this trust.
    pub(super) fn scaled(&self, trust: u8) -> Limit {
        self.known_variant(trust).map_or_else(|| scaled(&self.limit, trust), |variant| variant.limit)
    }
}

/// The numbers of a state at this trust. If a limit cannot be scaled, no state was ever written with the scaled
/// numbers, and the plain ones are returned.
pub fn scaled(limit: &Limit, trust: u8) -> Limit {
    limit.trusted(trust).unwrap_or(*limit)
}

/// One instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// On the monotonic clock, which buckets and logs use.
    pub steady: Nanos,
    /// On the wall clock, which windows use.
    pub wall: Nanos,
}

impl ClockPair {
    /// The instant on the clock that a limit uses.
    pub fn on_clock_of(&self, limit: &Limit) -> Nanos {
        let windows = limit.meter().and_then(|meter| meter.windows());
        if windows.is_some() { self.wall } else { self.steady }
    }
}

impl From<Nanos> for ClockPair {
    /// For stores with a single clock.
    fn from(now: Nanos) -> ClockPair {
        ClockPair { steady: now, wall: now }
    }
}
