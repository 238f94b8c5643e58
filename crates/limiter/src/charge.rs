//! What a store is asked, and what it answers.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Cost, LimitDecision, Nanos, tightest};

use crate::LimitRef;

/// One limit, whom it counts, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The limit.
    pub limit: &'a LimitRef,
    /// Whom it counts: any bytes. A limit for everybody uses the empty key.
    pub key: &'a [u8],
    /// What to take.
    pub cost: Cost,
    /// Whether it may refuse the request.
    pub role: Role,
    /// How much later it is counted; see [`Charge::delayed`].
    pub delay: Nanos,
    /// Buckets with the same tag are kept together by stores that are spread over several servers. It must be
    /// a function of the limit and the key alone. Without one, a bucket is where its own key says.
    pub tag: Option<&'a [u8]>,
}

impl<'a> Charge<'a> {
    /// A charge that must be admitted.
    pub fn new(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Binding, delay: Nanos::ZERO, tag: None }
    }

    /// A charge that is made if it fits and refuses nothing if it does not.
    pub fn advisory(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Advisory, delay: Nanos::ZERO, tag: None }
    }

    /// The same charge made as of `delay` later: a reservation. It is admitted if
    /// the cost will be there then, and until then nobody else gets it. What is
    /// left is told as of then; waits are counted from now, so that a denial
    /// tells the delay to try next.
    ///
    /// Delay a charge by the wait that its own limit told, and by no more: a
    /// longer delay keeps others waiting for the difference, and can be handed
    /// back only in part. Where a limit cannot see so far ahead (half a minute is
    /// what all of them can), the delay is cut.
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
    /// // The next one is told to wait, and takes its place in the queue.
    /// let denied = store.charge_now(Intent::Take, &[charge], now);
    /// let wait = denied.decisions[0].outcome.wait().expect("one is not above the capacity");
    /// let reserved = charge.delayed(wait);
    /// assert!(store.charge_now(Intent::Take, &[reserved], now).allowed);
    ///
    /// // It gives up before its time has come.
    /// let _ = store.charge_now(Intent::HandBack, &[reserved], now);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn delayed(self, delay: Nanos) -> Charge<'a> {
        Charge { delay, ..self }
    }

    pub(crate) fn ask(&self) -> TimedCost {
        TimedCost { cost: self.cost, delay: self.delay }
    }
}

/// A [`Charge`] that owns what it names, for what outlives the request that it belongs to.
#[derive(Clone, Debug)]
pub struct OwnedCharge {
    /// The limit.
    pub limit: LimitRef,
    /// Whom it counts.
    pub key: SmallVec<[u8; 32]>,
    /// What to take.
    pub cost: Cost,
    /// Whether it may refuse the request.
    pub role: Role,
    /// How much later it is counted.
    pub delay: Nanos,
    /// What is kept together.
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
    /// The charge, as stores take it.
    pub fn as_charge(&self) -> Charge<'_> {
        let OwnedCharge { limit, key, cost, role, delay, tag } = self;
        Charge { limit, key, cost: *cost, role: *role, delay: *delay, tag: tag.as_deref() }
    }
}

/// What is asked of one limit: a cost, as of now or of so much later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedCost {
    pub(crate) cost: Cost,
    pub(crate) delay: Nanos,
}

impl TimedCost {
    /// A cost as of now.
    pub(crate) fn now(cost: Cost) -> TimedCost {
        TimedCost { cost, delay: Nanos::ZERO }
    }
}

/// Whether a charge that does not fit refuses the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It must fit, or nothing is taken anywhere.
    Binding,
    /// It is taken iff it fits and the request is admitted.
    Advisory,
}

/// What to do with the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Take all of them, or none.
    Take,
    /// Say what [`Intent::Take`] would, and take nothing.
    Peek,
    /// Give the costs back, never above a capacity.
    Refund,
    /// Take back charges that were admitted, as if they had not been made; the
    /// instant that comes with them is the one they were made at. What time has
    /// made good since is not given twice, so later there is less to give back.
    /// Of a reservation whose time has not come everything is given back, unless
    /// others have taken places behind it, which they keep. Name only charges
    /// that were taken, with the delay they had, and each once.
    HandBack,
}

/// The answer to several charges: admitted as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "charges that were not admitted must not be spent"]
pub struct Verdict {
    /// Is the request admitted?
    pub allowed: bool,
    /// One decision a charge, in their order. Where the request is not
    /// admitted, they describe limits from which nothing was taken.
    pub decisions: SmallVec<[LimitDecision; 8]>,
    /// When that was, by the store's clock: what [`Intent::HandBack`] wants to know of these charges.
    pub at: Nanos,
}

impl Verdict {
    /// The decision that speaks for all: when denied the longest wait, when
    /// admitted the smallest share remaining. `None` if there was no charge.
    pub fn tightest(&self) -> Option<&LimitDecision> {
        tightest(&self.decisions).map(|index| &self.decisions[index])
    }
}

/// Several takes as one: looks at all, takes only if all admit, and hands back
/// what was taken if somebody else was faster in between.
///
/// `binding(i)` tells whether the charge may refuse. `peek`, `take` and
/// `hand_back` act on one charge; a take that is denied has changed nothing.
pub(crate) fn all_or_nothing(
    charges: usize,
    at: Nanos,
    binding: impl Fn(usize) -> bool,
    peek: impl Fn(usize) -> LimitDecision,
    take: impl Fn(usize) -> LimitDecision,
    hand_back: impl Fn(usize),
) -> Verdict {
    let look = || (0..charges).map(&peek).collect::<SmallVec<[LimitDecision; 8]>>();
    let refuses = |index: usize, decision: &LimitDecision| binding(index) && !decision.is_allowed();

    if charges == 1 {
        let decision = take(0);
        return Verdict { allowed: !refuses(0, &decision), decisions: smallvec![decision], at };
    }
    let mut decisions = look();
    if decisions.iter().enumerate().any(|(index, decision)| refuses(index, decision)) {
        return Verdict { allowed: false, decisions, at };
    }
    let mut taken = SmallVec::<[usize; 8]>::new();
    let binding_first = (0..charges).filter(|&i| binding(i)).chain((0..charges).filter(|&i| !binding(i)));
    for index in binding_first {
        let decision = take(index);
        if refuses(index, &decision) {
            taken.iter().rev().for_each(|&index| hand_back(index));
            decisions = look();
            // What refused may have been made good meanwhile: it still refused.
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
