//! The request to a store (charges) and its response (a verdict).

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Cost, LimitDecision, Nanos, tightest};

use crate::LimitRef;

/// A cost to take from one limit for one key.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The limit.
    pub limit: &'a LimitRef,
    /// The key that is counted: any bytes. A limit for everybody uses the empty key.
    pub key: &'a [u8],
    /// The cost to take.
    pub cost: Cost,
    /// Whether this charge may deny the request.
    pub role: Role,
    /// How much later it is counted; see [`Charge::delayed`].
    pub delay: Nanos,
    /// Stores that are spread over several servers keep buckets with the same tag on one server. The tag must
    /// be a function of the limit and the key alone. Without a tag, the key decides where a bucket is kept.
    pub tag: Option<&'a [u8]>,
}

impl<'a> Charge<'a> {
    /// A binding charge: it must be admitted, or the request is denied.
    pub fn new(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Binding, delay: Nanos::ZERO, tag: None }
    }

    /// An advisory charge: taken if it fits, and never a reason to deny the request.
    pub fn advisory(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Advisory, delay: Nanos::ZERO, tag: None }
    }

    /// The same charge, counted `delay` later. It is admitted if the limit will hold the cost at that instant,
    /// and from now on the cost is not available to others. In the decision, `remaining` is as of that instant,
    /// but waits begin now: the wait of a denial is the delay to try next.
    ///
    /// Delay a charge by the wait that its own limit returned, and by no more. A longer delay keeps others
    /// waiting for the difference and can only be handed back in part. A delay that the algorithm cannot
    /// represent is shortened; every algorithm can represent half a minute.
    ///
    /// ```
    /// use tidegate::{Carry, Charge, Clock, Cost, Intent, Memory, MemoryOptions, Quota, Store};
    ///
    /// let store = Memory::new(MemoryOptions::default())?;
    /// let now = store.clock().now();
    /// let limit = store.limit("jobs", Quota::per_second(1)?.into(), Carry::AsIs, now)?;
    /// let charge = Charge::new(&limit, b"alice", Cost::ONE);
    /// assert!(store.charge_now(Intent::Take, &[charge], now).allowed);
    ///
    /// // The next job is denied, so it is charged as of the instant at which its wait is over.
    /// let denied = store.charge_now(Intent::Take, &[charge], now);
    /// let wait = denied.decisions[0].retry_after().wait().expect("the cost is not above the capacity");
    /// let delayed = charge.delayed(wait);
    /// assert!(store.charge_now(Intent::Take, &[delayed], now).allowed);
    ///
    /// // It is cancelled before that instant.
    /// let _ = store.charge_now(Intent::HandBack, &[delayed], now);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn delayed(self, delay: impl Into<Nanos>) -> Charge<'a> {
        Charge { delay: delay.into(), ..self }
    }

    pub(crate) fn timed_cost(&self) -> TimedCost {
        TimedCost { cost: self.cost, delay: self.delay }
    }
}

/// A [`Charge`] that owns its limit, key and tag, so that it can outlive the request.
#[derive(Clone, Debug)]
pub struct OwnedCharge {
    /// The limit.
    pub limit: LimitRef,
    /// The key that is counted.
    pub key: SmallVec<[u8; 32]>,
    /// The cost to take.
    pub cost: Cost,
    /// Whether this charge may deny the request.
    pub role: Role,
    /// How much later it is counted.
    pub delay: Nanos,
    /// See [`Charge::tag`].
    pub tag: Option<SmallVec<[u8; 16]>>,
}

impl From<&Charge<'_>> for OwnedCharge {
    fn from(charge: &Charge<'_>) -> OwnedCharge {
        OwnedCharge {
            limit: charge.limit.clone(),
            key: SmallVec::from_slice(charge.key),
            cost: charge.cost,
            role: charge.role,
            delay: charge.delay,
            tag: charge.tag.map(SmallVec::from_slice),
        }
    }
}

