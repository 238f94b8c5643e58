//! The decision on a request, with everything that can be reported about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Limit, Nanos, RetryAfter};
use tidegate_policy::{OverrideRule, PlanOverrides, Rule, RuleSet, Strategy, Tier};

use super::active::Active;
use super::bursts::BurstNote;
use super::reason::Reason;

/// What denied a request, or would have in enforcing mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuser {
    Block,
    Detector(u32),
    Credentials,
    UnknownKey,
    UnknownTenant,
    Rule(u32),
}

/// The decision of one limit, with the number of its rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleStanding {
    pub(crate) rule: u32,
    pub(crate) decision: tidegate_core::LimitDecision,
    /// Does the request wait for this limit?
    pub(crate) queued: bool,
}

/// A decision without the policy it was made under.
#[derive(Debug)]
pub(crate) struct Ruling {
    pub(crate) at: Nanos,
    /// The wall clock's time at `at`.
    pub(crate) wall: Nanos,
    pub(crate) allowed: bool,
    pub(crate) reason: Reason,
    pub(crate) standings: SmallVec<[RuleStanding; 8]>,
    /// The index of the tightest standing, which is the one reported.
    pub(crate) tightest: Option<usize>,
    pub(crate) refuser: Option<Refuser>,
    /// Zero if allowed, `None` if no wait helps or none is known.
    pub(crate) retry_after: Option<Nanos>,
    /// The wait in whole seconds, jitter included.
    pub(crate) retry_after_secs: Option<u64>,
    /// The rule that marks the request as degraded.
    pub(crate) degraded_by: Option<u32>,
    pub(crate) queued: Option<Nanos>,
    /// What would have denied the request in enforcing mode.
    pub(crate) shadow_denied: SmallVec<[Refuser; 4]>,
    /// The most serious state of a burst detector for this request.
    pub(crate) burst: Option<BurstNote>,
    /// Were limits decided without the store?
    pub(crate) without_store: bool,
    /// The overrides in whose numbers limits were charged, by the indices of their standings.
    pub(crate) overrides: PlanOverrides,
}

impl Ruling {
    /// An admission before the limits were charged.
    pub(crate) fn admitted(at: Nanos, reason: Reason) -> Ruling {
        Ruling {
            at,
            wall: at,
            allowed: true,
            reason,
            standings: SmallVec::new(),
            tightest: None,
            refuser: None,
            retry_after: Some(Nanos::ZERO),
            retry_after_secs: Some(0),
            degraded_by: None,
            queued: None,
            shadow_denied: SmallVec::new(),
            burst: None,
            without_store: false,
            overrides: PlanOverrides::new(),
        }
    }

    /// A denial before the limits were charged.
    pub(crate) fn refused(at: Nanos, reason: Reason, by: Refuser, until: Option<Nanos>) -> Ruling {
        let retry_after = until.map(|until| until.saturating_sub(at));
        Ruling {
            allowed: false,
            refuser: Some(by),
            retry_after,
            retry_after_secs: retry_after.map(|wait| wait.as_secs_ceil().max(1)),
            ..Ruling::admitted(at, reason)
        }
    }
}

#[cfg(feature = "async")]
impl Ruling {
    /// Turns a ruling into a denial because the time in a queue has run out. A ruling without limits stays, and
    /// so does one without a tightest limit: after a change of the policy only limits in shadow mode may be
    /// left, and those deny nothing.
    pub(crate) fn time_out(&mut self) {
        let Some(standing) = self.tightest.and_then(|index| self.standings.get(index)) else { return };
        if self.allowed {
            self.refuser = Some(Refuser::Rule(standing.rule));
            self.retry_after = Some(Nanos::new(1));
            self.retry_after_secs = Some(1);
        }
        (self.allowed, self.reason, self.degraded_by) = (false, Reason::QueueTimeout, None);
    }
}

