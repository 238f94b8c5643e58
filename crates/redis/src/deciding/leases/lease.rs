//! The lease of one key: its tokens, and when the next request for more is due.

use tidegate::{Charge, Cost, Limit, LimitDecision, Meter, Nanos, Outcome, OwnedCharge};

use super::LeaseAnswer;
use super::grants::{Drawn, LeaseGrant, LeaseGrants};
use super::terms::LeaseTerms;
use crate::calls::State;
use crate::deciding::denials::{REMEMBERED_MAX, Timing};
use crate::deciding::strict::LimitState;
use crate::maintenance::standalone;

/// A lease is low when less than a fourth of the last grant is left.
const LOW_DIVISOR: u32 = 4;

/// The lease of one key.
#[derive(Debug)]
pub(super) struct Lease {
    /// The bucket, as a charge.
    bucket: OwnedCharge,
    grants: LeaseGrants,
    /// Tokens drawn for requests that are not decided yet.
    held: u32,
    /// The request that is under way.
    pending: Option<Pending>,
    next_request: Nanos,
    next_renewal: Nanos,
    /// The tokens of the last grant.
    granted: u32,
    /// When the last request was sent, if it was granted less than it wanted. Then the bucket is nearly empty, and this
    /// node denies until the next request.
    cut_short: Option<Nanos>,
    /// The state of the bucket itself in the last answer.
    bucket_state: u64,
    timing: Timing,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sent: Nanos,
    /// When its grant expires.
    until: Nanos,
    /// The tokens that it requests.
    want: u32,
    /// The demand, which may be more.
    wanted: u32,
}

impl Lease {
    pub(super) fn new(charge: &Charge<'_>) -> Lease {
        Lease {
            bucket: standalone(charge),
            grants: LeaseGrants::default(),
            held: 0,
            pending: None,
            next_request: Nanos::ZERO,
            next_renewal: Nanos::ZERO,
            granted: 0,
            cut_short: None,
            bucket_state: 0,
            timing: Timing { sent: Nanos::ZERO, received: Nanos::ZERO, at: Nanos::ZERO },
        }
    }

