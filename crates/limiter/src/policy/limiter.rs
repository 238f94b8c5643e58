//! The engine: plan, one store call, settle.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Descriptor, Facts, KeyBytes, Plan, Request, RuleSet};

use super::active::{Active, Charges};
use super::bursts::BurstWatch;
use super::decision::{Decision, Reason, Refuser, RuleStanding, Ruling};
use super::jitter;
use super::queue::Rooms;
use super::settle::{Caller, settle};
use super::stats::{Counted, Stats};
use super::waiting::Reserved;
use crate::{Clock, Intent, LimitError, Memory, MemoryOptions, MonotonicClock, Store, Verdict};

/// How many keys burst detectors tell apart at once.
pub const BURST_KEYS_MAX: usize = 262_144;

/// Decides requests by a policy.
///
/// ```
/// use tidegate::policy::{Limiter, Policy, Request};
///
/// let policy = Policy::parse(
///     "version: 1\n\
///      limits:\n\
///      - { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 2 } }\n",
/// )?;
/// let limiter = Limiter::new(policy)?;
/// let request = Request::new().user("42").path("/api/videos");
/// assert!(limiter.check(&request).is_allowed());
/// assert!(limiter.check(&request).is_allowed());
///
/// let denied = limiter.check(&request);
/// assert_eq!(denied.violated_rule(), Some("per-user"));
/// assert_eq!(denied.retry_after_secs(), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<S = Memory, C = MonotonicClock> {
    pub(super) store: S,
    pub(super) clock: C,
    pub(super) active: ArcSwap<Active>,
    /// One swap at a time.
    swapping: Mutex<()>,
    pub(super) bursts: BurstWatch,
    pub(super) rooms: Rooms,
    pub(super) stats: Stats,
    kill_switch: AtomicBool,
}

/// What is asked of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Check,
    /// A place in a queue will do, and is counted as an admission.
    Reserve,
    /// The same, but a place in a queue is counted by whoever waits there.
    #[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
    Admit,
    Peek,
}

impl Ask {
    fn intent(self) -> Intent {
        match self {
            Ask::Check | Ask::Reserve | Ask::Admit => Intent::Take,
            Ask::Peek => Intent::Peek,
        }
    }

    fn caller(self) -> Caller {
        match self {
            Ask::Reserve | Ask::Admit => Caller::Waits,
            Ask::Check | Ask::Peek => Caller::DoesNotWait,
        }
    }

    /// Is a decision counted when it is made?
    fn counts(self, ruling: &Ruling) -> bool {
        match self {
            Ask::Check | Ask::Reserve => true,
            Ask::Admit => ruling.queued.is_none(),
            Ask::Peek => false,
        }
    }
}

/// What is known before the limits are asked.
pub(super) enum Opening {
    /// It passes, whatever the limits say.
    Admitted(Reason),
    /// It is refused already, and until when.
    Refused(Reason, Refuser, Option<Nanos>),
    /// The limits decide, as planned.
    Open,
}

pub(super) type ShadowDenied = SmallVec<[Refuser; 4]>;

impl Opening {
    /// The ruling, where the limits have no part in it.
    pub(super) fn ruling(self, now: Nanos) -> Option<Ruling> {
        match self {
            Opening::Admitted(reason) => Some(Ruling::admitted(now, reason)),
            Opening::Refused(reason, refuser, until) => Some(Ruling::refused(now, reason, refuser, until)),
            Opening::Open => None,
        }
    }
}

impl Limiter {
    /// In this process's memory, with the default size, on the monotonic clock.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold.
    pub fn new(rules: impl Into<RuleSet>) -> Result<Limiter, LimitError> {
        Limiter::in_memory(rules, MemoryOptions::default(), MonotonicClock::new())
    }
}

