//! One generation of a limit: what it is between two edits, in every variant.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tidegate_core::{Carry, Limit, LimitVariant, Meter, Nanos};

use super::{ClockPair, scaled};

/// One generation of a limit.
///
/// It refers to the next one, so whoever holds a generation can follow all edits since then, and the generations that
/// nobody holds are dropped. Each edit has its own instant and its own rounding, so the edits since then cannot be
/// replaced by one. They are few: the policy in force holds the newest generations, a request those of the policy by
/// which it was decided. So there is one link, of less than 320 bytes, for each edit of the limit during the longest
/// request in progress. Only whoever puts policies in force makes edits, no client does.
#[derive(Debug)]
pub struct Generation {
    /// How many edits came before it.
    pub index: u32,
    /// Its numbers without override and trust.
    pub limit: Limit,
    /// When it took effect, and what it did with the tokens then.
    pub(super) since: ClockPair,
    pub(super) carry: Carry,
    next: NextGeneration,
    /// The number of its plain version.
    number: AtomicU32,
    /// The numbers of its variants without override, at index trust − 1; zero for those that were never used.
    trusted: OnceLock<Box<[AtomicU32]>>,
    /// The numbers of its variants with an override.
    overridden: OnceLock<RwLock<HashMap<LimitVariant, u32>>>,
    /// Every [`crate::LimitRef`] of the generation holds a clone.
    in_use: Arc<()>,
    /// Shared by all generations of the name.
    uses: Arc<VariantUses>,
}

/// In which variants keys of a name may be charged.
#[derive(Debug, Default)]
struct VariantUses {
    /// May keys have trust? True if the name was ever registered as trusted, or a trusted variant was ever used.
    trusted: AtomicBool,
    /// The longest that a bucket takes to fill in the numbers of an override that is in force, before trust; zero if there
    /// is none.
    longest_fill: AtomicU64,
    /// Is it told which overrides are in force? If not, every override counts in whose numbers a variant was ever made.
    is_told: AtomicBool,
}

impl Generation {
    /// The first generation of a name, or the one that an edit makes after `previous`.
    pub(super) fn new(
        limit: Limit,
        carry: Carry,
        since: ClockPair,
        previous: Option<&Generation>,
    ) -> Generation {
        Generation {
            index: previous.map_or(0, |previous| previous.index + 1),
            limit,
            since,
            carry,
            next: NextGeneration::default(),
            number: AtomicU32::new(0),
            trusted: OnceLock::new(),
            overridden: OnceLock::new(),
            in_use: Arc::default(),
            uses: previous.map_or_else(Arc::default, |previous| previous.uses.clone()),
        }
    }

    /// The generation that replaced it in an edit.
    #[inline]
    pub(super) fn next(&self) -> Option<&Generation> {
        self.next.0.get().map(|next| &**next)
    }

    pub(super) fn replace_by(&self, next: Arc<Generation>) {
        assert!(self.next.0.set(next).is_ok(), "only the newest generation is edited");
    }

    /// The newest generation of its name.
    #[inline]
    pub fn newest(&self) -> &Generation {
        let mut generation = self;
        while let Some(next) = generation.next() {
            generation = next;
        }
        generation
    }

    /// Records that keys of this limit may have trust.
    pub(super) fn trust_keys(&self) {
        self.uses.trusted.store(true, Ordering::Relaxed);
    }

