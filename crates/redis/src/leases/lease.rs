//! The lease of one key: what it holds, and when it may be asked for again.

use tidegate::{Charge, Cost, LimitDecision, Meter, Nanos, Outcome, OwnedCharge};

use super::LeaseAnswer;
use super::parcel::{Drawn, Parcel, Parcels};
use super::terms::LeaseTerms;
use crate::denials::{REMEMBERED_MAX, Timing};
use crate::link::State;
use crate::tend::by_itself;

/// A lease is low when less than this part of the last grant is left.
const LOW: u32 = 4;

/// The lease of one key.
#[derive(Debug)]
pub(super) struct Lease {
    /// Whose it is.
    bucket: OwnedCharge,
    parcels: Parcels,
    /// What was drawn for requests that are not decided yet.
    held: u32,
    /// The ask that is under way.
    pending: Option<Pending>,
    next_ask: Nanos,
    next_renewal: Nanos,
    /// What the last ask was granted.
    granted: u32,
    /// Was that less than it wanted, and when was it asked for? Then the bucket is near its limit, and until the next
    /// ask this node denies.
    cut_short: Option<Nanos>,
    /// How the bucket itself stood when last heard of.
    bucket_state: u64,
    timing: Timing,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sent: Nanos,
    /// What it brings is dead by then.
    until: Nanos,
    /// What it asks for.
    want: u32,
    /// What the demand is, be it more than that.
    wanted: u32,
}

impl Lease {
    pub(super) fn new(charge: &Charge<'_>) -> Lease {
        Lease {
            bucket: by_itself(charge),
            parcels: Parcels::default(),
            held: 0,
            pending: None,
            next_ask: Nanos::ZERO,
            next_renewal: Nanos::ZERO,
            granted: 0,
            cut_short: None,
            bucket_state: 0,
            timing: Timing { sent: Nanos::ZERO, heard: Nanos::ZERO, at: Nanos::ZERO },
        }
    }

