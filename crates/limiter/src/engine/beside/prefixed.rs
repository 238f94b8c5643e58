//! A store whose limits and burst detectors have a prefix, so that they share nothing with those of another limiter.

use tidegate_core::{Limit, LimitVariant, Nanos, OverrideNumbers};

use crate::engine::render::jitter::identity;
use crate::{
    BurstCount, BurstCounts, BurstDetector, BurstSubject, Charge, Intent, KnownBurst, LateBurst, Later,
    LimitError, LimitRef, NamedLimit, NowOrLater, SharedBursts, SharedPenalty, SharedPenaltyPage, Store,
    Verdict,
};

/// A store whose limits have a prefix before their names. Their state is apart from that of limits without it, and so
/// are the counts and penalties of burst detectors, which nobody is told of. What fails here is no failure of the store
/// without the prefix.
#[derive(Debug)]
pub struct PrefixedStore<S> {
    store: S,
    prefix: Box<str>,
    /// Changes the ids of detectors.
    salt: u64,
}

impl<S: Store> PrefixedStore<S> {
    /// A store with a prefix.
    pub fn new(store: S, prefix: &str) -> PrefixedStore<S> {
        let salt = identity(std::iter::once(prefix.as_bytes()));
        PrefixedStore { store: store.beside(), prefix: prefix.into(), salt }
    }
}

impl<S> PrefixedStore<S> {
    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Calls `with` with the limits by their names in the store.
    fn named<T>(&self, limits: &[NamedLimit<'_>], with: impl FnOnce(&[NamedLimit<'_>]) -> T) -> T {
        let names: Vec<String> =
            limits.iter().map(|limit| format!("{}{}", self.prefix, limit.name)).collect();
        let limits: Vec<NamedLimit<'_>> =
            limits.iter().zip(&names).map(|(limit, name)| NamedLimit { name, ..*limit }).collect();
        with(&limits)
    }

    /// An error by the name that the caller knows.
    fn told(&self, error: LimitError) -> LimitError {
        let LimitError::NotShared { name, why } = error else { return error };
        let name = name.strip_prefix(&*self.prefix).map(Box::from).unwrap_or(name);
        LimitError::NotShared { name, why }
    }
}

impl<S: Store> Store for PrefixedStore<S> {
    type Error = S::Error;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.named(limits, |limits| self.store.limits(limits, now)).map_err(|error| self.told(error))
    }

    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        self.named(limits, |limits| self.store.check_limits(limits)).map_err(|error| self.told(error))
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        self.store.variant(limit, variant)
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        self.store.expect_overrides(limit, numbers);
    }

    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, S::Error>> {
        self.store.charge(intent, charges, now)
    }

    fn send_together(&self, poll: &mut dyn FnMut()) {
        self.store.send_together(poll);
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.store.hand_back(charges, at);
    }

    fn forget_keys(&self, after: Intent, charges: &[Charge<'_>]) {
        self.store.forget_keys(after, charges);
    }

    fn pace(&self, charge: &Charge<'_>, delayed: u64, now: Nanos) -> Option<Nanos> {
        self.store.pace(charge, delayed, now)
    }

    /// Ad hoc buckets have no policy, so no policy is tried out with them.
    fn ad_hoc(&self, _limit: Limit) -> Option<LimitRef> {
        None
    }

    fn shared_bursts(&self) -> Option<&dyn SharedBursts> {
        self.store.shared_bursts().is_some().then_some(self)
    }

    fn nodes(&self) -> u32 {
        self.store.nodes()
    }
}

impl<S: Store> PrefixedStore<S> {
    fn bursts(&self) -> &dyn SharedBursts {
        self.store.shared_bursts().expect("a store shares detectors always or never")
    }
}

/// Penalties are those of a policy that is only tried out: they are neither listed nor reported.
impl<S: Store> SharedBursts for PrefixedStore<S> {
    fn key(&self, detector: &BurstDetector, key: &[u8]) -> u128 {
        self.bursts().key(&BurstDetector { id: detector.id ^ self.salt, ..*detector }, key)
    }

    fn known(&self, count: &BurstCount, takes_action: bool, now: Nanos) -> KnownBurst {
        self.bursts().known(count, takes_action, now)
    }

    fn add(&self, counts: &[BurstCount], describe: &dyn Fn(usize) -> BurstSubject, now: Nanos) -> bool {
        self.bursts().add(counts, describe, now)
    }

    fn has_late(&self) -> bool {
        false
    }

    fn take_late(&self, _most: usize, _now: Nanos) -> Vec<LateBurst> {
        Vec::new()
    }

    fn ask(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        self.bursts().ask(counts, now)
    }

    fn look(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        self.bursts().look(counts, now)
    }

    fn asks_always(&self) -> bool {
        self.bursts().asks_always()
    }

    fn list(&self, _penalty: SharedPenalty) {}

    fn listed(&self, _after: Option<u128>, _most: usize) -> Later<'_, Option<SharedPenaltyPage>> {
        Box::pin(std::future::ready(Some(SharedPenaltyPage::default())))
    }

    fn lift(&self, key: u128) -> Later<'_, bool> {
        self.bursts().lift(key)
    }
}
