//! Tokens that were paid for ahead, so that hot keys are decided without asking.
//!
//! A lease is taken from the bucket when it is granted, lives for a while, and is used by this node alone. What is
//! not used is lost. So whatever nodes do, crash and pause included, they admit no more than the bucket gave, and
//! what it gave lately and was not used yet is all that can come on top of a full bucket: what nodes may hold, or
//! what comes in during a life, whichever is less.
//!
//! For that to hold: a lease's life begins before the call is sent, and nothing is used after it.

mod bounds;
mod demand;
mod held;
mod lease;
mod parcel;
mod terms;

use tidegate::{Charge, Cost, Limit, LimitDecision, LimitRef, Nanos, OwnedCharge};

use crate::denials::{STEP_BACK, Timing};
use crate::strict::LimitState;
use crate::table::{KeyHash, RecentKeys};
use bounds::Bounds;
use demand::Demand;
use lease::Lease;
use terms::LeaseTerms;

pub(crate) use held::DrawnLeases;
pub(crate) use lease::with_lease;
pub(crate) use parcel::Drawn;

/// The leases of this node, and the demand for keys that may be leased.
#[derive(Debug)]
pub(crate) struct Leases {
    table: RecentKeys<Place>,
    life: Nanos,
    bounds: Bounds,
}

/// What is kept of a key.
#[derive(Debug)]
struct Place {
    /// The numbers that it was asked for under.
    limit_id: u32,
    terms: LeaseTerms,
    demand: Demand,
    seen: Nanos,
    lease: Option<Box<Lease>>,
    /// May it have been leased, now or earlier?
    maybe_leased: bool,
}

/// What a lease does about a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaseStep {
    /// It pays for it.
    Covered {
        drawn: Drawn,
        decision: LimitDecision,
        /// When that was at least, by the server's clock.
        at: Nanos,
        /// It should be renewed soon.
        low: bool,
    },
    /// It does not hold it, and the next ask is not due yet.
    Refused(LimitDecision),
    /// The server has to be asked for what was not drawn.
    Ask(Drawn),
}

/// What came of asking for a leased bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseAnswer<'a> {
    pub(crate) timing: Timing,
    /// What was wanted beyond the cost, and what was granted.
    pub(crate) want: u32,
    pub(crate) granted: u32,
    /// Did this bucket refuse, or another of the same call?
    pub(crate) refused_itself: bool,
    pub(crate) refused: bool,
    pub(crate) standing: &'a LimitState,
}

/// What happens to a charge that is handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandBackRule {
    /// It went back into the lease.
    Kept,
    /// It goes to the server, as if it had been charged so much earlier: it may have been paid for then.
    Earlier(Nanos),
}

impl Leases {
    pub(crate) fn new(life: Nanos, max: usize) -> Leases {
        let table = RecentKeys::missing(max, |place: &Place| place.maybe_leased);
        Leases { table, life, bounds: Bounds::default() }
    }

    /// Limits were named, or edited; others are no more.
    pub(crate) fn named(&self, limits: &[LimitRef], now: Nanos) {
        let limits: Vec<_> = limits.iter().map(|limit| (limit, self.terms(limit.limit()))).collect();
        self.bounds.name_all(&limits, self.life, now);
    }

    /// By how much each limit may be exceeded, if there are so many nodes.
    pub(crate) fn bounds(&self, nodes: u32, now: Nanos) -> Vec<(String, u64)> {
        self.bounds.all(nodes, now)
    }

    /// How much earlier a charge may have been paid for.
    fn life_of(&self, charge: &Charge<'_>) -> Nanos {
        self.terms(charge.limit.limit()).map_or(Nanos::ZERO, |terms| terms.life)
    }

    fn terms(&self, limit: &Limit) -> Option<LeaseTerms> {
        LeaseTerms::of(limit, self.life)
    }