impl<C: Clock + Clone> Limiter<Memory<C>, C> {
    /// In this process's memory, of a size and on a clock of yours.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold.
    pub fn in_memory(
        rules: impl Into<RuleSet>,
        options: MemoryOptions,
        clock: C,
    ) -> Result<Self, LimitError> {
        Limiter::with_store(rules, Memory::with_clock(options, clock.clone()), clock)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// On any store.
    ///
    /// # Errors
    /// When the policy has more limits than the store can hold.
    pub fn with_store(rules: impl Into<RuleSet>, store: S, clock: C) -> Result<Self, LimitError> {
        let (stats, rules) = (Stats::new(), rules.into());
        let names = stats.names_of(&rules);
        let active = Active::bind(rules, &store, &names, 1, clock.now())?;
        stats.use_names(names);
        Ok(Limiter {
            store,
            clock,
            active: ArcSwap::from_pointee(active),
            swapping: Mutex::default(),
            bursts: BurstWatch::new(BURST_KEYS_MAX),
            rooms: Rooms::default(),
            stats,
            kill_switch: AtomicBool::new(false),
        })
    }

    /// Puts another policy into force. State belongs to a limit's name: what was
    /// used stays used, counters go on, and requests under way are finished under
    /// the policy they began with.
    ///
    /// # Errors
    /// When the store can hold no more limits; then the old policy stays.
    pub fn swap(&self, rules: impl Into<RuleSet>) -> Result<u64, LimitError> {
        let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = rules.into();
        let names = self.stats.names_of(&rules);
        let version = self.active.load().version + 1;
        let active = Active::bind(rules, &self.store, &names, version, self.clock.now())?;
        self.stats.use_names(names);
        self.active.store(Arc::new(active));
        Ok(version)
    }

    /// Which policy is in force: one at first, one more with every swap.
    pub fn version(&self) -> u64 {
        self.active.load().version
    }

    /// Admits everything, or no longer.
    pub fn set_kill_switch(&self, on: bool) {
        self.kill_switch.store(on, Ordering::Relaxed);
    }

    /// Is everything admitted?
    pub fn kill_switch(&self) -> bool {
        self.kill_switch.load(Ordering::Relaxed)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The order of things: kill switch, `block`, `allow`, bursts, unknown
    /// tenants, then the limits, for which `plan` is filled. What a policy that is
    /// only watched would have refused is added to `shadow_denied`.
    pub(super) fn open(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (ask, now): (Ask, Nanos),
        plan: &mut Plan,
        shadow_denied: &mut ShadowDenied,
    ) -> Opening {
        if self.kill_switch() {
            return Opening::Admitted(Reason::KillSwitch);
        }
        let rules = &set.rules;
        if let Some(entry) = rules.block().find(facts, now) {
            if !rules.is_shadow() {
                return Opening::Refused(Reason::Blocked, Refuser::Block, entry.until);
            }
            shadow_denied.push(Refuser::Block);
        }
        if rules.allow().find(facts, now).is_some() {
            return Opening::Admitted(Reason::Allowlisted);
        }
        if let Some((detector, until)) = self.burst_block(set, facts, ask, now) {
            if !rules.is_shadow() {
                return Opening::Refused(Reason::BurstBlocked, Refuser::Detector(detector), Some(until));
            }
            shadow_denied.push(Refuser::Detector(detector));
        }
        rules.plan_into(facts, plan);
        if plan.unknown_tenant && ask != Ask::Peek {
            self.stats.unknown_tenants.add(0);
        }
        if plan.unknown_tenant && rules.denies_unknown_tenants() && facts.request.cost > Cost::ZERO {
            if !rules.is_shadow() {
                return Opening::Refused(Reason::UnknownTenant, Refuser::UnknownTenant, None);
            }
            shadow_denied.push(Refuser::UnknownTenant);
        }
        Opening::Open
    }

    /// Asks every detector; if several block, the longest block counts.
    fn burst_block(&self, set: &Active, facts: &Facts<'_, '_>, ask: Ask, now: Nanos) -> Option<(u32, Nanos)> {
        let counts = ask != Ask::Peek && facts.request.cost > Cost::ZERO;
        let mut longest: Option<(u32, Nanos)> = None;
        for (number, detector) in set.detectors.iter().enumerate() {
            let mut key = KeyBytes::new();
            if facts.write_key(&set.rules.detectors()[number].key, &mut key).is_err() {
                continue;
            }
            let watched = self.bursts.watch(detector, &key, counts, now);
            if let Some(action) = watched.action {
                self.stats.count_action(action);
            }
            if let Some(until) = watched.blocked_until
                && longest.is_none_or(|(_, held)| until > held)
            {
                longest = Some((number as u32, until));
            }
        }
        longest
    }

    /// What is left to do once it is decided: jitter, and counting.
    pub(super) fn close(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: Option<&Plan>,
        ruling: &mut Ruling,
        ask: Ask,
    ) {
        spread_retries(set, facts, ruling);
        if ask.counts(ruling) {
            self.stats.count(set, facts, plan, ruling, Counted::default());
        }
    }
}

/// The seconds of `Retry-After`, with the jitter that the refusing limit asks for.
pub(super) fn spread_retries(set: &Active, facts: &Facts<'_, '_>, ruling: &mut Ruling) {
    if let (Some(Refuser::Rule(number)), Some(wait)) = (ruling.refuser, ruling.retry_after) {
        let jitter = set.rules.rule(number).retry_jitter.0;
        if jitter > 0 {
            let seconds = jitter::retry_after_secs(wait, jitter, identity_of(facts));
            ruling.retry_after_secs = Some(seconds);
        }
    }
}

/// What tells a client from others, for spreading their retries.
fn identity_of(facts: &Facts<'_, '_>) -> u64 {
    let subject = Descriptor::Jwt("sub".into());
    let parts = [&subject, &Descriptor::User, &Descriptor::Client, &Descriptor::Ip, &Descriptor::Path];
    let values: SmallVec<[Cow<'_, str>; 5]> =
        parts.into_iter().map(|part| facts.value(part).unwrap_or_default()).collect();
    jitter::identity(values.iter().map(|value| value.as_bytes()))
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request, and charges it if it is admitted. A limit whose
    /// strategy is `queue` refuses here; [`Limiter::admit`] waits.
    pub fn check(&self, request: &Request<'_>) -> Decision {
        self.check_at(request, self.clock.now())
    }

    /// [`Limiter::check`] as of an instant, for those that have read the clock.
    pub fn check_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide(request, Ask::Check, now).0
    }

    /// What [`Limiter::check`] would say; nothing is charged or counted, and
    /// what remains is told as it stands.
    pub fn peek(&self, request: &Request<'_>) -> Decision {
        self.decide(request, Ask::Peek, self.clock.now()).0
    }

    /// Decides a request without waiting, where a `queue` limit may make it
    /// wait: then its cost is reserved, and [`Decision::queued`] says for how
    /// long. The reservation stays; this is for worlds in which time is told, not
    /// waited for.
    pub fn reserve_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide(request, Ask::Reserve, now).0
    }

    /// Gives `cost` back to every limit that applies, never above a capacity,
    /// and tells where they stand then.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        let now = self.clock.now();
        let set = self.active.load();
        let facts = set.rules.facts(request);
        let plan = set.rules.plan(&facts);
        let charges = set.charges_of(&plan, request.trust, cost, &self.store);
        let verdict = self.store.charge_now(Intent::Refund, &charges, now);
        let ruling = settle(&set.rules, &plan, &verdict, now, Caller::DoesNotWait);
        drop((charges, facts));
        Decision::new(set, ruling)
    }