/// The decision on a request.
///
/// It holds a reference to the policy it was made under, for the names of limits; drop it once the response is
/// written.
#[must_use = "a request that was not admitted must not be served"]
pub struct Decision {
    set: Guard<Arc<Active>>,
    ruling: Ruling,
    /// Where the client's state can be looked at.
    console_link: Option<Box<str>>,
}

/// The decision of one limit within a decision on a request.
#[derive(Clone, Copy, Debug)]
pub struct LimitStanding<'d> {
    /// The limit.
    pub rule: &'d Rule,
    /// Whether this limit alone admits the request, and its state.
    pub decision: &'d tidegate_core::LimitDecision,
    /// The override that has given it other numbers.
    pub overridden: Option<&'d OverrideRule>,
    /// Its numbers before trust.
    pub(crate) untrusted: &'d Limit,
}

impl Decision {
    pub(crate) fn new(set: Guard<Arc<Active>>, ruling: Ruling) -> Decision {
        Decision { set, ruling, console_link: None }
    }

    /// The policy it was made under.
    pub(crate) fn policy(&self) -> Arc<Active> {
        Arc::clone(&self.set)
    }

    /// The same decision with a full `Arc` of the policy: holding an `arc_swap::Guard` for long slows every
    /// other reader.
    pub(crate) fn under_full_policy(self) -> Decision {
        Decision { set: Guard::from_inner(Guard::into_inner(self.set)), ..self }
    }

    #[cfg(feature = "async")]
    pub(crate) fn ruling_mut(&mut self) -> (&Active, &mut Ruling) {
        (&self.set, &mut self.ruling)
    }

    pub(crate) fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// The rules it was made under.
    pub(crate) fn rules(&self) -> &RuleSet {
        &self.set.rules
    }

    /// The same decision with an address where support can look at the client's state: the member `console` of
    /// its problem body.
    pub fn with_console_link(self, link: impl Into<Box<str>>) -> Decision {
        Decision { console_link: Some(link.into()), ..self }
    }

    pub(crate) fn console_link(&self) -> Option<&str> {
        self.console_link.as_deref()
    }

    /// Is the request admitted?
    pub fn is_allowed(&self) -> bool {
        self.ruling.allowed
    }

    /// Why it was decided so.
    pub fn reason(&self) -> Reason {
        self.ruling.reason
    }

    /// Was it made without the store, because that failed? Then the `on_store_error` of each limit decided.
    pub fn without_store(&self) -> bool {
        self.ruling.without_store
    }

    /// When it was decided, on the monotonic clock.
    pub fn at(&self) -> Nanos {
        self.ruling.at
    }

    /// The wall clock's time when it was decided.
    pub fn wall(&self) -> Nanos {
        self.ruling.wall
    }

