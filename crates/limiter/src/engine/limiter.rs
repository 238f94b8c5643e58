//! The engine: a limiter with its policy in force.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use tidegate_core::{Limit, Nanos, Quota};
use tidegate_policy::{Facts, Overrides, Plan, RuleSet};

use super::active::Active;
use super::ad_hoc::AdHocBuckets;
use super::beside::Besides;
use super::bursts::BurstWatch;
use super::counting::stats::{CountScope, Stats};
use super::decide::conclude::CanWait;
use super::decide::fallback::{Fallback, ShareBinder};
use super::decision::{Decision, Refuser, Ruling};
use super::live_gates::LiveGates;
use super::observe::Observer;
use super::queue::WaitQueues;
use super::render::jitter;
use super::trust::TrustBook;
use crate::{Clock, Intent, LimitError, Memory, MemoryError, MemoryOptions, MonotonicClock, Store};

/// How many keys burst detectors can track at once.
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
    /// Held during a swap, so that there is one at a time.
    pub(super) swapping: Mutex<()>,
    pub(super) bursts: BurstWatch,
    pub(super) queues: WaitQueues,
    pub(super) stats: Stats,
    /// Decides while the store fails.
    pub(super) fallback: Fallback,
    /// Ad hoc buckets in this node's memory.
    pub(super) ad_hoc: Option<AdHocBuckets<C>>,
    /// Is the store shared between nodes, so that it also holds ad hoc buckets?
    pub(super) is_shared: bool,
    /// Held while penalties are reported that this node has heard of late.
    pub(super) reporting_late: Mutex<()>,
    /// Is told of denials and penalties.
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) kill_switch: AtomicBool,
    /// Blocks and exemptions beside those of the policy.
    pub(super) live_gates: LiveGates,
    /// Other numbers of limits for some clients.
    pub(super) overrides: ArcSwapOption<Overrides>,
    /// Those that decide the same requests for comparison.
    pub(super) besides: Besides,
    /// Is its policy only tried out, so that its decisions are not counted, and its denials are nobody's violations?
    pub(super) is_tried_out: bool,
    /// Are requests with an invalid credential treated as anonymous?
    pub(super) admits_invalid: AtomicBool,
    /// Where trust is computed from, if it is.
    pub(super) trust_book: Option<Arc<TrustBook>>,
}

/// What happens to a request with an invalid credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidCredentials {
    /// It is denied, whatever the limits say. Otherwise a client could shed its identity, and the limits tied
    /// to it, by sending a broken credential.
    #[default]
    Deny,
    /// It is treated as anonymous; only the descriptor `credential` tells the two apart.
    Anonymous,
}

/// The operation that the engine performs on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Check,
    /// A place in a queue is enough, and counts as an admission.
    TakePlace,
    /// Like `TakePlace`, but a request in a queue is counted when its wait ends.
    #[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only `async` can wait in a queue"))]
    Admit,
    /// Like `Admit`, for a request that has waited since this instant and is decided again.
    #[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only `async` can wait in a queue"))]
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

    /// How long the request has waited already.
    pub(super) fn waited(self, now: Nanos) -> Nanos {
        if let Operation::AdmitAgain(since) = self { now.saturating_sub(since) } else { Nanos::ZERO }
    }

    /// Is this the first decision on the request, so that burst detectors count it?
    pub(super) fn is_new(self) -> bool {
        matches!(self, Operation::Check | Operation::TakePlace | Operation::Admit)
    }

    /// Is the decision counted at once?
    fn counts(self, ruling: &Ruling) -> bool {
        match self {
            Operation::Check | Operation::TakePlace => true,
            Operation::Admit | Operation::AdmitAgain(_) => ruling.queued.is_none(),
            Operation::Peek => false,
        }
    }
}

impl Limiter {
    /// A limiter in this process's memory, with the default size, on the monotonic clock.
    ///
    /// # Errors
    /// The policy has more limits than a store can hold, or the memory cannot be allocated.
    pub fn new(rules: impl Into<RuleSet>) -> Result<Limiter, LimiterError> {
        Limiter::in_memory(rules, MemoryOptions::default(), MonotonicClock::new())
    }
}

impl<C: Clock + Clone> Limiter<Memory<C>, C> {
    /// A limiter in this process's memory, with the given size and clock.
    ///
    /// # Errors
    /// The policy has more limits than a store can hold, or the memory cannot be allocated.
    pub fn in_memory(
        rules: impl Into<RuleSet>,
        options: MemoryOptions,
        clock: C,
    ) -> Result<Self, LimiterError> {
        let memory = Memory::with_clock(options, clock.clone())?;
        Ok(Limiter::with_store(rules, memory, clock)?)
    }
}

