//! What is decided while the store cannot tell: by each limit's `on_store_error`.
//!
//! A limit that is `closed` denies, and its strategy says what follows, as ever: one that only marks, marks, and one
//! that is only watched refuses nobody. One that is `open` admits and is not charged. One that is `local` is charged
//! here, with this node's share of its numbers. It is all or nothing here too. Nobody waits in a queue meanwhile: a
//! place that cannot be reserved is no place, so `queue` refuses as `reject` does.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::{Cost, LimitDecision, Nanos, Outcome};
use tidegate_policy::document::OnStoreError;
use tidegate_policy::{Rule, RuleSet, Trust};

use crate::engine::active::{Active, Charges, LimitHandle};
use crate::engine::counting::counters::Totals;
use crate::engine::decision::{Reason, Refuser, Ruling};
use crate::engine::limiter::Limiter;
use crate::{
    Charge, Clock, Intent, LimitError, Memory, MemoryError, MemoryOptions, MemoryStats, NamedLimit, Role,
    Store, Verdict,
};

/// When to ask again for what is closed: by then the store may be back.
pub(crate) const RETRY_CLOSED: Nanos = Nanos::SECOND;

/// Why there is nothing to fall back on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FallbackError {
    /// There is not the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The policy has too many limits.
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// How often limits had to do without the store, by what they do then. Each limit of a request counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFailures {
    /// This node's share decided; ad-hoc buckets are among these.
    pub local: u64,
    /// It admitted.
    pub open: u64,
    /// It denied.
    pub closed: u64,
}

/// What a limiter falls back on, and how often.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) spare: Option<FallbackMemory>,
    /// By [`OnStoreError`].
    failures: Totals,
}

impl Default for Fallback {
    fn default() -> Fallback {
        Fallback { spare: None, failures: Totals::new(3) }
    }
}

impl Fallback {
    pub(crate) fn count(&self, choice: OnStoreError) {
        self.failures.add(choice as usize);
    }
}

/// The memory that decides while the store cannot.
///
/// Every other count of nodes edits all limits in it, and every edit takes a number that is never given back. So when
/// its numbers have run out, another takes its place. The new one starts full: whoever had used up its share has it
/// once more, which is worth one share of the burst and happens once in a million edits. Requests under way go on
/// with the memory that their share was bound to.
#[derive(Debug)]
pub(crate) struct FallbackMemory {
    memory: ArcSwap<ShareMemory>,
    options: MemoryOptions,
}

type ShareMemory = Memory<ToldClock>;

/// For memory from which nothing is handed back later than at the instant of its charge, so that it need not know
/// what time it is: it is told, and by how much the wall clock is ahead then.
#[derive(Debug, Default)]
struct ToldClock {
    wall_ahead: AtomicI64,
}

impl ToldClock {
    fn tell(&self, (now, wall): Times) {
        self.wall_ahead.store(wall.get().wrapping_sub(now.get()) as i64, Ordering::Relaxed);
    }
}

impl Clock for ToldClock {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        Nanos::new(now.get().saturating_add_signed(self.wall_ahead.load(Ordering::Relaxed)))
    }
}

/// An instant by the steady clock, and by the wall clock.
type Times = (Nanos, Nanos);

impl FallbackMemory {
    fn new(options: MemoryOptions) -> Result<FallbackMemory, MemoryError> {
        let memory = ArcSwap::from_pointee(Memory::with_clock(options, ToldClock::default())?);
        Ok(FallbackMemory { memory, options })
    }