    /// The tightest limit, which is the one reported: on a denial the one with the longest wait, otherwise the
    /// one with the smallest fraction remaining.
    pub fn tightest(&self) -> Option<LimitStanding<'_>> {
        self.ruling.tightest.map(|index| self.standing((index, &self.ruling.standings[index])))
    }

    /// Every limit that applies, in the order of the document, followed by those of tenants from the root down.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = LimitStanding<'_>> {
        self.ruling.standings.iter().enumerate().map(|standing| self.standing(standing))
    }

    /// Every limit that applies, with the constant beginning of its JSON.
    pub(crate) fn limits_with_heads(&self) -> impl Iterator<Item = (&[u8], LimitStanding<'_>)> {
        let standings = self.ruling.standings.iter().enumerate();
        standings.map(|(index, standing)| {
            (&*self.set.bound[standing.rule as usize].json_head, self.standing((index, standing)))
        })
    }

    fn standing<'d>(&'d self, (index, standing): (usize, &'d RuleStanding)) -> LimitStanding<'d> {
        let rule = self.set.rules.rule(standing.rule);
        let mut overrides = self.ruling.overrides.iter();
        let overridden = overrides.find(|(item, _)| *item as usize == index).map(|(_, found)| &**found);
        let untrusted = overridden.and_then(|found| found.limit.as_ref()).unwrap_or(&rule.limit);
        let overridden = overridden.map(|found| &*found.rule);
        LimitStanding { rule, decision: &standing.decision, overridden, untrusted }
    }

    /// Whether the request should be repeated, and after how long.
    pub fn retry_after(&self) -> RetryAfter {
        RetryAfter::from_wait(self.ruling.allowed, self.ruling.retry_after)
    }

    /// The time until the request is admitted, as in the JSON of a decision: zero if it is admitted, `None` if
    /// no wait helps.
    #[doc(hidden)]
    pub fn wait(&self) -> Option<Nanos> {
        self.ruling.retry_after
    }

    /// The wait in whole seconds, as in the header `Retry-After`: rounded up, at least one on a denial, jitter
    /// included. Zero if the request is admitted, `None` if no wait helps.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.ruling.retry_after_secs
    }

    /// The limit that denied the request.
    pub(crate) fn refusing_limit(&self) -> Option<&Rule> {
        let Refuser::Rule(number) = self.ruling.refuser? else { return None };
        Some(self.set.rules.rule(number))
    }

    /// What denied the request: the name of a limit or a detector, or `block`; otherwise the reason.
    pub fn violated_rule(&self) -> Option<&str> {
        self.ruling.refuser.map(|refuser| self.name(refuser))
    }

    /// The tier of what denied the request.
    pub fn violated_tier(&self) -> Option<Tier> {
        match self.ruling.refuser? {
            Refuser::Rule(number) => Some(self.set.rules.rule(number).tier),
            Refuser::UnknownTenant => Some(Tier::Tenant),
            Refuser::Detector(number) => Some(Tier::of(&self.set.rules.detectors()[number as usize].key)),
            Refuser::Block | Refuser::Credentials | Refuser::UnknownKey => Some(Tier::Custom),
        }
    }

    /// The mark of a limit that was exceeded and only degrades.
    pub fn degraded(&self) -> Option<&str> {
        match &self.set.rules.rule(self.ruling.degraded_by?).strategy {
            Strategy::Degrade { tag } => Some(tag),
            Strategy::Reject | Strategy::Queue { .. } => None,
        }
    }

    /// How long the request has to wait, or has waited, in a queue.
    pub fn queued(&self) -> Option<Duration> {
        self.ruling.queued.map(Duration::from)
    }

    /// What would have denied the request in enforcing mode.
    pub fn shadow_denied(&self) -> impl Iterator<Item = &str> {
        self.ruling.shadow_denied.iter().map(|&refuser| self.name(refuser))
    }

    fn name(&self, refuser: Refuser) -> &str {
        match refuser {
            Refuser::Block => "block",
            Refuser::Credentials => Reason::InvalidCredentials.as_str(),
            Refuser::UnknownKey => Reason::UnknownKey.as_str(),
            Refuser::UnknownTenant => Reason::UnknownTenant.as_str(),
            Refuser::Detector(number) => &self.set.rules.detectors()[number as usize].name,
            Refuser::Rule(number) => &self.set.rules.rule(number).name,
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(all(test, feature = "async"))]
mod tests {
    use super::*;
    use tidegate_core::{Cost, Quota, token_bucket};

    #[test]
    fn a_limit_that_only_watches_does_not_refuse_who_has_waited_too_long() {
        let quota = Quota::per_second(1).unwrap();
        let decision = token_bucket::peek(0, &quota, Cost::ONE, Nanos::SECOND);
        let mut ruling = Ruling::admitted(Nanos::SECOND, Reason::Ok);
        ruling.standings.push(RuleStanding { rule: 0, decision, queued: false });
        ruling.time_out();
        assert_eq!((ruling.allowed, ruling.reason, ruling.refuser), (true, Reason::Ok, None));
        ruling.tightest = Some(0);
        ruling.time_out();
        let refused = (false, Reason::QueueTimeout, Some(Refuser::Rule(0)));
        assert_eq!((ruling.allowed, ruling.reason, ruling.refuser), refused);
    }
}