    /// Somebody asks for a charge: draws what the lease holds, if it is to be used.
    pub(crate) fn step(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> LeaseStep {
        let nothing = LeaseStep::Ask(Drawn::default());
        if charge.cost == Cost::ZERO || charge.delay > Nanos::ZERO {
            return nothing;
        }
        let known = |place: &mut Place| place.is_for(charge, now).then(|| place.step(charge, now));
        match self.table.with(hash, known) {
            Some(Some(step)) => return step,
            // Leased at another trust, or under numbers that were edited since. Until that lease is over, this
            // one is not leased.
            Some(None) if self.is_alive(hash, now) => return nothing,
            _ => {}
        }
        let Some(terms) = self.terms(charge.limit.limit()) else { return nothing };
        let new = || Place::new(charge.limit.id(), terms, self.table.misses_any(), now);
        self.table.with_or(hash, new, |place| {
            if place.limit_id != charge.limit.id() {
                *place = Place { maybe_leased: place.maybe_leased, ..new() };
            }
            place.step(charge, now)
        })
    }

    fn is_alive(&self, hash: KeyHash, now: Nanos) -> bool {
        let alive = |place: &mut Place| place.lease.as_ref().is_some_and(|lease| lease.alive(now) > 0);
        self.table.with(hash, alive).unwrap_or(false)
    }

    /// The server is about to be asked: what to want beyond the cost. `promised` is an instant at which somebody
    /// was told to come back.
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
        let begin = |place: &mut Place| {
            if !place.is_for(charge, sent) || !place.demand.is_hot() {
                return 0;
            }
            let demand = place.demand.of_a_life();
            place.maybe_leased = true;
            let lease = place.lease.get_or_insert_with(|| Box::new(Lease::new(charge)));
            let want = lease.begin(demand, &place.terms, sent, promised);
            if want > 0 {
                self.bounds.lease(charge.limit, place.terms, sent);
            }
            want
        };
        self.table.with(hash, begin).unwrap_or(0)
    }

    /// The server has answered. Says how much is leased now, and when the next ask is due if the key is leased.
    pub(crate) fn hear(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        told: &LeaseAnswer<'_>,
    ) -> Option<(u32, Nanos)> {
        let hear = |place: &mut Place| {
            if !place.is_for(charge, told.timing.heard) {
                return None;
            }
            let same_numbers = told.standing.limit == *charge.limit.limit();
            let lease = place.lease.as_mut()?;
            lease.hear(told, same_numbers, &place.terms);
            Some((lease.alive(told.timing.heard), lease.next_ask()))
        };
        self.table.with(hash, hear).flatten()
    }

    /// There was no answer: what was asked for is lost.
    pub(crate) fn failed(&self, hash: KeyHash, sent: Nanos) {
        self.table.with(hash, |place| place.lease.as_mut().map(|lease| lease.failed(sent)));
    }

    /// Puts back what a step has drawn; `held` if it was held meanwhile.
    pub(crate) fn put_back(&self, hash: KeyHash, drawn: Drawn, held: bool) {
        self.with_lease(hash, drawn, |lease| {
            if held {
                lease.release(drawn);
            }
            lease.put_back(drawn);
        });
    }

    /// Another limit has refused a request that was asked for here too: it is no demand for this one. Otherwise
    /// whoever is denied by one limit could have all of another leased and lost.
    pub(crate) fn no_demand(&self, hash: KeyHash, charge: &Charge<'_>) {
        if charge.cost > Cost::ZERO && charge.delay == Nanos::ZERO {
            self.table.with(hash, |place| {
                if place.limit_id == charge.limit.id() {
                    place.demand.uncount(charge.cost.get());
                }
            });
        }
    }

    /// What a step has drawn is not used yet: others have to decide first.
    pub(crate) fn hold(&self, hash: KeyHash, drawn: Drawn) {
        self.with_lease(hash, drawn, |lease| lease.hold(drawn));
    }

    /// What was held is used.
    pub(crate) fn release(&self, hash: KeyHash, drawn: Drawn) {
        self.with_lease(hash, drawn, |lease| lease.release(drawn));
    }

    fn with_lease(&self, hash: KeyHash, drawn: Drawn, act: impl FnOnce(&mut Lease)) {
        if drawn.tokens() > 0 {
            self.table.with(hash, |place| place.lease.as_deref_mut().map(act));
        }
    }

