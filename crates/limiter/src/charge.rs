//! What a store is asked, and what it answers.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Cost, Decision, tightest};

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
}

impl<'a> Charge<'a> {
    /// A charge that must be admitted.
    pub fn new(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Binding }
    }

    /// A charge that is made if it fits and refuses nothing if it does not.
    pub fn advisory(limit: &'a LimitRef, key: &'a [u8], cost: Cost) -> Charge<'a> {
        Charge { limit, key, cost, role: Role::Advisory }
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
}

/// The answer to several charges: admitted as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Is the request admitted?
    pub allowed: bool,
    /// One decision a charge, in their order. Where the request is not
    /// admitted, they describe limits from which nothing was taken.
    pub decisions: SmallVec<[Decision; 8]>,
}

impl Verdict {
    /// The decision that speaks for all: when denied the longest wait, when
    /// admitted the smallest share remaining. `None` if there was no charge.
    pub fn tightest(&self) -> Option<&Decision> {
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
    binding: impl Fn(usize) -> bool,
    peek: impl Fn(usize) -> Decision,
    take: impl Fn(usize) -> Decision,
    hand_back: impl Fn(usize),
) -> Verdict {
    let look = || (0..charges).map(&peek).collect::<SmallVec<[Decision; 8]>>();
    let refuses = |index: usize, decision: &Decision| binding(index) && !decision.is_allowed();

    if charges == 1 {
        let decision = take(0);
        return Verdict { allowed: !refuses(0, &decision), decisions: smallvec![decision] };
    }
    let mut decisions = look();
    if decisions.iter().enumerate().any(|(index, decision)| refuses(index, decision)) {
        return Verdict { allowed: false, decisions };
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
            return Verdict { allowed: false, decisions };
        }
        if decision.is_allowed() {
            taken.push(index);
        }
        decisions[index] = decision;
    }
    Verdict { allowed: true, decisions }
}