    /// A reservation is rare and large, so it is kept apart.
    pub(super) fn decide(
        &self,
        request: &Request<'_>,
        ask: Ask,
        now: Nanos,
    ) -> (Decision, Option<Box<Reserved>>) {
        let set = self.active.load();
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        let opening = self.open(&set, &facts, (ask, now), &mut plan, &mut shadow_denied);
        if let Some(mut ruling) = opening.ruling(now) {
            ruling.shadow_denied = shadow_denied;
            self.close(&set, &facts, None, &mut ruling, ask);
            drop(facts);
            return (Decision::new(set, ruling), None);
        }
        let mut charges = set.charges(&plan, request.trust, &self.store);
        let verdict = self.store.charge_now(ask.intent(), &charges, now);
        let mut ruling = settle(&set.rules, &plan, &verdict, now, ask.caller());
        let mut places = None;
        if !ruling.allowed && ask.caller() == Caller::Waits {
            places = self.queue_up(&set, &plan, &mut charges, &mut ruling);
        }
        let delays: Option<SmallVec<[Nanos; 8]>> =
            places.as_ref().map(|_| charges.iter().map(|charge| charge.delay).collect());
        shadow_denied.append(&mut ruling.shadow_denied);
        ruling.shadow_denied = shadow_denied;
        self.close(&set, &facts, Some(&plan), &mut ruling, ask);
        drop((charges, facts));
        let trust = request.trust;
        let reserved = places.zip(delays).map(|(places, delays)| {
            let taken =
                |(standing, delay): (&RuleStanding, Nanos)| standing.decision.is_allowed().then_some(delay);
            let taken = ruling.standings.iter().zip(delays).map(taken).collect();
            Box::new(Reserved { places, plan, taken, trust, at: now })
        });
        (Decision::new(set, ruling), reserved)
    }

    /// One call to the store, for those that retry.
    pub(super) fn take(&self, charges: &Charges<'_>, now: Nanos) -> Verdict {
        self.store.charge_now(Intent::Take, charges, now)
    }
}

impl<S, C> fmt::Debug for Limiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load();
        let (limits, version) = (active.rules.rules().len(), active.version);
        f.debug_struct("Limiter").field("limits", &limits).field("version", &version).finish_non_exhaustive()
    }
}