    /// What may be used now.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        self.parcels.alive(now)
    }

    pub(super) fn next_ask(&self) -> Nanos {
        self.next_ask
    }

    /// What the server's clock shows at least.
    pub(super) fn server_at(&self, now: Nanos) -> Nanos {
        self.timing.server_at(now)
    }

    /// Pays for all of a charge, or for none of it.
    pub(super) fn cover(&mut self, charge: &Charge<'_>, now: Nanos) -> Option<(Drawn, LimitDecision)> {
        let cost = charge.cost.get();
        if self.alive(now) < cost {
            return None;
        }
        let drawn = self.parcels.draw(cost, now);
        let decision = self.peek_bucket(charge, Cost::ZERO, now)?;
        Some((drawn, with_lease(decision, self.alive(now))))
    }

    /// Draws what there is for a charge that it does not cover.
    pub(super) fn draw(&mut self, charge: &Charge<'_>, now: Nanos) -> Drawn {
        self.parcels.draw(charge.cost.get(), now)
    }

    /// What was drawn is not used before others have decided too.
    pub(super) fn hold(&mut self, drawn: Drawn) {
        self.held = self.held.saturating_add(drawn.tokens());
    }

    /// What was held is used.
    pub(super) fn release(&mut self, drawn: Drawn) {
        self.held = self.held.saturating_sub(drawn.tokens());
    }

    /// What was drawn is not used after all.
    pub(super) fn put_back(&mut self, drawn: Drawn) {
        self.parcels.put_back(drawn);
    }

    /// What this node may use of the bucket now or soon: never more than half of it.
    fn outstanding(&self, now: Nanos) -> u32 {
        let under_way = self.pending.filter(|pending| now < pending.until).map_or(0, |pending| pending.want);
        self.alive(now).saturating_add(self.held).saturating_add(under_way)
    }

    /// Should it be asked for before it is used up? Says so once in half a life.
    pub(super) fn wants_renewal(&mut self, half: Nanos, now: Nanos) -> bool {
        let low = self.alive(now) < self.granted / LOW;
        let wants = low && self.may_ask(now) && now >= self.next_renewal;
        if wants {
            self.next_renewal = now.saturating_add(half);
        }
        wants
    }

    /// Does it deny what it does not hold? Near the limit, until the next ask is due; but no longer than any denial is
    /// remembered, should an ask be under way for so long.
    pub(super) fn refusal(&self, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let cut_short = self.cut_short?;
        if self.may_ask(now) || now >= cut_short.saturating_add(REMEMBERED_MAX) {
            return None;
        }
        let mut decision = self.peek_bucket(charge, charge.cost, now)?;
        let gate = self.gate(now).saturating_sub(now);
        let retry_after = match decision.outcome {
            Outcome::Never => return None,
            Outcome::Allowed => gate,
            Outcome::Denied { retry_after } => retry_after.max(gate),
        };
        decision.outcome = Outcome::Denied { retry_after };
        decision.remaining = self.alive(now).min(decision.limit);
        decision.reset_after = decision.reset_after.max(retry_after);
        Some(decision)
    }

    fn may_ask(&self, now: Nanos) -> bool {
        now >= self.next_ask && self.pending.is_none_or(|pending| now >= pending.until)
    }

    /// When the next ask is due. One that has not come back in half a life keeps others from being sent until
    /// what it may bring is dead.
    fn gate(&self, now: Nanos) -> Nanos {
        let late = self.pending.filter(|_| now >= self.next_ask);
        late.map_or(self.next_ask, |pending| pending.until)
    }

    /// An ask is about to be sent: what it wants.
    pub(super) fn begin(
        &mut self,
        demand: u32,
        terms: &LeaseTerms,
        sent: Nanos,
        promised: impl FnOnce() -> Option<Nanos>,
    ) -> u32 {
        if !self.may_ask(sent) {
            return 0;
        }
        let wanted = demand.saturating_sub(self.alive(sent));
        let want = wanted.min(terms.most.saturating_sub(self.outstanding(sent)));
        if want == 0 {
            return 0;
        }
        let next = sent.saturating_add(terms.half().min(REMEMBERED_MAX));
        let promised = promised().filter(|&promised| promised > sent);
        self.next_ask = promised.map_or(next, |promised| next.min(promised));
        self.pending = Some(Pending { sent, until: sent.saturating_add(terms.life), want, wanted });
        want
    }

    /// The server has answered a call that this lease was part of, whether or not it wanted anything.
    pub(super) fn hear(&mut self, told: &LeaseAnswer<'_>, same_numbers: bool, terms: &LeaseTerms) {
        if let (State::Word(word), true) = (&told.standing.state, same_numbers) {
            // Of two answers that overtook each other the later is right. Of two that did not, the second: the
            // server that follows another may have a clock that is behind.
            if told.timing.sent >= self.timing.heard || told.timing.at >= self.timing.at {
                (self.bucket_state, self.timing) = (*word, told.timing);
            }
        }
        if told.refused_itself {
            self.cut_short = Some(told.timing.sent);
        }
        let Some(pending) = self.pending.filter(|pending| pending.sent == told.timing.sent && told.want > 0)
        else {
            return;
        };
        self.pending = None;
        if told.refused {
            if !told.refused_itself {
                // Another limit refused: this one was not asked, as it were.
                self.next_ask = pending.sent;
            }
            return;
        }
        self.granted = told.granted;
        self.cut_short = (told.granted < pending.wanted).then_some(pending.sent);
        if same_numbers && told.granted > 0 && told.timing.heard < pending.until {
            let parcel = Parcel { left: told.granted, expires: pending.until, granted_at: told.timing.at };
            self.parcels.add(parcel, terms.life);
        }
    }

    /// There was no answer. Nobody knows then how near the limit is, and to deny until the next ask would hide
    /// that the server is gone.
    pub(super) fn failed(&mut self, sent: Nanos) {
        if self.pending.is_some_and(|pending| pending.sent == sent) {
            self.pending = None;
            self.cut_short = None;
        }
    }

    /// Puts a charge of `charged_at` back, if it is no older than what it joins, and there is room for it.
    pub(super) fn absorb(&mut self, tokens: u32, charged_at: Nanos, terms: &LeaseTerms, now: Nanos) -> bool {
        let fits = self.outstanding(now).saturating_add(tokens) <= terms.most;
        fits && self.parcels.absorb(tokens, charged_at, terms.life, now)
    }

    /// What a peek would say.
    pub(super) fn standing(&self, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        let left = self.alive(now);
        let lacking = Cost::new(charge.cost.get().saturating_sub(left));
        Some(with_lease(self.peek_bucket(charge, lacking, now)?, left))
    }

    /// Takes out what is alive.
    pub(super) fn take_all(mut self, now: Nanos, into: &mut Vec<(OwnedCharge, Nanos)>) {
        for (tokens, granted_at) in self.parcels.take_all(now) {
            into.push((OwnedCharge { cost: Cost::new(tokens), ..self.bucket.clone() }, granted_at));
        }
    }

    fn peek_bucket(&self, charge: &Charge<'_>, cost: Cost, now: Nanos) -> Option<LimitDecision> {
        let meter: &Meter = charge.limit.limit().meter()?;
        Some(meter.peek(self.bucket_state, cost, self.timing.server_at(now)))
    }
}

/// What is left in the bucket and in the lease.
pub(crate) fn with_lease(decision: LimitDecision, leased: u32) -> LimitDecision {
    LimitDecision { remaining: decision.remaining.saturating_add(leased).min(decision.limit), ..decision }
}
