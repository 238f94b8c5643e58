//! Leases: tokens that a node takes from a bucket ahead, so that it decides busy keys without a call.
//!
//! A lease is taken from the bucket when it is granted, has a limited life, and is used by one node only. Unused tokens
//! are lost. Therefore nodes admit no more than the bucket gave, whatever they do: crash, pause, or lose the
//! connection. By how much can they exceed the limit *B + R·t* in some interval? Tokens that were granted before the
//! interval and not used yet come on top of a full bucket. They are at most what all nodes may hold, and at most what
//! the bucket refills during one life of a lease; the smaller of the two is the bound.
//!
//! The argument needs two rules: the life of a lease begins before its call is sent, and no token is used after its
//! life.

mod bounds;
mod demand;
mod drawn;
mod grants;
mod lease;
mod terms;

use tidegate::{Charge, Cost, Limit, LimitDecision, LimitRef, Nanos, OwnedCharge};

use crate::deciding::denials::{STEP_BACK, Timing};
use crate::deciding::recent_keys::{KeyHash, RecentKeys};
use crate::deciding::strict::LimitState;
use bounds::Bounds;
use demand::Demand;
use lease::Lease;
use terms::LeaseTerms;

pub(crate) use drawn::DrawnLeases;
pub(crate) use grants::Drawn;
pub(crate) use lease::{peek_with_lease, with_lease};

/// The leases of this node, and the demand for each key that can be leased.
#[derive(Debug)]
pub(crate) struct Leases {
    recent: RecentKeys<LeaseEntry>,
    life: Nanos,
    bounds: Bounds,
}

/// The lease of a key, and the demand for it.
#[derive(Debug)]
struct LeaseEntry {
    /// The version of the limit that it is charged by.
    limit_id: u64,
    terms: LeaseTerms,
    demand: Demand,
    last_seen: Nanos,
    lease: Option<Box<Lease>>,
    /// May it ever have been leased?
    maybe_leased: bool,
}

/// The decision of a lease on a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaseStep {
    /// It pays for all of it.
    Covered {
        drawn: Drawn,
        decision: LimitDecision,
        /// The least that the server's clock showed then.
        at: Nanos,
        /// Is it to be renewed soon?
        low: bool,
    },
    /// It does not hold enough, and the next request to the server is not due yet.
    Refused(LimitDecision),
    /// The server must decide the part that was not drawn.
    NeedsServer(Drawn),
}

/// The server's answer about one leased bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseAnswer<'a> {
    pub(crate) timing: Timing,
    /// The tokens wanted beyond the cost, and those granted.
    pub(crate) want: u32,
    pub(crate) granted: u32,
    /// Did this bucket refuse, and did any bucket of the call?
    pub(crate) refused_itself: bool,
    pub(crate) refused: bool,
    pub(crate) standing: &'a LimitState,
}

/// Where a charge that is handed back goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandBackRule {
    /// It went back into the lease.
    Kept,
    /// To the server, dated this much earlier than the charge: a lease may have paid for it then.
    Earlier(Nanos),
}

impl Leases {
    pub(crate) fn new(life: Nanos, max: usize) -> Leases {
        let recent = RecentKeys::tracking_losses(max, |entry: &LeaseEntry| entry.maybe_leased);
        Leases { recent, life, bounds: Bounds::default() }
    }

    /// Limits were named or edited; those of the same batch that are missing now are gone.
    pub(crate) fn named(&self, limits: &[LimitRef], now: Nanos) {
        let limits: Vec<_> = limits.iter().map(|limit| (limit, self.terms(limit.limit()))).collect();
        self.bounds.name_all(&limits, self.life, now);
    }

    /// By how many tokens `nodes` nodes may exceed each limit.
    pub(crate) fn bounds(&self, nodes: u32, now: Nanos) -> Vec<(String, u64)> {
        self.bounds.all(nodes, now)
    }

    /// How much earlier than the charge a lease may have paid for it.
    fn life_of(&self, charge: &Charge<'_>) -> Nanos {
        self.terms(charge.limit.limit()).map_or(Nanos::ZERO, |terms| terms.life)
    }

    fn terms(&self, limit: &Limit) -> Option<LeaseTerms> {
        LeaseTerms::of(limit, self.life)
    }