    /// The tokens that may be used now.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        self.grants.alive(now)
    }

    pub(super) fn next_request(&self) -> Nanos {
        self.next_request
    }

    /// The least that the server's clock shows.
    pub(super) fn server_at(&self, now: Nanos) -> Nanos {
        self.timing.server_at(now)
    }

    /// Pays for a charge in full, or not at all.
    pub(super) fn cover(&mut self, charge: &Charge<'_>, now: Nanos) -> Option<(Drawn, LimitDecision)> {
        let cost = charge.cost.get();
        if self.alive(now) < cost {
            return None;
        }
        let drawn = self.grants.draw(cost, now);
        let decision = self.peek_bucket(charge, Cost::ZERO, now)?;
        Some((drawn, with_lease(decision, self.alive(now))))
    }

    /// Draws all that it has for a charge that it does not cover.
    pub(super) fn draw(&mut self, charge: &Charge<'_>, now: Nanos) -> Drawn {
        self.grants.draw(charge.cost.get(), now)
    }

    /// Counts drawn tokens as held until the request is decided.
    pub(super) fn hold(&mut self, drawn: Drawn) {
        self.held = self.held.saturating_add(drawn.tokens());
    }

    /// The held tokens are used.
    pub(super) fn release(&mut self, drawn: Drawn) {
        self.held = self.held.saturating_sub(drawn.tokens());
    }

    /// Returns drawn tokens that were not used.
    pub(super) fn put_back(&mut self, drawn: Drawn) {
        self.grants.put_back(drawn);
    }

    /// The tokens that this node has or is about to get: never more than half of the bucket.
    fn outstanding(&self, now: Nanos) -> u32 {
        let under_way = self.pending.filter(|pending| now < pending.until).map_or(0, |pending| pending.want);
        self.alive(now).saturating_add(self.held).saturating_add(under_way)
    }

    /// Should it be renewed before it is used up? `true` at most once in half a life.
    pub(super) fn wants_renewal(&mut self, half_life: Nanos, now: Nanos) -> bool {
        let low = self.alive(now) < self.granted / LOW_DIVISOR;
        let wants = low && self.may_request(now) && now >= self.next_renewal;
        if wants {
            self.next_renewal = now.saturating_add(half_life);
        }
        wants
    }

    /// Denies a charge that it does not cover, if the bucket is nearly empty and the next request is not due yet; but
    /// no longer than any denial is remembered, in case a request stays under way.
    pub(super) fn refusal(&self, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let cut_short = self.cut_short?;
        if self.may_request(now) || now >= cut_short.saturating_add(REMEMBERED_MAX) {
            return None;
        }
        let mut decision = self.peek_bucket(charge, charge.cost, now)?;
        let next_request_at = self.next_request_at(now).saturating_sub(now);
        let retry_after = match decision.outcome {
            Outcome::Never => return None,
            Outcome::Allowed => next_request_at,
            Outcome::Denied { retry_after } => retry_after.max(next_request_at),
        };
        decision.outcome = Outcome::Denied { retry_after };
        decision.remaining = self.alive(now).min(decision.limit);
        decision.reset_after = decision.reset_after.max(retry_after);
        Some(decision)
    }

    fn may_request(&self, now: Nanos) -> bool {
        now >= self.next_request && self.pending.is_none_or(|pending| now >= pending.until)
    }

    /// When the next request is due. One without an answer after half a life blocks the next until its grant would have
    /// expired.
    fn next_request_at(&self, now: Nanos) -> Nanos {
        let late = self.pending.filter(|_| now >= self.next_request);
        late.map_or(self.next_request, |pending| pending.until)
    }

    /// A request is about to be sent: how many tokens it wants; zero if none is due.
    pub(super) fn begin(
        &mut self,
        demand: u32,
        terms: &LeaseTerms,
        sent: Nanos,
        promised: impl FnOnce() -> Option<Nanos>,
    ) -> u32 {
        if !self.may_request(sent) {
            return 0;
        }
        let wanted = demand.saturating_sub(self.alive(sent));
        let want = wanted.min(terms.max_held.saturating_sub(self.outstanding(sent)));
        if want == 0 {
            return 0;
        }
        let next = sent.saturating_add(terms.half_life().min(REMEMBERED_MAX));
        let promised = promised().filter(|&promised| promised > sent);
        self.next_request = promised.map_or(next, |promised| next.min(promised));
        self.pending = Some(Pending { sent, until: sent.saturating_add(terms.life), want, wanted });
        want
    }

    /// Records the answer to a call about this bucket, whether or not the call wanted tokens.
    pub(super) fn record_answer(&mut self, answer: &LeaseAnswer<'_>, same_numbers: bool, terms: &LeaseTerms) {
        if let (State::Word(word), true) = (&answer.standing.state, same_numbers) {
            // If two answers overtook each other, the later one by the server's clock is right. Otherwise the second
            // is: after a failover the new server's clock may be behind.
            if answer.timing.sent >= self.timing.received || answer.timing.at >= self.timing.at {
                (self.bucket_state, self.timing) = (*word, answer.timing);
            }
        }
        if answer.refused_itself {
            self.cut_short = Some(answer.timing.sent);
        }
        let Some(pending) =
            self.pending.filter(|pending| pending.sent == answer.timing.sent && answer.want > 0)
        else {
            return;
        };
        self.pending = None;
        if answer.refused {
            if !answer.refused_itself {
                // Another limit refused the call: this one may send its request again at once.
                self.next_request = pending.sent;
            }
            return;
        }
        self.granted = answer.granted;
        self.cut_short = (answer.granted < pending.wanted).then_some(pending.sent);
        if same_numbers && answer.granted > 0 && answer.timing.received < pending.until {
            let grant =
                LeaseGrant { left: answer.granted, expires: pending.until, granted_at: answer.timing.at };
            self.grants.add(grant, terms.life);
        }
    }

    /// There was no answer. The level of the bucket is unknown then, and denying until the next request would hide that
    /// the server is down.
    pub(super) fn failed(&mut self, sent: Nanos) {
        if self.pending.is_some_and(|pending| pending.sent == sent) {
            self.pending = None;
            self.cut_short = None;
        }
    }

    /// Takes a charge of `charged_at` back into a grant, if it is no older than the grant and the lease may hold it.
    pub(super) fn absorb(&mut self, tokens: u32, charged_at: Nanos, terms: &LeaseTerms, now: Nanos) -> bool {
        let fits = self.outstanding(now).saturating_add(tokens) <= terms.max_held;
        fits && self.grants.absorb(tokens, charged_at, terms.life, now)
    }

    /// What a peek would return.
    pub(super) fn standing(&self, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let left = self.alive(now);
        let undecided = Cost::new(charge.cost.get().saturating_sub(left));
        Some(with_lease(self.peek_bucket(charge, undecided, now)?, left))
    }

    /// Removes all live tokens.
    pub(super) fn take_all(mut self, now: Nanos, into: &mut Vec<(OwnedCharge, Nanos)>) {
        for (tokens, granted_at) in self.grants.take_all(now) {
            into.push((OwnedCharge { cost: Cost::new(tokens), ..self.bucket.clone() }, granted_at));
        }
    }

    fn peek_bucket(&self, charge: &Charge<'_>, cost: Cost, now: Nanos) -> Option<LimitDecision> {
        let meter: &Meter = charge.limit.limit().meter()?;
        Some(meter.peek(self.bucket_state, cost, self.timing.server_at(now)))
    }
}

/// Adds leased tokens to what remains in the bucket.
pub(crate) fn with_lease(decision: LimitDecision, leased: u32) -> LimitDecision {
    LimitDecision { remaining: decision.remaining.saturating_add(leased).min(decision.limit), ..decision }
}

/// The decision of a peek whose cost would partly come from a lease.
pub(crate) fn peek_with_lease(
    charge: &Charge<'_>,
    leased: u32,
    standing: &LimitState,
    by_server: &LimitDecision,
) -> LimitDecision {
    let missing = Cost::new(charge.cost.get().saturating_sub(leased));
    let decision = match (&standing.limit, &standing.state) {
        (Limit::Meter(meter), State::Word(word)) => {
            meter.peek_ahead(*word, missing, standing.at, charge.delay)
        }
        _ => *by_server,
    };
    with_lease(decision, leased)
}
