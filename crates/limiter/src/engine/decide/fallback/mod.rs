//! Decisions while the store fails, according to the `on_store_error` of each limit.
//!
//! A `closed` limit denies, and its strategy applies as usual: a limit that only degrades marks the request,
//! and one in shadow mode denies nothing. An `open` limit admits and is not charged. A `local` limit is charged
//! in this node's memory, with this node's share of its numbers. All limits are charged or none, here too.
//! Requests cannot wait in a queue meanwhile, because nothing can be charged ahead of time, so `queue` denies
//! like `reject`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::{Cost, LimitDecision, LimitVariant, Nanos, Outcome};
use tidegate_policy::document::OnStoreError;
use tidegate_policy::{Rule, RuleSet, override_share};

use crate::engine::active::{Active, Charges};
use crate::engine::counting::counters::Totals;
use crate::engine::decision::{Refuser, Ruling};
use crate::engine::limit_handle::LimitHandle;
use crate::engine::limiter::Limiter;
use crate::engine::reason::Reason;
use crate::{
    Charge, Clock, Intent, LimitError, Memory, MemoryError, MemoryOptions, MemoryStats, NamedLimit, Role,
    Store, Verdict,
};

/// The wait returned by closed limits; the store may be back by then.
pub(crate) const RETRY_CLOSED: Nanos = Nanos::SECOND;

/// Why the local fallback could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FallbackError {
    /// The memory cannot be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The policy has too many limits.
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// How many charges were decided without the store, by `on_store_error`. Each limit of a request counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFailures {
    /// Decided by this node's share; includes ad hoc buckets.
    pub local: u64,
    /// Admitted.
    pub open: u64,
    /// Denied.
    pub closed: u64,
}

/// The local fallback of a limiter, and counters of its use.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) local: Option<FallbackMemory>,
    /// By [`OnStoreError`].
    failures: Totals,
}

impl Default for Fallback {
    fn default() -> Fallback {
        Fallback { local: None, failures: Totals::new(3) }
    }
}

impl Fallback {
    pub(crate) fn count(&self, choice: OnStoreError) {
        self.failures.add(choice as usize);
    }
}

/// The memory that decides while the store fails.
///
/// A change in the number of nodes edits all limits in it. Version numbers that nobody uses are reused when a policy
/// is put in force, not by the request that finds the change. Should they run out before, the memory is replaced by
/// a new one. The new one starts full, so a key that had used up its share gets it once more: one share of the
/// burst, once in a million edits. Requests in progress continue with the memory that their share was bound to.
#[derive(Debug)]
pub(crate) struct FallbackMemory {
    memory: ArcSwap<ShareMemory>,
    options: MemoryOptions,
}

type ShareMemory = Memory<CallerClock>;

/// Who binds a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareBinder {
    /// Whoever puts a policy in force.
    Policy,
    /// A request that finds another number of nodes.
    Request,
}

/// A clock that is set by its caller. In the fallback memory, charges are handed back only at the instant at which
/// they were made, so the clock needs no `now` of its own, only how far the wall clock is ahead.
#[derive(Debug, Default)]
struct CallerClock {
    wall_ahead: AtomicI64,
}

impl CallerClock {
    fn set(&self, (now, wall): Times) {
        self.wall_ahead.store(wall.get().wrapping_sub(now.get()) as i64, Ordering::Relaxed);
    }
}

impl Clock for CallerClock {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        Nanos::new(now.get().saturating_add_signed(self.wall_ahead.load(Ordering::Relaxed)))
    }
}

/// An instant on the monotonic clock and on the wall clock.
type Times = (Nanos, Nanos);

impl FallbackMemory {
    fn new(options: MemoryOptions) -> Result<FallbackMemory, MemoryError> {
        let memory = ArcSwap::from_pointee(Memory::with_clock(options, CallerClock::default())?);
        Ok(FallbackMemory { memory, options })
    }

    /// Binds the shares of one of `nodes` nodes, in this memory or in a new one that replaces it.
    fn bind(
        &self,
        rules: &RuleSet,
        nodes: u32,
        now: Times,
        by: ShareBinder,
    ) -> Result<NodeShare, FallbackError> {
        match NodeShare::bind(rules, nodes, self.memory.load_full(), now, by) {
            Err(LimitError::TooMany { .. }) => {
                let fresh = Arc::new(Memory::with_clock(self.options, CallerClock::default())?);
                let share = NodeShare::bind(rules, nodes, fresh.clone(), now, by)?;
                self.memory.store(fresh);
                Ok(share)
            }
            bound => Ok(bound?),
        }
    }
}