    /// Shares among `nodes`, in this memory or in another that takes its place.
    fn bind(&self, rules: &RuleSet, nodes: u32, now: Times) -> Result<NodeShare, FallbackError> {
        match NodeShare::bind(rules, nodes, self.memory.load_full(), now) {
            Err(LimitError::TooMany { .. }) => {
                let fresh = Arc::new(Memory::with_clock(self.options, ToldClock::default())?);
                let share = NodeShare::bind(rules, nodes, fresh.clone(), now)?;
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
    /// Among so many.
    nodes: u32,
    /// Where it is kept.
    memory: Arc<ShareMemory>,
    limits: Box<[LimitHandle]>,
}

impl NodeShare {
    fn bind(
        rules: &RuleSet,
        nodes: u32,
        memory: Arc<ShareMemory>,
        now: Times,
    ) -> Result<NodeShare, LimitError> {
        memory.clock().tell(now);
        let state_names: Vec<String> = rules.rules().iter().map(Rule::state_name).collect();
        let named: Vec<NamedLimit<'_>> = (rules.rules().iter().zip(&state_names))
            .map(|(rule, name)| NamedLimit {
                name,
                limit: rule.share(nodes),
                carry: rule.carry,
                trusted: rule.adaptive,
            })
            .collect();
        let limits = memory.limits(&named, now.0)?.into_iter().map(LimitHandle::new).collect();
        Ok(NodeShare { nodes, memory, limits })
    }
}

/// What limits say without the store.
pub(crate) struct FallbackVerdict {
    pub(crate) verdict: Verdict,
    /// The rules that deny since they are closed.
    pub(crate) closed: Closed,
}

/// Rules that deny since they are closed, by number.
pub(crate) type Closed = SmallVec<[u32; 4]>;

/// Says so in a ruling that was made without the store.
pub(crate) fn mark(ruling: &mut Ruling, closed: &Closed) {
    ruling.without_store = true;
    if let Some(Refuser::Rule(number)) = ruling.refuser
        && closed.contains(&number)
        && ruling.retry_after.is_some()
    {
        ruling.reason = Reason::StoreUnavailable;
    }
}

/// Of whom a charge is: the number of its rule, and how far the request is trusted.
pub(crate) type ChargedRule = (u32, Option<Trust>);

impl<S: Store, C: Clock> Limiter<S, C> {
    /// With memory of its own, for limits whose `on_store_error` is `local`: while the store fails they go by this
    /// node's share of their rate and burst, one part in [`Store::nodes`]. Without it they are closed then.
    ///
    /// # Errors
    /// When there is not the memory, or the policy has more limits than it can hold.
    pub fn with_fallback(mut self, options: MemoryOptions) -> Result<Self, FallbackError> {
        let (spare, set) = (FallbackMemory::new(options)?, self.active.load_full());
        let now = self.clock.now();
        let share = spare.bind(&set.rules, self.nodes(), (now, self.clock.wall_at(now)))?;
        set.share.store(Some(Arc::new(share)));
        self.fallback.spare = Some(spare);
        Ok(self)
    }
}

impl<S, C> Limiter<S, C> {
    /// How often limits had to do without the store.
    pub fn store_failures(&self) -> StoreFailures {
        let of = |choice: OnStoreError| self.fallback.failures.get(choice as usize);
        StoreFailures {
            local: of(OnStoreError::Local),
            open: of(OnStoreError::Open),
            closed: of(OnStoreError::Closed),
        }
    }

    /// Does a limit in force refuse requests for as long as the store fails?
    pub fn has_closed_limits(&self) -> bool {
        let set = self.active.load();
        let has_fallback = set.share.load().is_some();
        set.rules.rules().iter().any(|rule| {
            let is_closed = match rule.on_store_error {
                OnStoreError::Open => false,
                OnStoreError::Closed => true,
                OnStoreError::Local => !has_fallback,
            };
            is_closed && rule.enabled && !rule.is_shadow() && !super::conclude::degrades(rule)
        })
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// What the memory holds that decides while the store fails.
    pub fn fallback_stats(&self) -> Option<MemoryStats> {
        self.fallback.spare.as_ref().map(|spare| spare.memory.load().stats())
    }

    /// How many nodes share what there is.
    pub(crate) fn nodes(&self) -> u32 {
        self.store.nodes().max(1)
    }

    /// Gives a policy its share. Where that is not possible, since there is no memory for it, the policy keeps what it
    /// has; one that has none yet is without, and its `local` limits are closed while the store fails.
    pub(crate) fn bind_share(&self, set: &Active, now: Nanos) {
        let times = (now, self.clock.wall_at(now));
        let bound = self.fallback.spare.as_ref().map(|spare| spare.bind(&set.rules, self.nodes(), times));
        if let Some(Ok(share)) = bound {
            set.share.store(Some(Arc::new(share)));
        }
    }

    /// The share of a policy. If there are more nodes or fewer by now, that of the policy in force is made anew; one
    /// that was replaced keeps what it had, or its numbers would be taken for an edit.
    fn share_of(&self, set: &Active, now: Nanos) -> Option<Arc<NodeShare>> {
        let share = set.share.load_full()?;
        if share.nodes == self.nodes() {
            return Some(share);
        }
        // Whoever finds others at it goes by the old share once more.
        if let Some(_one_at_a_time) = try_lock(&self.swapping)
            && self.active.load().version == set.version
            && set.share.load().as_ref().is_some_and(|held| Arc::ptr_eq(held, &share))
        {
            self.bind_share(set, now);
        }
        set.share.load_full()
    }

    /// Does with charges what the store cannot. `subject` tells whose charge each is.
    pub(crate) fn fall_back(
        &self,
        set: &Active,
        subject: impl Fn(usize) -> ChargedRule,
        charges: &[Charge<'_>],
        intent: Intent,
        now: Nanos,
    ) -> FallbackVerdict {
        let share = self.share_of(set, now);
        let choice = |place: usize| match set.rules.rule(subject(place).0).on_store_error {
            OnStoreError::Local if share.is_some() => OnStoreError::Local,
            OnStoreError::Open => OnStoreError::Open,
            // What costs nothing is always admitted.
            _ if charges[place].cost == Cost::ZERO => OnStoreError::Open,
            OnStoreError::Local | OnStoreError::Closed => OnStoreError::Closed,
        };
        let choices: SmallVec<[OnStoreError; 8]> = (0..charges.len()).map(choice).collect();
        let is_closed = |place: &usize| choices[*place] == OnStoreError::Closed;
        let refused = (0..charges.len()).filter(is_closed).any(|place| charges[place].role == Role::Binding);
        let decides = matches!(intent, Intent::Take | Intent::Refund);
        let intent = if decides && refused { Intent::Peek } else { intent };
        let mut local = Verdict { allowed: true, decisions: SmallVec::new(), at: now };
        if let Some(share) = &share {
            let places = (0..charges.len()).filter(|&place| choices[place] == OnStoreError::Local);
            let charge = |place: usize| {
                let (rule, trust) = subject(place);
                let trust = set.trust_in(set.rules.rule(rule), trust);
                Charge { limit: share.limits[rule as usize].at(trust, &*share.memory), ..charges[place] }
            };
            let charges: Charges<'_> = places.map(charge).collect();
            share.memory.clock().tell((now, self.clock.wall_at(now)));
            local = share.memory.charge_now(intent, &charges, now);
        }
        if decides {
            choices.iter().for_each(|&choice| self.fallback.count(choice));
        }
        let mut said = local.decisions.into_iter();
        let say = |(choice, charge): (&OnStoreError, &Charge<'_>)| match choice {
            OnStoreError::Local => said.next().expect("each that is local was asked"),
            OnStoreError::Open => admitted(charge),
            OnStoreError::Closed => denied(charge),
        };
        let decisions = choices.iter().zip(charges).map(say).collect();
        let closed = (0..charges.len()).filter(is_closed).map(|place| subject(place).0).collect();
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

/// An open limit: as if nobody had used it.
fn admitted(charge: &Charge<'_>) -> LimitDecision {
    let limit = charge.limit.limit().capacity();
    LimitDecision { outcome: Outcome::Allowed, limit, remaining: limit, reset_after: Nanos::ZERO }
}

/// A closed limit.
fn denied(charge: &Charge<'_>) -> LimitDecision {
    let limit = charge.limit.limit().capacity();
    let never = charge.cost.get() > limit;
    let outcome = if never { Outcome::Never } else { Outcome::Denied { retry_after: RETRY_CLOSED } };
    LimitDecision { outcome, limit, remaining: 0, reset_after: RETRY_CLOSED }
}

#[cfg(test)]
mod tests;