    /// Counts the demand of a charge, and draws what the lease holds, if it may be used.
    pub(crate) fn step(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> LeaseStep {
        let nothing = LeaseStep::NeedsServer(Drawn::default());
        if charge.cost == Cost::ZERO || charge.delay > Nanos::ZERO {
            return nothing;
        }
        let known =
            |entry: &mut LeaseEntry| entry.matches_limit(charge, now).then(|| entry.step(charge, now));
        match self.recent.with(hash, known) {
            Some(Some(step)) => return step,
            // Leased at another trust, or under an older version. Until that lease expires, this one is not leased.
            Some(None) if self.is_alive(hash, now) => return nothing,
            _ => {}
        }
        let Some(terms) = self.terms(charge.limit.limit()) else { return nothing };
        let new = || LeaseEntry::new(charge.limit.id(), terms, self.recent.lost_any(), now);
        self.recent.with_or_insert(hash, new, |entry| {
            if entry.limit_id != charge.limit.id() {
                *entry = LeaseEntry { maybe_leased: entry.maybe_leased, ..new() };
            }
            entry.step(charge, now)
        })
    }

    fn is_alive(&self, hash: KeyHash, now: Nanos) -> bool {
        let alive = |entry: &mut LeaseEntry| entry.lease.as_ref().is_some_and(|lease| lease.alive(now) > 0);
        self.recent.with(hash, alive).unwrap_or(false)
    }

    /// A call is about to be sent: how many tokens to lease beyond the cost. `promised` is the instant at which a
    /// denied request may retry.
    pub(crate) fn begin(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        sent: Nanos,
        promised: impl FnOnce() -> Option<Nanos>,
    ) -> u32 {
        if charge.delay > Nanos::ZERO {
            return 0;
        }
        let begin = |entry: &mut LeaseEntry| {
            if !entry.matches_limit(charge, sent) || !entry.demand.is_hot() {
                return 0;
            }
            let demand = entry.demand.per_life();
            entry.maybe_leased = true;
            let lease = entry.lease.get_or_insert_with(|| Box::new(Lease::new(charge)));
            let want = lease.begin(demand, &entry.terms, sent, promised);
            if want > 0 {
                self.bounds.lease(charge.limit, entry.terms, sent);
            }
            want
        };
        self.recent.with(hash, begin).unwrap_or(0)
    }

    /// Records the server's answer. Returns the leased tokens and when the next request is due, if the key is leased.
    pub(crate) fn record_answer(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        answer: &LeaseAnswer<'_>,
    ) -> Option<(u32, Nanos)> {
        let record_answer = |entry: &mut LeaseEntry| {
            if !entry.matches_limit(charge, answer.timing.received) {
                return None;
            }
            let same_numbers = answer.standing.limit == *charge.limit.limit();
            let lease = entry.lease.as_mut()?;
            lease.record_answer(answer, same_numbers, &entry.terms);
            Some((lease.alive(answer.timing.received), lease.next_request()))
        };
        self.recent.with(hash, record_answer).flatten()
    }

    /// There was no answer: whatever was granted is lost.
    pub(crate) fn failed(&self, hash: KeyHash, sent: Nanos) {
        self.recent.with(hash, |entry| entry.lease.as_mut().map(|lease| lease.failed(sent)));
    }

    /// Returns what a step has drawn; `held` if [`Leases::hold`] was called for it.
    pub(crate) fn put_back(&self, hash: KeyHash, drawn: Drawn, held: bool) {
        self.with_lease(hash, drawn, |lease| {
            if held {
                lease.release(drawn);
            }
            lease.put_back(drawn);
        });
    }

    /// Another limit refused the request, so it does not count as demand for this one. Otherwise a client that is
    /// denied by one limit could cause all tokens of another to be leased and lost.
    pub(crate) fn uncount_demand(&self, hash: KeyHash, charge: &Charge<'_>) {
        if charge.cost > Cost::ZERO && charge.delay == Nanos::ZERO {
            self.recent.with(hash, |entry| {
                if entry.limit_id == charge.limit.id() {
                    entry.demand.uncount(charge.cost.get());
                }
            });
        }
    }

    /// Holds the tokens that a step has drawn until the server has decided.
    pub(crate) fn hold(&self, hash: KeyHash, drawn: Drawn) {
        self.with_lease(hash, drawn, |lease| lease.hold(drawn));
    }

    /// The held tokens are used.
    pub(crate) fn release(&self, hash: KeyHash, drawn: Drawn) {
        self.with_lease(hash, drawn, |lease| lease.release(drawn));
    }

    fn with_lease(&self, hash: KeyHash, drawn: Drawn, act: impl FnOnce(&mut Lease)) {
        if drawn.tokens() > 0 {
            self.recent.with(hash, |entry| entry.lease.as_deref_mut().map(act));
        }
    }

    /// What a peek would return, as far as this node knows; `None` if the key is not leased.
    pub(crate) fn standing(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let look = |entry: &mut LeaseEntry| {
            let lease = entry.lease.as_ref().filter(|_| entry.limit_id == charge.limit.id())?;
            lease.standing(charge, now)
        };
        self.recent.with(hash, look).flatten()
    }

    /// Would this node refuse a charge between two requests to the server?
    pub(crate) fn would_refuse(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        now: Nanos,
    ) -> Option<LimitDecision> {
        let look = |entry: &mut LeaseEntry| {
            let lease = entry.lease.as_ref().filter(|_| entry.limit_id == charge.limit.id())?;
            let lacks = lease.alive(now) < charge.cost.get() && entry.demand.is_hot();
            lacks.then(|| lease.refusal(charge, now)).flatten()
        };
        self.recent.with(hash, look).flatten()
    }

    /// The leased tokens of a key that may still be used.
    pub(crate) fn live_tokens(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> u32 {
        let look = |entry: &mut LeaseEntry| {
            let lease = entry.lease.as_ref().filter(|_| entry.limit_id == charge.limit.id());
            lease.map_or(0, |lease| lease.alive(now))
        };
        self.recent.with(hash, look).unwrap_or(0)
    }

    /// Hands back a charge that was made at `charged_at` by the server's clock.
    pub(crate) fn hand_back(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        charged_at: Nanos,
        now: Nanos,
    ) -> HandBackRule {
        if charge.delay > Nanos::ZERO {
            return HandBackRule::Earlier(Nanos::ZERO);
        }
        let hand_back = |entry: &mut LeaseEntry| {
            let of_these = entry.limit_id == charge.limit.id();
            let lease = entry.lease.as_mut().filter(|_| of_these);
            if lease.is_some_and(|lease| lease.absorb(charge.cost.get(), charged_at, &entry.terms, now)) {
                return HandBackRule::Kept;
            }
            HandBackRule::Earlier(if entry.maybe_leased { self.life_of(charge) } else { Nanos::ZERO })
        };
        // If any leased key was ever forgotten, this may be one.
        let maybe_leased = self.recent.lost_any();
        let unknown = || HandBackRule::Earlier(if maybe_leased { self.life_of(charge) } else { Nanos::ZERO });
        self.recent.with(hash, hand_back).unwrap_or_else(unknown)
    }

    /// Drops the lease of a key.
    pub(crate) fn forget(&self, hash: KeyHash) {
        self.recent.with(hash, |entry| entry.lease = None);
    }

    /// Removes all live leases; each with the server's instant of its grant, oldest first.
    pub(crate) fn take_all(&self, now: Nanos) -> Vec<(OwnedCharge, Nanos)> {
        let mut all = Vec::new();
        self.recent.for_each(|entry| {
            if let Some(lease) = entry.lease.take() {
                lease.take_all(now, &mut all);
            }
        });
        let order = |(charge, at): &(OwnedCharge, Nanos)| (*at, charge.limit.id(), charge.key.clone());
        all.sort_by_cached_key(order);
        all
    }
}

impl LeaseEntry {
    fn new(limit_id: u64, terms: LeaseTerms, maybe_leased: bool, now: Nanos) -> LeaseEntry {
        LeaseEntry { limit_id, terms, demand: Demand::default(), last_seen: now, lease: None, maybe_leased }
    }

    /// Is it for the charge's version of the limit? After a step back of the clock the age of a lease is unknown, so it
    /// is dropped.
    fn matches_limit(&mut self, charge: &Charge<'_>, now: Nanos) -> bool {
        if now.saturating_add(STEP_BACK) < self.last_seen {
            self.lease = None;
            self.last_seen = now;
        }
        self.last_seen = self.last_seen.max(now);
        self.limit_id == charge.limit.id()
    }

    fn step(&mut self, charge: &Charge<'_>, now: Nanos) -> LeaseStep {
        let half_life = self.terms.half_life();
        self.demand.count(charge.cost.get(), half_life, now);
        let Some(lease) = &mut self.lease else { return LeaseStep::NeedsServer(Drawn::default()) };
        if let Some((drawn, decision)) = lease.cover(charge, now) {
            let low = self.demand.is_hot() && lease.wants_renewal(half_life, now);
            return LeaseStep::Covered { drawn, decision, at: lease.server_at(now), low };
        }
        match lease.refusal(charge, now) {
            Some(decision) if self.demand.is_hot() => LeaseStep::Refused(decision),
            _ => LeaseStep::NeedsServer(lease.draw(charge, now)),
        }
    }
}