/// This node's share of every limit of a policy.
#[derive(Debug)]
pub(crate) struct NodeShare {
    /// The number of nodes.
    nodes: u32,
    /// The memory that holds its state.
    memory: Arc<ShareMemory>,
    limits: Box<[LimitHandle]>,
}

impl NodeShare {
    fn bind(
        rules: &RuleSet,
        nodes: u32,
        memory: Arc<ShareMemory>,
        now: Times,
        by: ShareBinder,
    ) -> Result<NodeShare, LimitError> {
        memory.clock().set(now);
        let state_names: Vec<String> = rules.rules().iter().map(Rule::state_name).collect();
        let named: Vec<NamedLimit<'_>> = (rules.rules().iter().zip(&state_names))
            .map(|(rule, name)| NamedLimit {
                name,
                limit: rule.share(nodes),
                carry: rule.carry,
                trusted: rule.adaptive,
            })
            .collect();
        let limits = match by {
            ShareBinder::Policy => memory.limits(&named, now.0)?,
            ShareBinder::Request => memory.limits_on_request(&named, now.0)?,
        };
        assert_eq!(limits.len(), named.len(), "a store returns one reference for each limit");
        let limits = limits.into_iter().map(LimitHandle::new).collect();
        Ok(NodeShare { nodes, memory, limits })
    }
}

/// The verdict of limits without the store.
pub(crate) struct FallbackVerdict {
    pub(crate) verdict: Verdict,
    /// The rules that deny because they are closed.
    pub(crate) closed: Closed,
}

/// The numbers of the rules that deny because they are closed.
pub(crate) type Closed = SmallVec<[u32; 4]>;

/// Records in a ruling that it was made without the store.
pub(crate) fn mark_without_store(ruling: &mut Ruling, closed: &Closed) {
    ruling.without_store = true;
    if let Some(Refuser::Rule(number)) = ruling.refuser
        && closed.contains(&number)
        && ruling.retry_after.is_some()
    {
        ruling.reason = Reason::StoreUnavailable;
    }
}

/// The rule of a charge, and its variant.
pub(crate) type ChargedRule = (u32, LimitVariant);

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Adds memory for limits whose `on_store_error` is `local`: while the store fails, this node's share of
    /// their rate and burst applies, one part in [`Store::nodes`]. Without it such limits are closed while the
    /// store fails.
    ///
    /// # Errors
    /// The memory cannot be allocated, or the policy has more limits than it can hold.
    pub fn with_fallback(mut self, options: MemoryOptions) -> Result<Self, FallbackError> {
        let (local, set) = (FallbackMemory::new(options)?, self.active.load_full());
        let now = self.clock.now();
        let share =
            local.bind(&set.rules, self.nodes(), (now, self.clock.wall_at(now)), ShareBinder::Policy)?;
        set.share.store(Some(Arc::new(share)));
        self.fallback.local = Some(local);
        Ok(self)
    }
}

impl<S, C> Limiter<S, C> {
    /// How many charges were decided without the store.
    pub fn store_failures(&self) -> StoreFailures {
        let of = |choice: OnStoreError| self.fallback.failures.get(choice as usize);
        StoreFailures {
            local: of(OnStoreError::Local),
            open: of(OnStoreError::Open),
            closed: of(OnStoreError::Closed),
        }
    }