    /// What a peek would say, as far as is known here; `None` if the key is not leased.
    pub(crate) fn standing(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let look = |place: &mut Place| {
            let lease = place.lease.as_ref().filter(|_| place.limit_id == charge.limit.id())?;
            lease.standing(charge, now)
        };
        self.table.with(hash, look).flatten()
    }

    /// Would a charge be refused here, between two asks?
    pub(crate) fn would_refuse(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        now: Nanos,
    ) -> Option<LimitDecision> {
        let look = |place: &mut Place| {
            let lease = place.lease.as_ref().filter(|_| place.limit_id == charge.limit.id())?;
            let lacks = lease.alive(now) < charge.cost.get() && place.demand.is_hot();
            lacks.then(|| lease.refusal(charge, now)).flatten()
        };
        self.table.with(hash, look).flatten()
    }

    /// What is leased of a key and alive.
    pub(crate) fn held(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> u32 {
        let look = |place: &mut Place| {
            let lease = place.lease.as_ref().filter(|_| place.limit_id == charge.limit.id());
            lease.map_or(0, |lease| lease.alive(now))
        };
        self.table.with(hash, look).unwrap_or(0)
    }

    /// A charge that was made at `charged_at` of the server's clock is handed back.
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
        let hand_back = |place: &mut Place| {
            let of_these = place.limit_id == charge.limit.id();
            let lease = place.lease.as_mut().filter(|_| of_these);
            if lease.is_some_and(|lease| lease.absorb(charge.cost.get(), charged_at, &place.terms, now)) {
                return HandBackRule::Kept;
            }
            HandBackRule::Earlier(if place.maybe_leased { self.life_of(charge) } else { Nanos::ZERO })
        };
        // Once anything that was leased had to be forgotten, it may have been this.
        let maybe_leased = self.table.misses_any();
        let unknown = || HandBackRule::Earlier(if maybe_leased { self.life_of(charge) } else { Nanos::ZERO });
        self.table.with(hash, hand_back).unwrap_or_else(unknown)
    }

    /// Takes out all leases that are alive, with the server's instants of their grants, oldest first.
    pub(crate) fn take_all(&self, now: Nanos) -> Vec<(OwnedCharge, Nanos)> {
        let mut all = Vec::new();
        self.table.for_each(|place| {
            if let Some(lease) = place.lease.take() {
                lease.take_all(now, &mut all);
            }
        });
        let order = |(charge, at): &(OwnedCharge, Nanos)| (*at, charge.limit.id(), charge.key.clone());
        all.sort_by_cached_key(order);
        all
    }
}

impl Place {
    fn new(limit_id: u32, terms: LeaseTerms, maybe_leased: bool, now: Nanos) -> Place {
        Place { limit_id, terms, demand: Demand::default(), seen: now, lease: None, maybe_leased }
    }

    /// Is it about these numbers? Where the clock has stepped back nobody knows how old a lease is, and it is
    /// given up.
    fn is_for(&mut self, charge: &Charge<'_>, now: Nanos) -> bool {
        if now.saturating_add(STEP_BACK) < self.seen {
            self.lease = None;
            self.seen = now;
        }
        self.seen = self.seen.max(now);
        self.limit_id == charge.limit.id()
    }

    fn step(&mut self, charge: &Charge<'_>, now: Nanos) -> LeaseStep {
        let half = self.terms.half();
        self.demand.count(charge.cost.get(), half, now);
        let Some(lease) = &mut self.lease else { return LeaseStep::Ask(Drawn::default()) };
        if let Some((drawn, decision)) = lease.cover(charge, now) {
            let low = self.demand.is_hot() && lease.wants_renewal(half, now);
            return LeaseStep::Covered { drawn, decision, at: lease.server_at(now), low };
        }
        match lease.refusal(charge, now) {
            Some(decision) if self.demand.is_hot() => LeaseStep::Refused(decision),
            _ => LeaseStep::Ask(lease.draw(charge, now)),
        }
    }
}
