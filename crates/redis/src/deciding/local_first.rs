//! Takes tokens: from leases and by remembered denials where they suffice, else by a call to the server.

use smallvec::SmallVec;
use tidegate::{Charge, Cost, Intent, Limit, LimitDecision, Nanos, Outcome, Role, Sleep, Verdict};

use crate::calls::{Link, State};
use crate::deciding::denials::Timing;
use crate::deciding::leases::{Drawn, DrawnLeases, LeaseAnswer, LeaseStep, with_lease};
use crate::deciding::recent_keys::KeyHash;
use crate::deciding::strict::{LimitState, StrictAnswer};
use crate::failures::StoreError;
use crate::store::RedisStore;

pub(crate) type Hashes = SmallVec<[KeyHash; 8]>;
type Steps = SmallVec<[LeaseStep; 8]>;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// Takes tokens if this node can decide alone; otherwise returns what the server must decide.
    pub(crate) fn take_locally(
        &self,
        charges: &[Charge<'_>],
        given: Nanos,
    ) -> Result<Verdict, Box<UndecidedTake>> {
        let (now, hashes, mut steps) = (self.local_now(given), self.hashes(charges), Steps::new());
        match self.decide_locally(charges, &hashes, &mut steps, now) {
            Some(verdict) => Ok(verdict),
            None => Err(Box::new(UndecidedTake { hashes, steps, now })),
        }
    }

    /// The verdict, if no call is needed; otherwise `steps` has what each charge still needs.
    fn decide_locally(
        &self,
        charges: &[Charge<'_>],
        hashes: &Hashes,
        steps: &mut Steps,
        now: Nanos,
    ) -> Option<Verdict> {
        if charges.iter().any(|charge| is_binding(charge) && is_never(charge)) {
            return Some(self.refused_locally(charges, hashes, &[], now));
        }
        let (mut needs_server, mut refused) = (false, false);
        for (charge, &hash) in charges.iter().zip(hashes) {
            let step = self.step(charge, hash, now);
            needs_server |= matches!(step, LeaseStep::NeedsServer(_));
            refused |= matches!(step, LeaseStep::Refused(_)) && is_binding(charge);
            steps.push(step);
        }
        if refused {
            self.put_back(hashes, steps);
            self.uncount_demand(charges, hashes, |i| !matches!(steps[i], LeaseStep::Refused(_)));
            return Some(self.refused_locally(charges, hashes, steps, now));
        }
        (!needs_server).then(|| self.allowed_locally(charges, steps, now))
    }

    /// Leases pay for every charge that is binding.
    fn allowed_locally(&self, charges: &[Charge<'_>], steps: &Steps, now: Nanos) -> Verdict {
        let (mut decisions, mut charged_at) = (SmallVec::new(), Nanos::MAX);
        for (charge, step) in charges.iter().zip(steps) {
            decisions.push(local_decision(step));
            if let LeaseStep::Covered { at, low, .. } = *step {
                // The earliest instant: the older a charge, the less of it is handed back.
                charged_at = charged_at.min(at);
                if low {
                    match self.is_beside() {
                        true => self.backlog.renew_beside(&self.side, charge),
                        false => _ = self.backlog.renew(charge),
                    }
                }
            }
        }
        Verdict { allowed: true, decisions, at: if charged_at == Nanos::MAX { now } else { charged_at } }
    }

    /// The decision of leases and remembered denials on one charge.
    fn step(&self, charge: &Charge<'_>, hash: KeyHash, now: Nanos) -> LeaseStep {
        let step = self.leases.as_ref().map(|leases| leases.step(hash, charge, now));
        let step = step.unwrap_or(LeaseStep::NeedsServer(Drawn::default()));
        if matches!(step, LeaseStep::Covered { .. }) || !is_binding(charge) {
            return step;
        }
        let Some(remembered) = self.denials.refusal(hash, charge, now) else { return step };
        match step {
            LeaseStep::Refused(decision) if decision.is_tighter_than(&remembered) => step,
            LeaseStep::NeedsServer(drawn) => {
                self.put_back(&Hashes::from_slice(&[hash]), &[LeaseStep::NeedsServer(drawn)]);
                LeaseStep::Refused(remembered)
            }
            _ => LeaseStep::Refused(remembered),
        }
    }

    fn put_back(&self, hashes: &Hashes, steps: &[LeaseStep]) {
        let Some(leases) = &self.leases else { return };
        for (&hash, step) in hashes.iter().zip(steps) {
            leases.put_back(hash, drawn(step), false);
        }
    }

    /// Another limit refused the request, so it was no demand for those that did not refuse.
    fn uncount_demand(&self, charges: &[Charge<'_>], hashes: &Hashes, of: impl Fn(usize) -> bool) {
        let Some(leases) = self.leases.as_ref().filter(|_| charges.len() > 1) else { return };
        (0..charges.len()).filter(|&i| of(i)).for_each(|i| leases.uncount_demand(hashes[i], &charges[i]));
    }

    /// A refusal without a call. The decisions of the other limits are as far as this node knows them.
    fn refused_locally(
        &self,
        charges: &[Charge<'_>],
        hashes: &Hashes,
        steps: &[LeaseStep],
        now: Nanos,
    ) -> Verdict {
        let decision = |i: usize| match steps.get(i) {
            Some(LeaseStep::Refused(decision)) => *decision,
            _ => self.standing(&charges[i], hashes[i], now),
        };
        Verdict { allowed: false, decisions: (0..charges.len()).map(decision).collect(), at: now }
    }

    /// What a peek would return, as far as this node knows.
    pub(crate) fn standing(&self, charge: &Charge<'_>, hash: KeyHash, now: Nanos) -> LimitDecision {
        // A cost above the capacity never fits, even with a lease beside the bucket.
        let leases = self.leases.as_ref().filter(|_| !is_never(charge));
        let leased = leases.and_then(|leases| leases.standing(hash, charge, now));
        leased.unwrap_or_else(|| self.denials.standing(hash, charge, now))
    }

    /// Lets the server decide the part of a take that was not drawn from leases. If all is admitted, the drawn tokens
    /// count as spent at the instant of drawing; the client may get the answer up to a deadline later, as with tokens
    /// that the server takes.
    pub(crate) async fn take_on_server(
        &self,
        charges: &[Charge<'_>],
        undecided: &UndecidedTake,
        given: Nanos,
    ) -> Result<Verdict, StoreError> {
        let UndecidedTake { hashes, steps, now: sent } = undecided;
        let sent = *sent;
        let mut held = DrawnLeases::new(self.leases.as_ref(), sent);
        hashes.iter().zip(steps).for_each(|(&hash, step)| held.hold(hash, drawn(step)));
        let server_charges = self.server_charges(charges, hashes, steps, &mut held);
        let answer = self
            .call_server(Intent::Take, &server_charges.charges, &server_charges.wants, Nanos::ZERO, given)
            .await?;
        let timing = Timing { sent, received: self.local_now(given), at: answer.verdict.at };
        held.answered();
        let request = Request { charges, hashes, steps, server_charges: &server_charges };
        if !answer.verdict.allowed {
            drop(held);
            return Ok(self.refused_by_server(&request, &answer, timing));
        }
        held.used();
        Ok(self.allowed_by_server(&request, &answer, timing))
    }

    /// The charges to send: what leases do not cover, and renewals of leases that run low.
    fn server_charges<'a>(
        &self,
        charges: &[Charge<'a>],
        hashes: &Hashes,
        steps: &Steps,
        held: &mut DrawnLeases<'_>,
    ) -> ServerCharges<'a> {
        let mut server_charges = ServerCharges {
            of: Vec::with_capacity(charges.len()),
            charges: Vec::with_capacity(charges.len()),
            wants: Vec::with_capacity(charges.len()),
        };
        for (i, (charge, step)) in charges.iter().zip(steps).enumerate() {
            let cost = match step {
                LeaseStep::NeedsServer(drawn) => Cost::new(charge.cost.get() - drawn.tokens()),
                LeaseStep::Covered { low: true, .. } => Cost::ZERO,
                LeaseStep::Covered { .. } | LeaseStep::Refused(_) => continue,
            };
            let want = held.begin(hashes[i], charge, || self.denials.promised(hashes[i], charge));
            if want > 0 || matches!(step, LeaseStep::NeedsServer(_)) {
                server_charges.of.push(i);
                server_charges.charges.push(Charge { cost, ..*charge });
                server_charges.wants.push(want);
            }
        }
        server_charges
    }

    fn allowed_by_server(&self, request: &Request<'_, '_>, answer: &StrictAnswer, timing: Timing) -> Verdict {
        let leased = self.record_answer(request, answer, timing);
        let mut decisions: SmallVec<[LimitDecision; 8]> = request.steps.iter().map(local_decision).collect();
        for (j, &i) in request.server_charges.of.iter().enumerate() {
            let (charge, hash) = (&request.charges[i], request.hashes[i]);
            let standing = &answer.standings[j];
            self.denials.record_taken(hash, charge, standing, timing_of(standing, timing));
            let LeaseStep::NeedsServer(drawn) = request.steps[i] else { continue };
            let decision = answer.verdict.decisions[j];
            if !decision.is_allowed() {
                // An advisory charge that does not fit: return what was drawn for it.
                if let Some(leases) = &self.leases {
                    leases.put_back(hash, drawn, false);
                }
            }
            decisions[i] = with_lease(decision, leased[j].0);
        }
        Verdict { allowed: true, decisions, at: timing.at }
    }

    fn refused_by_server(&self, request: &Request<'_, '_>, answer: &StrictAnswer, timing: Timing) -> Verdict {
        let leased = self.record_answer(request, answer, timing);
        let mut decisions: SmallVec<[LimitDecision; 8]> = (0..request.charges.len())
            .map(|i| self.standing(&request.charges[i], request.hashes[i], timing.received))
            .collect();
        for (j, &i) in request.server_charges.of.iter().enumerate() {
            let (charge, standing) = (&request.charges[i], &answer.standings[j]);
            let LeaseStep::NeedsServer(drawn) = request.steps[i] else { continue };
            // The drawn tokens may have expired when the client retries, so the wait is until the bucket holds the
            // whole cost.
            let whole = |decision: LimitDecision| match (standing.limit, &standing.state) {
                (Limit::Meter(meter), State::Word(word)) if drawn.tokens() > 0 => {
                    meter.peek(*word, charge.cost, standing.at)
                }
                _ => decision,
            };
            // With several slots, a bucket that refused may have refilled while another was called: it still refused.
            let by_server = answer.verdict.decisions[j];
            let decision = Some(whole(by_server)).filter(|whole| !whole.is_allowed()).unwrap_or(by_server);
            let timed = timing_of(standing, timing);
            self.denials.record_refusal(request.hashes[i], charge, &decision, standing, timed);
            let (left, next_request) = leased[j];
            decisions[i] =
                not_before(with_lease(decision, left), next_request.saturating_sub(timing.received));
        }
        self.uncount_demand(request.charges, request.hashes, |i| decisions[i].is_allowed());
        Verdict { allowed: false, decisions, at: timing.at }
    }

    /// Passes the answer on to the leases. Returns for each charge sent: the leased tokens, and when the next request
    /// is due.
    fn record_answer(
        &self,
        request: &Request<'_, '_>,
        answer: &StrictAnswer,
        timing: Timing,
    ) -> SmallVec<[(u32, Nanos); 8]> {
        let server_charges = request.server_charges;
        let record_answer = |(j, &i): (usize, &usize)| {
            let standing: &LimitState = &answer.standings[j];
            let lease_answer = LeaseAnswer {
                timing: timing_of(standing, timing),
                want: server_charges.wants[j],
                granted: answer.leased.get(j).copied().unwrap_or(0),
                refused_itself: !answer.verdict.decisions[j].is_allowed(),
                refused: !answer.verdict.allowed,
                standing,
            };
            let leases = self.leases.as_ref()?;
            leases.record_answer(request.hashes[i], &request.charges[i], &lease_answer)
        };
        server_charges
            .of
            .iter()
            .enumerate()
            .map(|one| record_answer(one).unwrap_or((0, Nanos::ZERO)))
            .collect()
    }

    pub(crate) fn hashes(&self, charges: &[Charge<'_>]) -> Hashes {
        charges.iter().map(|charge| self.hasher.hash(charge.limit, charge.key)).collect()
    }
}

/// A take that leases and remembered denials do not decide. If the server is never called, the drawn tokens are lost.
#[derive(Debug)]
pub(crate) struct UndecidedTake {
    hashes: Hashes,
    steps: Steps,
    /// This node's clock at that time.
    now: Nanos,
}

/// The charges to send to the server; `of` has their indices in the request. On the heap, since they are kept, and
/// moved, with every decision that waits for the server.
struct ServerCharges<'a> {
    of: Vec<usize>,
    charges: Vec<Charge<'a>>,
    wants: Vec<u32>,
}

/// A request that the server has answered.
struct Request<'a, 'c> {
    charges: &'a [Charge<'c>],
    hashes: &'a Hashes,
    steps: &'a Steps,
    server_charges: &'a ServerCharges<'c>,
}

/// The limits of a request may be on several servers of a Cluster, each with its own clock.
fn timing_of(standing: &LimitState, timing: Timing) -> Timing {
    Timing { at: standing.at, ..timing }
}

fn is_binding(charge: &Charge<'_>) -> bool {
    charge.role == Role::Binding
}

fn is_never(charge: &Charge<'_>) -> bool {
    charge.cost.get() > charge.limit.limit().capacity()
}

fn drawn(step: &LeaseStep) -> Drawn {
    match step {
        LeaseStep::Covered { drawn, .. } | LeaseStep::NeedsServer(drawn) => *drawn,
        LeaseStep::Refused(_) => Drawn::default(),
    }
}

/// The decision of a step. For `NeedsServer` it is a placeholder, which the server's decision replaces.
fn local_decision(step: &LeaseStep) -> LimitDecision {
    match step {
        LeaseStep::Covered { decision, .. } | LeaseStep::Refused(decision) => *decision,
        LeaseStep::NeedsServer(_) => {
            LimitDecision { outcome: Outcome::Allowed, limit: 0, remaining: 0, reset_after: Nanos::ZERO }
        }
    }
}

/// The same decision; a denial waits at least `wait`.
fn not_before(decision: LimitDecision, wait: Nanos) -> LimitDecision {
    match decision.outcome {
        Outcome::Denied { retry_after } if retry_after < wait => {
            LimitDecision { outcome: Outcome::Denied { retry_after: wait }, ..decision }
        }
        _ => decision,
    }
}
