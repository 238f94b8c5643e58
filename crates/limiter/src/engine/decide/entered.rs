//! Deciding in two steps, for servers that verify credentials themselves: the gates that need no credential
//! come first, so that a request blocked by its address or by a burst detector costs no signature check.

use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::gates::GateNotes;
use super::{DecisionAndPlace, EntryStage};
use crate::engine::active::Active;
use crate::engine::beside::BesideStage;
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::{Clock, NowOrLater, Store};

/// A request that has passed the gates before the credential, or was decided by them. It keeps the policy it
/// started with, and is consumed by [`Limiter::admit_entered`], so burst detectors count it once.
#[must_use = "the request is counted by detectors but not decided"]
pub struct Entered {
    set: Arc<Active>,
    /// The decision, if the gates before the credential have made one.
    ruling: Option<Ruling>,
    notes: GateNotes,
    at: Nanos,
}

impl Entered {
    /// Is it decided already? Then its credential need not be verified.
    pub fn is_decided(&self) -> bool {
        self.ruling.is_some()
    }

    /// When the request arrived.
    pub fn at(&self) -> Nanos {
        self.at
    }
}

impl std::fmt::Debug for Entered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entered").field("is_decided", &self.is_decided()).finish_non_exhaustive()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The first of two steps: the kill switch, and those `block`, `allow` and burst entries that depend only
    /// on the address, headers, path and the like. The request need not have an identity yet; if it has one,
    /// that is ignored here.
    ///
    /// ```
    /// use tidegate::engine::{Credential, Limiter, Policy, Reason, Request};
    ///
    /// let policy = Policy::parse("
    /// version: 1
    /// limits: [{ name: per-user, key: [user], sustained: { rate: 10 } }]
    /// block: [{ ip: 203.0.113.0/24 }]
    /// ")?;
    /// let limiter = Limiter::new(policy)?;
    /// let blocked = limiter.enter(&Request::new().ip([203, 0, 113, 7]));
    /// assert!(blocked.is_decided(), "its token need not be verified");
    ///
    /// let mut request = Request::new().ip([192, 0, 2, 1]);
    /// let entered = limiter.enter(&request);
    /// assert!(!entered.is_decided());
    /// // Now the token is verified, and is invalid.
    /// request.credential = Credential::Invalid;
    /// let decision = limiter.check_entered(entered, &request);
    /// assert_eq!((decision.reason(), decision.client_status()), (Reason::InvalidCredentials, 401));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(&self, request: &Request<'_>) -> Entered {
        self.enter_at(request, self.clock.now())
    }

    /// [`Limiter::enter`] at a given instant.
    pub(crate) fn enter_at(&self, request: &Request<'_>, at: Nanos) -> Entered {
        let set = self.active.load_full();
        let facts = set.rules.facts(request);
        let mut notes = GateNotes::default();
        // A request decided here does not wait in a queue, so every charging operation is equivalent.
        let gates = self.check_gates_before_credential(&set, &facts, (Operation::Check, at), &mut notes);
        let mut ruling = gates.ruling(at);
        if let Some(ruling) = &mut ruling {
            self.add_shared(&set, &facts, &mut notes, at);
            notes.add_to(ruling);
            self.jitter_and_count(&set, &facts, None, ruling, Operation::Check);
        }
        drop(facts);
        Entered { set, ruling, notes, at }
    }

    /// The second step, for a request whose identity is now known: the credential, the gates that need it, and
    /// the limits.
    pub(crate) fn decide_entered(
        &self,
        entered: Entered,
        request: &Request<'_>,
        operation: Operation,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        let Entered { set, ruling, notes, at } = entered;
        let (set, before) = (Guard::from_inner(set), EntryStage::Unidentified(notes));
        match ruling {
            Some(ruling) => NowOrLater::Now((self.make_decision(set, ruling), None)),
            None => self.decide_under(set, before, request, operation, at),
        }
    }

    /// The second step on any store. A limit with the strategy `queue` denies here; [`Limiter::admit_entered`]
    /// waits.
    pub fn check_entered_async(&self, entered: Entered, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let (at, stage) = (entered.at(), entered.beside_stage(BesideStage::Check));
        let live = self.decide_entered(entered, request, Operation::Check).map(|(decision, _)| decision);
        self.besides_of(live, request, stage, at)
    }
}

impl<C: Clock> Limiter<crate::Memory<C>, C> {
    /// The second step, for a request whose identity is now known: the credential, the gates that need it, and
    /// the limits.
    pub fn check_entered(&self, entered: Entered, request: &Request<'_>) -> Decision {
        self.check_entered_async(entered, request).expect_now()
    }
}