impl OwnedCharge {
    /// The charge in its borrowed form, as stores take it.
    pub fn as_charge(&self) -> Charge<'_> {
        let OwnedCharge { limit, key, cost, role, delay, tag } = self;
        Charge { limit, key, cost: *cost, role: *role, delay: *delay, tag: tag.as_deref() }
    }
}

/// A cost and the delay after which it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedCost {
    pub(crate) cost: Cost,
    pub(crate) delay: Nanos,
}

impl TimedCost {
    /// A cost that is counted now.
    pub(crate) fn now(cost: Cost) -> TimedCost {
        TimedCost { cost, delay: Nanos::ZERO }
    }
}

/// Whether a charge that does not fit denies the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It must fit, or nothing is taken anywhere.
    Binding,
    /// It is taken if and only if it fits and the request is admitted.
    Advisory,
}

/// The operation on the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Take all of them, or none.
    Take,
    /// Return what [`Intent::Take`] would, and take nothing.
    Peek,
    /// Give the costs back, never above a capacity.
    Refund,
    /// Undo charges that were admitted, as if they had never been made. The instant passed along is the one at
    /// which they were made. What has been refilled since then is not given back again, so the later the call, the
    /// less comes back. A delayed charge whose instant has not come is given back in full, unless other
    /// delayed charges are queued behind it: those keep their instants. Pass only charges that were taken, with
    /// their delay, and each only once.
    HandBack,
    /// Make the keys unused, whatever the costs: as if nothing had ever been taken from them. A key that has found no
    /// room of its own is made unused together with the keys that share its bucket.
    Reset,
}

/// The result of several charges: all admitted, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "charges that were not admitted must not be spent"]
pub struct Verdict {
    /// Is the request admitted?
    pub allowed: bool,
    /// One decision per charge, in the order of the charges. If the request is denied, they describe limits
    /// from which nothing was taken.
    pub decisions: SmallVec<[LimitDecision; 8]>,
    /// The instant of the charges by the store's clock, needed for [`Intent::HandBack`].
    pub at: Nanos,
}

impl Verdict {
    /// The decision to report for all of them: on a denial the one with the longest wait, otherwise the one
    /// with the smallest fraction remaining. `None` if there were no charges.
    pub fn tightest(&self) -> Option<&LimitDecision> {
        tightest(&self.decisions).map(|index| &self.decisions[index])
    }
}

/// Takes several charges, all or none: peeks at all of them, takes only if all would be admitted, and hands
/// back what was taken if another thread was faster in between.
///
/// `binding(i)` returns whether charge `i` may deny. `peek`, `take` and `hand_back` act on one charge; a `take`
/// that is denied must not have changed anything.
pub(crate) fn all_or_nothing(
    charges: usize,
    at: Nanos,
    binding: impl Fn(usize) -> bool,
    peek: impl Fn(usize) -> LimitDecision,
    take: impl Fn(usize) -> LimitDecision,
    hand_back: impl Fn(usize),
) -> Verdict {
    let peek_all = || (0..charges).map(&peek).collect::<SmallVec<[LimitDecision; 8]>>();
    let refuses = |index: usize, decision: &LimitDecision| binding(index) && !decision.is_allowed();

    if charges == 1 {
        let decision = take(0);
        return Verdict { allowed: !refuses(0, &decision), decisions: smallvec![decision], at };
    }
    let mut decisions = peek_all();
    if decisions.iter().enumerate().any(|(index, decision)| refuses(index, decision)) {
        return Verdict { allowed: false, decisions, at };
    }
    let mut taken = SmallVec::<[usize; 8]>::new();
    let binding_first = (0..charges).filter(|&i| binding(i)).chain((0..charges).filter(|&i| !binding(i)));
    for index in binding_first {
        let decision = take(index);
        if refuses(index, &decision) {
            taken.iter().rev().for_each(|&index| hand_back(index));
            decisions = peek_all();
            // The limit that denied may have been refilled since, but it did deny.
            decisions[index] = decision;
            return Verdict { allowed: false, decisions, at };
        }
        if decision.is_allowed() {
            taken.push(index);
        }
        decisions[index] = decision;
    }
    Verdict { allowed: true, decisions, at }
}