    /// The names of the limits in force that deny every request while the store fails, in the order of the
    /// document.
    pub fn closed_limits(&self) -> Vec<String> {
        let set = self.active.load();
        let has_fallback = set.share.load().is_some();
        let is_closed = |rule: &&tidegate_policy::Rule| {
            let is_closed = match rule.on_store_error {
                OnStoreError::Open => false,
                OnStoreError::Closed => true,
                OnStoreError::Local => !has_fallback,
            };
            is_closed && rule.enabled && !rule.is_shadow() && !super::conclude::degrades(rule)
        };
        set.rules.rules().iter().filter(is_closed).map(|rule| rule.name.to_string()).collect()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// How full the memory of the local fallback is.
    pub fn fallback_stats(&self) -> Option<MemoryStats> {
        self.fallback.local.as_ref().map(|local| local.memory.load().stats())
    }

    /// The number of nodes that share the store.
    pub(crate) fn nodes(&self) -> u32 {
        self.store.nodes().max(1)
    }

    /// Binds the node's share for a policy. If that fails because there is no memory, the policy keeps the
    /// share it has; a policy without a share stays without, and its `local` limits are closed while the store
    /// fails.
    pub(crate) fn bind_share(&self, set: &Active, now: Nanos, by: ShareBinder) {
        let times = (now, self.clock.wall_at(now));
        let bound = self.fallback.local.as_ref().map(|local| local.bind(&set.rules, self.nodes(), times, by));
        if let Some(Ok(share)) = bound {
            set.share.store(Some(Arc::new(share)));
        }
    }

    /// The node's share for a policy. If the number of nodes has changed, the share of the policy in force is
    /// bound anew. A policy that was replaced keeps its old share, because binding it again would count as an
    /// edit.
    fn share_of(&self, set: &Active, now: Nanos) -> Option<Arc<NodeShare>> {
        let share = set.share.load_full()?;
        if share.nodes == self.nodes() {
            return Some(share);
        }
        // A thread that finds the lock taken uses the old share once more.
        if let Some(_one_at_a_time) = try_lock(&self.swapping)
            && self.active.load().swaps == set.swaps
            && set.share.load().as_ref().is_some_and(|held| Arc::ptr_eq(held, &share))
        {
            self.bind_share(set, now, ShareBinder::Request);
        }
        set.share.load_full()
    }

    /// Applies charges without the store. `subject` returns the rule and the variant of a charge. This node has its
    /// share of the numbers of an override too.
    pub(crate) fn fall_back(
        &self,
        set: &Active,
        subject: impl Fn(usize) -> ChargedRule,
        charges: &[Charge<'_>],
        intent: Intent,
        now: Nanos,
    ) -> FallbackVerdict {
        let share = self.share_of(set, now);
        let choice = |index: usize| match set.rules.rule(subject(index).0).on_store_error {
            OnStoreError::Local if share.is_some() => OnStoreError::Local,
            OnStoreError::Open => OnStoreError::Open,
            // A charge that costs nothing is always admitted.
            _ if charges[index].cost == Cost::ZERO => OnStoreError::Open,
            OnStoreError::Local | OnStoreError::Closed => OnStoreError::Closed,
        };
        let choices: SmallVec<[OnStoreError; 8]> = (0..charges.len()).map(choice).collect();
        let is_closed = |index: &usize| choices[*index] == OnStoreError::Closed;
        let refused = (0..charges.len()).filter(is_closed).any(|index| charges[index].role == Role::Binding);
        let decides = matches!(intent, Intent::Take | Intent::Refund);
        let intent = if decides && refused { Intent::Peek } else { intent };
        let mut local = Verdict { allowed: true, decisions: SmallVec::new(), at: now };
        if let Some(share) = &share {
            let indices = (0..charges.len()).filter(|&index| choices[index] == OnStoreError::Local);
            let charge = |index: usize| {
                let (rule, variant) = subject(index);
                let limit = &set.rules.rule(rule).limit;
                let numbers = variant.numbers.map(|numbers| override_share(numbers, limit, share.nodes));
                let variant = LimitVariant { numbers, ..variant };
                Charge { limit: share.limits[rule as usize].at(variant, &*share.memory), ..charges[index] }
            };
            let charges: Charges<'_> = indices.map(charge).collect();
            share.memory.clock().set((now, self.clock.wall_at(now)));
            local = share.memory.charge_now(intent, &charges, now);
        }
        if decides {
            choices.iter().for_each(|&choice| self.fallback.count(choice));
        }
        let mut local_decisions = local.decisions.into_iter();
        let decide = |(choice, charge): (&OnStoreError, &Charge<'_>)| match choice {
            OnStoreError::Local => local_decisions.next().expect("each local limit was charged"),
            OnStoreError::Open => admitted(charge),
            OnStoreError::Closed => denied(charge),
        };
        let decisions: SmallVec<[LimitDecision; 8]> = choices.iter().zip(charges).map(decide).collect();
        debug_assert!(
            decisions.iter().all(|decision| decision.remaining <= decision.limit),
            "more is left than the limit: {decisions:?}"
        );
        let closed = (0..charges.len()).filter(is_closed).map(|index| subject(index).0).collect();
        FallbackVerdict {
            verdict: Verdict { allowed: local.allowed && !refused, decisions, at: now },
            closed,
        }
    }
}

fn try_lock(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The decision of an open limit: as if it were unused.
fn admitted(charge: &Charge<'_>) -> LimitDecision {
    let limit = charge.limit.limit().capacity();
    LimitDecision { outcome: Outcome::Allowed, limit, remaining: limit, reset_after: Nanos::ZERO }
}

/// The decision of a closed limit.
fn denied(charge: &Charge<'_>) -> LimitDecision {
    let limit = charge.limit.limit().capacity();
    let never = charge.cost.get() > limit;
    let outcome = if never { Outcome::Never } else { Outcome::Denied { retry_after: RETRY_CLOSED } };
    LimitDecision { outcome, limit, remaining: 0, reset_after: RETRY_CLOSED }
}

#[cfg(test)]
mod tests;