/// Why a [`Limiter`] could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The store cannot hold the policy's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The memory for the keys cannot be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// A limiter on any store.
    ///
    /// # Errors
    /// The policy has more limits than the store can hold, or the store cannot count one of them.
    pub fn with_store(rules: impl Into<RuleSet>, store: S, clock: C) -> Result<Self, LimitError> {
        let (stats, rules) = (Stats::new(), rules.into());
        let names = stats.names_of(&rules);
        let mut active = Active::bind(rules, &store, &names, 1, clock.now())?;
        stats.count_for(&mut active);
        stats.use_names(names, &active);
        let is_shared = store.ad_hoc(any_limit()).is_some();
        Ok(Limiter {
            store,
            clock,
            active: ArcSwap::from_pointee(active),
            swapping: Mutex::default(),
            reporting_late: Mutex::default(),
            bursts: BurstWatch::new(BURST_KEYS_MAX),
            queues: WaitQueues::default(),
            stats,
            fallback: Fallback::default(),
            ad_hoc: None,
            is_shared,
            observer: None,
            kill_switch: AtomicBool::new(false),
            live_gates: LiveGates::default(),
            overrides: ArcSwapOption::empty(),
            besides: Besides::default(),
            is_tried_out: false,
            admits_invalid: AtomicBool::new(false),
            trust_book: None,
        })
    }

    /// Replaces the policy, and returns its version. State belongs to the name of a limit: what was used stays
    /// used, counters continue, and requests in progress finish under the policy they started with.
    ///
    /// # Errors
    /// The store cannot hold more limits, or cannot count one of them; then the old policy stays, and no limit
    /// is edited.
    pub fn swap(&self, rules: impl Into<RuleSet>) -> Result<u64, LimitError> {
        self.swap_to(rules, None)
    }

    /// The same, where the policy has a version number of its own, such as that of a database. `None` is one more than
    /// the version in force.
    ///
    /// # Errors
    /// As for [`Limiter::swap`].
    pub fn swap_to(&self, rules: impl Into<RuleSet>, version: Option<u64>) -> Result<u64, LimitError> {
        let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = rules.into();
        let names = self.stats.names_of(&rules);
        let version = version.unwrap_or_else(|| self.active.load().version + 1);
        let now = self.clock.now();
        // This registers all limits or none, and nothing after it can fail.
        let mut active = Active::bind(rules, &self.store, &names, version, now)?;
        active.swaps = self.active.load().swaps + 1;
        self.stats.count_for(&mut active);
        self.bind_share(&active, now, ShareBinder::Policy);
        self.stats.use_names(names, &active);
        active.bind_overrides(self.overrides.load().as_deref(), &self.store);
        self.active.store(Arc::new(active));
        Ok(version)
    }

    /// Could the store count and hold the limits of these rules, so that [`Limiter::swap`] can put them in force? Nothing
    /// changes.
    ///
    /// # Errors
    /// Why the store could not hold them.
    pub fn check_rules(&self, rules: &RuleSet) -> Result<(), LimitError> {
        Active::check(rules, &self.store)
    }

    /// The same limiter, where the policy that it was made with has this version.
    #[must_use]
    pub fn starting_at(self, version: u64) -> Limiter<S, C> {
        let mut active = self.active.into_inner();
        Arc::get_mut(&mut active)
            .expect("nobody else has the limiter, so nobody decides by its policy")
            .version = version;
        Limiter { active: ArcSwap::from(active), ..self }
    }

    /// The version of the policy in force: 1 at first unless [`Limiter::starting_at`] says otherwise, incremented by
    /// every swap.
    pub fn version(&self) -> u64 {
        self.active.load().version
    }

    /// Switches the kill switch on or off. While it is on, everything is admitted.
    pub fn set_kill_switch(&self, on: bool) {
        self.kill_switch.store(on, Ordering::Relaxed);
        self.tell_besides();
    }

    /// Is the kill switch on?
    pub fn kill_switch(&self) -> bool {
        self.kill_switch.load(Ordering::Relaxed)
    }

    /// Sets what happens to requests with an invalid credential; by default they are denied.
    pub fn set_invalid_credentials(&self, choice: InvalidCredentials) {
        self.admits_invalid.store(choice == InvalidCredentials::Anonymous, Ordering::Relaxed);
        self.tell_besides();
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The decision for a ruling, with the wall clock's time.
    pub(super) fn make_decision(&self, set: Guard<Arc<Active>>, mut ruling: Ruling) -> Decision {
        ruling.wall = self.clock.wall_at(ruling.at);
        Decision::new(set, ruling)
    }

    /// Adds jitter to the wait, and counts the decision.
    pub(super) fn jitter_and_count(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: Option<&Plan>,
        ruling: &mut Ruling,
        operation: Operation,
    ) {
        add_retry_jitter(set, plan, ruling);
        if operation.counts(ruling) {
            self.count_decision(set, facts, plan, ruling, CountScope::default());
        }
    }
}

/// An arbitrary limit, to find out whether a store supports ad hoc buckets.
fn any_limit() -> Limit {
    Quota::per_second(1).expect("1 per second is in range").into()
}

/// Sets the seconds of `Retry-After`, with the jitter of the limit that denied.
pub(super) fn add_retry_jitter(set: &Active, plan: Option<&Plan>, ruling: &mut Ruling) {
    let (Some(Refuser::Rule(number)), Some(wait), Some(plan)) = (ruling.refuser, ruling.retry_after, plan)
    else {
        return;
    };
    let rule = set.rules.rule(number);
    if rule.retry_jitter.0 > 0
        && let Some(item) = plan.items().iter().find(|item| item.rule == number)
    {
        // The bucket's own key: whoever shares a bucket waits equally long, and others do not, whatever the
        // request looks like otherwise.
        let bucket = jitter::identity([rule.name.as_bytes(), plan.key(item)].into_iter());
        ruling.retry_after_secs = Some(jitter::retry_after_secs(wait, rule.retry_jitter.0, bucket));
    }
}

impl<S, C> fmt::Debug for Limiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load();
        let (limits, version) = (active.rules.rules().len(), active.version);
        f.debug_struct("Limiter").field("limits", &limits).field("version", &version).finish_non_exhaustive()
    }
}