    /// May a key have more trust at its next charge?
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.uses.trusted.load(Ordering::Relaxed)
    }

    /// Records that a variant has the numbers of an override, which is in force if nobody tells otherwise.
    pub(super) fn note_fill_time(&self, overridden: &Limit) {
        if !self.uses.is_told.load(Ordering::Relaxed) {
            self.uses.longest_fill.fetch_max(overridden.fill_time().get().max(1), Ordering::Relaxed);
        }
    }

    /// Records how long a bucket takes to fill in the numbers of each override that is in force, and that there are no others.
    pub(super) fn set_fill_times(&self, overridden: impl Iterator<Item = Nanos>) {
        let longest = overridden.map(|time| time.get().max(1)).max().unwrap_or(0);
        self.uses.is_told.store(true, Ordering::Relaxed);
        self.uses.longest_fill.store(longest, Ordering::Relaxed);
    }

    /// How long after it is full a bucket that was charged in this variant is full in all numbers that are in force; zero if
    /// there are no others.
    ///
    /// From then on it may be forgotten at any time, and a forgotten bucket is full in whatever numbers come next. An
    /// override that is put in force later and takes longer to fill is not known ahead, so it may find a bucket full that
    /// would otherwise still be filling up: at most once, since its own time to fill counts from then on. Nor does one count
    /// that has ended: who still charges in its numbers, because the request was in progress or another node has not heard of
    /// the end, may find a bucket full likewise. Otherwise a single large override would keep all buckets of its limit for ever.
    /// Those that were charged in its numbers are kept until they are full in the ones that are in force.
    fn override_idle_time(&self, variant: LimitVariant) -> Nanos {
        let longest = self.uses.longest_fill.load(Ordering::Relaxed);
        if longest == 0 && variant.numbers.is_none() {
            return Nanos::ZERO;
        }
        let longest = longest.max(self.limit.fill_time().get());
        // Trust doubles a capacity and raises a rate by half, so twice the time is more than enough.
        Nanos::new(if self.is_trusted() { longest.saturating_mul(2) } else { longest })
    }

    /// Is nothing of a state of this generation used, whatever known variant it is charged in next?
    pub(crate) fn is_idle(&self, variant: LimitVariant, meter: &Meter, word: u64, now: Nanos) -> bool {
        let is_idle = if self.is_trusted() {
            meter.is_idle_at_any_trust(word, self.scaled(variant.untrusted()).capacity(), now)
        } else {
            meter.is_idle(word, now)
        };
        is_idle && meter.is_idle_for(word, self.override_idle_time(variant), now)
    }

    /// How much longer a state must be kept after it is full, until it would be full in any variant.
    pub(super) fn extra_idle_time(&self, variant: LimitVariant, limit: &Limit) -> Nanos {
        let Limit::Meter(meter @ Meter::TokenBucket(_)) = limit else { return Nanos::ZERO };
        let plain = self.is_trusted().then(|| self.scaled(variant.untrusted()).capacity());
        let at_trust = plain.map_or(Nanos::ZERO, |plain| meter.extra_idle_time(plain));
        at_trust.max(self.override_idle_time(variant))
    }

    /// Its numbers in this variant.
    pub(super) fn scaled(&self, variant: LimitVariant) -> Limit {
        if variant == LimitVariant::PLAIN { self.limit } else { scaled(&self.limit, variant) }
    }

    /// The number of its version in this variant; `None` if that was never used.
    pub(super) fn number_at(&self, variant: LimitVariant) -> Option<u32> {
        let cell = match (variant.numbers, usize::from(variant.trust).checked_sub(1)) {
            (None, None) => &self.number,
            (None, Some(index)) => self.trusted.get()?.get(index)?,
            (Some(_), _) => {
                let overridden = self.overridden.get()?.read().unwrap_or_else(PoisonError::into_inner);
                return overridden.get(&variant).copied();
            }
        };
        let number = cell.load(Ordering::Acquire);
        (number != 0).then_some(number)
    }

    /// Each of its versions: its variant and its number.
    pub fn numbers(&self) -> impl Iterator<Item = (LimitVariant, u32)> {
        let highest = if self.trusted.get().is_some() { Limit::TRUST_MAX } else { 0 };
        let overridden: Vec<(LimitVariant, u32)> =
            self.overridden.get().map_or_else(Vec::new, |overridden| {
                let overridden = overridden.read().unwrap_or_else(PoisonError::into_inner);
                overridden.iter().map(|(variant, number)| (*variant, *number)).collect()
            });
        let without = (0..=highest).map(LimitVariant::at_trust);
        without.filter_map(|variant| Some((variant, self.number_at(variant)?))).chain(overridden)
    }

    pub(super) fn set_number(&self, variant: LimitVariant, number: u32) {
        let cell = match (variant.numbers, usize::from(variant.trust).checked_sub(1)) {
            (None, None) => &self.number,
            (None, Some(index)) => {
                let cells = || (0..Limit::TRUST_MAX).map(|_| AtomicU32::new(0)).collect();
                &self.trusted.get_or_init(cells)[index]
            }
            (Some(_), _) => {
                let overridden = self.overridden.get_or_init(RwLock::default);
                overridden.write().unwrap_or_else(PoisonError::into_inner).insert(variant, number);
                return;
            }
        };
        cell.store(number, Ordering::Release);
    }

    pub(super) fn token(&self) -> Arc<()> {
        self.in_use.clone()
    }

    /// Does anybody hold a reference to it? If not, nobody can get one, except by registering the newest generation.
    pub(super) fn is_in_use(&self) -> bool {
        let in_use = Arc::strong_count(&self.in_use) > 1;
        // What the last holder did with the states happened before.
        fence(Ordering::Acquire);
        in_use
    }
}

/// The link to the next generation. Dropping a long chain must not recurse.
#[derive(Debug, Default)]
struct NextGeneration(OnceLock<Arc<Generation>>);

impl Drop for NextGeneration {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(generation) = next {
            next = Arc::into_inner(generation).and_then(|mut generation| generation.next.0.take());
        }
    }
}
