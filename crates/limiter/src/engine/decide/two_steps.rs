//! Deciding in two steps, for servers that verify credentials themselves: what needs no credential first, so
//! that whoever is blocked by address, or has sent too much, costs no signature check.

use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::gates::ShadowDenied;
use super::{DecisionAndPlace, EntryStage};
use crate::engine::active::Active;
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::{Clock, NowOrLater, Store};

/// A request that was let in as far as its credential, or decided before that. It keeps the policy that it began
/// with, and is used up by [`Limiter::admit_entered`]: detectors count it once.
#[must_use = "the request is counted by detectors but not decided"]
pub struct Entered {
    set: Arc<Active>,
    /// What was decided without its credential.
    ruling: Option<Ruling>,
    shadow_denied: ShadowDenied,
    at: Nanos,
}

impl Entered {
    /// Is it decided already? Then nobody needs to know what its credential says.
    pub fn is_decided(&self) -> bool {
        self.ruling.is_some()
    }

    /// When it came.
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
    /// The first of two steps: kill switch, and `block`, `allow` and bursts as far as they go by address, headers,
    /// path and the like. The request need not say yet who asks; what it does say of that is not looked at.
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
    /// // Now the token is verified, and does not hold.
    /// request.credential = Credential::Invalid;
    /// let decision = limiter.check_entered(entered, &request);
    /// assert_eq!((decision.reason(), decision.client_status()), (Reason::InvalidCredentials, 401));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(&self, request: &Request<'_>) -> Entered {
        let (at, set) = (self.clock.now(), self.active.load_full());
        let facts = set.rules.facts(request);
        let mut shadow_denied = ShadowDenied::new();
        // Whoever is decided here waits nowhere, so all that take are the same.
        let opening = self.open_unidentified(&set, &facts, (Operation::Check, at), &mut shadow_denied);
        let mut ruling = opening.ruling(at);
        if let Some(ruling) = &mut ruling {
            ruling.shadow_denied = std::mem::take(&mut shadow_denied);
            self.close(&set, &facts, None, ruling, Operation::Check);
        }
        drop(facts);
        Entered { set, ruling, shadow_denied, at }
    }

    /// The second step for a request that now says who asks: the credential, what goes by it, and the limits.
    pub(crate) fn decide_entered(
        &self,
        entered: Entered,
        request: &Request<'_>,
        ask: Operation,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        let Entered { set, ruling, shadow_denied, at } = entered;
        let (set, before) = (Guard::from_inner(set), EntryStage::Unidentified(shadow_denied));
        match ruling {
            Some(ruling) => NowOrLater::Now((self.told(set, ruling), None)),
            None => self.decide_under(set, before, request, ask, at),
        }
    }

    /// The second step on any store. A limit whose strategy is `queue` refuses here; [`Limiter::admit_entered`] waits.
    pub fn check_entered_async(&self, entered: Entered, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.decide_entered(entered, request, Operation::Check).map(|(decision, _)| decision)
    }
}

impl<C: Clock> Limiter<crate::Memory<C>, C> {
    /// The second step for a request that now says who asks: the credential, what goes by it, and the limits.
    pub fn check_entered(&self, entered: Entered, request: &Request<'_>) -> Decision {
        self.check_entered_async(entered, request).expect_now()
    }
}
