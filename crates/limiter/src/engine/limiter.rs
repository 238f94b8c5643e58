//! The engine, and the policy it has in force.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;
use tidegate_core::{Limit, Nanos, Quota};
use tidegate_policy::{Descriptor, Facts, Plan, RuleSet};

use super::active::Active;
use super::ad_hoc::AdHocBuckets;
use super::bursts::BurstWatch;
use super::counting::stats::{CountScope, Stats};
use super::decide::conclude::CanWait;
use super::decide::fallback::Fallback;
use super::decision::{Decision, Refuser, Ruling};
use super::queue::WaitQueues;
use super::render::jitter;
use crate::{Clock, Intent, LimitError, Memory, MemoryError, MemoryOptions, MonotonicClock, Store};

/// How many keys burst detectors tell apart at once.
pub const BURST_KEYS_MAX: usize = 262_144;

/// Decides requests by a policy.
///
/// ```
/// use tidegate::engine::{Limiter, Policy, Request};
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
    pub(super) swapping: Mutex<()>,
    pub(super) bursts: BurstWatch,
    pub(super) rooms: WaitQueues,
    pub(super) stats: Stats,
    /// What decides while the store cannot.
    pub(super) fallback: Fallback,
    /// Ad-hoc buckets of this node.
    pub(super) ad_hoc: Option<AdHocBuckets<C>>,
    /// Does the store keep ad-hoc buckets too, since nodes share it?
    pub(super) is_shared: bool,
    kill_switch: AtomicBool,
    /// Do requests go on whose credential does not hold?
    pub(super) takes_invalid: AtomicBool,
}

/// What becomes of a request whose credential is there and does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidCredentials {
    /// It is refused, whatever the limits say. Otherwise a client could take its identity off, and with it
    /// the limits that go by it, by sending a credential that is broken.
    #[default]
    Deny,
    /// It goes on like one without a credential; only the descriptor `credential` tells them apart.
    Anonymous,
}

/// What is asked of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Check,
    /// A place in a queue will do, and is counted as an admission.
    TakePlace,
    /// The same, but a place in a queue is counted by whoever waits there.
    #[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
    Admit,
    /// The same of a request that has waited since it came, and asks again.
    #[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
    AdmitAgain(Nanos),
    Peek,
}

impl Operation {
    pub(super) fn intent(self) -> Intent {
        match self {
            Operation::Check | Operation::TakePlace | Operation::Admit | Operation::AdmitAgain(_) => {
                Intent::Take
            }
            Operation::Peek => Intent::Peek,
        }
    }

    pub(super) fn caller(self) -> CanWait {
        match self {
            Operation::TakePlace | Operation::Admit | Operation::AdmitAgain(_) => CanWait::Waits,
            Operation::Check | Operation::Peek => CanWait::DoesNotWait,
        }
    }

    /// How long it has waited already.
    pub(super) fn waited(self, now: Nanos) -> Nanos {
        if let Operation::AdmitAgain(came) = self { now.saturating_sub(came) } else { Nanos::ZERO }
    }

    /// Is it a request that nobody has counted yet?
    pub(super) fn is_new(self) -> bool {
        matches!(self, Operation::Check | Operation::TakePlace | Operation::Admit)
    }

    /// Is a decision counted when it is made?
    fn counts(self, ruling: &Ruling) -> bool {
        match self {
            Operation::Check | Operation::TakePlace => true,
            Operation::Admit | Operation::AdmitAgain(_) => ruling.queued.is_none(),
            Operation::Peek => false,
        }
    }
}

impl Limiter {
    /// In this process's memory, with the default size, on the monotonic clock.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold, or the memory cannot be reserved.
    pub fn new(rules: impl Into<RuleSet>) -> Result<Limiter, LimiterError> {
        Limiter::in_memory(rules, MemoryOptions::default(), MonotonicClock::new())
    }
}

impl<C: Clock + Clone> Limiter<Memory<C>, C> {
    /// In this process's memory, of a size and on a clock of yours.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold, or the memory cannot be reserved.
    pub fn in_memory(
        rules: impl Into<RuleSet>,
        options: MemoryOptions,
        clock: C,
    ) -> Result<Self, LimiterError> {
        let memory = Memory::with_clock(options, clock.clone())?;
        Ok(Limiter::with_store(rules, memory, clock)?)
    }
}

/// Why there is no [`Limiter`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The store cannot hold the policy's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// There is no memory for the keys.
    #[error(transparent)]
    Memory(#[from] MemoryError),
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
        let is_shared = store.ad_hoc(any_limit()).is_some();
        Ok(Limiter {
            store,
            clock,
            active: ArcSwap::from_pointee(active),
            swapping: Mutex::default(),
            bursts: BurstWatch::new(BURST_KEYS_MAX),
            rooms: WaitQueues::default(),
            stats,
            fallback: Fallback::default(),
            ad_hoc: None,
            is_shared,
            kill_switch: AtomicBool::new(false),
            takes_invalid: AtomicBool::new(false),
        })
    }

    /// Puts another policy into force. State belongs to a limit's name: what was
    /// used stays used, counters go on, and requests under way are finished under
    /// the policy they began with.
    ///
    /// # Errors
    /// When the store can hold no more limits, or cannot count one of them; then the old policy stays, and none of its
    /// limits is edited.
    pub fn swap(&self, rules: impl Into<RuleSet>) -> Result<u64, LimitError> {
        let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = rules.into();
        let names = self.stats.names_of(&rules);
        let version = self.active.load().version + 1;
        let now = self.clock.now();
        // This names all limits or none, and it is the last that can fail.
        let active = Active::bind(rules, &self.store, &names, version, now)?;
        self.bind_share(&active, now);
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

    /// Says what becomes of requests whose credential does not hold; at first they are refused.
    pub fn set_invalid_credentials(&self, choice: InvalidCredentials) {
        self.takes_invalid.store(choice == InvalidCredentials::Anonymous, Ordering::Relaxed);
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// A decision under a policy, with what the wall clock showed.
    pub(super) fn told(&self, set: Guard<Arc<Active>>, mut ruling: Ruling) -> Decision {
        ruling.wall = self.clock.wall_at(ruling.at);
        Decision::new(set, ruling)
    }

    /// What is left to do once it is decided: jitter, and counting.
    pub(super) fn close(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: Option<&Plan>,
        ruling: &mut Ruling,
        ask: Operation,
    ) {
        spread_retries(set, facts, ruling);
        if ask.counts(ruling) {
            self.stats.count(set, facts, plan, ruling, CountScope::default());
        }
    }
}

/// Some numbers, to see whether a store keeps ad-hoc buckets.
fn any_limit() -> Limit {
    Quota::per_second(1).expect("one a second is in range").into()
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

impl<S, C> fmt::Debug for Limiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load();
        let (limits, version) = (active.rules.rules().len(), active.version);
        f.debug_struct("Limiter").field("limits", &limits).field("version", &version).finish_non_exhaustive()
    }
}
