//! A take: from leases and from memory where that will do, from the server where it will not.

use smallvec::SmallVec;
use tidegate::{Charge, Cost, Intent, Limit, LimitDecision, Nanos, Outcome, Role, Sleep, Verdict};

use crate::denials::Timing;
use crate::errors::StoreError;
use crate::leases::{Drawn, DrawnLeases, LeaseAnswer, LeaseStep, with_lease};
use crate::link::{Link, State};
use crate::store::RedisStore;
use crate::strict::{LimitState, StrictAnswer};
use crate::table::KeyHash;

pub(crate) type Hashes = SmallVec<[KeyHash; 8]>;
type Steps = SmallVec<[LeaseStep; 8]>;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// Takes, if that can be decided here; otherwise tells what is left to be asked.
    pub(crate) fn take_here(
        &self,
        charges: &[Charge<'_>],
        given: Nanos,
    ) -> Result<Verdict, Box<UndecidedTake>> {
        let (now, hashes, mut steps) = (self.local_now(given), self.hashes(charges), Steps::new());
        match self.decide_here(charges, &hashes, &mut steps, now) {
            Some(verdict) => Ok(verdict),
            None => Err(Box::new(UndecidedTake { hashes, steps, now })),
        }
    }

    /// The verdict, if the server need not be asked; otherwise the steps say what for.
    fn decide_here(
        &self,
        charges: &[Charge<'_>],
        hashes: &Hashes,
        steps: &mut Steps,
        now: Nanos,
    ) -> Option<Verdict> {
        if charges.iter().any(|charge| is_binding(charge) && is_never(charge)) {
            return Some(self.refused_here(charges, hashes, &[], now));
        }
        let (mut asks, mut refused) = (false, false);
        for (charge, &hash) in charges.iter().zip(hashes) {
            let step = self.step(charge, hash, now);
            asks |= matches!(step, LeaseStep::Ask(_));
            refused |= matches!(step, LeaseStep::Refused(_)) && is_binding(charge);
            steps.push(step);
        }
        if refused {
            self.put_back(hashes, steps);
            self.no_demand(charges, hashes, |i| !matches!(steps[i], LeaseStep::Refused(_)));
            return Some(self.refused_here(charges, hashes, steps, now));
        }
        (!asks).then(|| self.taken_here(charges, steps, now))
    }

    /// Everything is paid for by leases, or only watched.
    fn taken_here(&self, charges: &[Charge<'_>], steps: &Steps, now: Nanos) -> Verdict {
        let (mut decisions, mut charged_at) = (SmallVec::new(), Nanos::MAX);
        for (charge, step) in charges.iter().zip(steps) {
            decisions.push(told_here(step));
            if let LeaseStep::Covered { at, low, .. } = *step {
                // The earlier a charge is told to be, the less of it is given back.
                charged_at = charged_at.min(at);
                if low {
                    self.chores.renew(charge);
                }
            }
        }
        Verdict { allowed: true, decisions, at: if charged_at == Nanos::MAX { now } else { charged_at } }
    }

    /// What leases and remembered denials say to a charge.
    fn step(&self, charge: &Charge<'_>, hash: KeyHash, now: Nanos) -> LeaseStep {
        let step = self.leases.as_ref().map(|leases| leases.step(hash, charge, now));
        let step = step.unwrap_or(LeaseStep::Ask(Drawn::default()));
        if matches!(step, LeaseStep::Covered { .. }) || !is_binding(charge) {
            return step;
        }
        let Some(remembered) = self.denials.refusal(hash, charge, now) else { return step };
        match step {
            LeaseStep::Refused(decision) if decision.is_tighter_than(&remembered) => step,
            LeaseStep::Ask(drawn) => {
                self.put_back(&Hashes::from_slice(&[hash]), &[LeaseStep::Ask(drawn)]);
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

    /// Those that did not refuse a request that was refused were not asked for, as it were.
    fn no_demand(&self, charges: &[Charge<'_>], hashes: &Hashes, of: impl Fn(usize) -> bool) {
        let Some(leases) = self.leases.as_ref().filter(|_| charges.len() > 1) else { return };
        (0..charges.len()).filter(|&i| of(i)).for_each(|i| leases.no_demand(hashes[i], &charges[i]));
    }

    /// A refusal without asking: the others are told as they are known.
    fn refused_here(
        &self,
        charges: &[Charge<'_>],
        hashes: &Hashes,
        steps: &[LeaseStep],
        now: Nanos,
    ) -> Verdict {
        let told = |i: usize| match steps.get(i) {
            Some(LeaseStep::Refused(decision)) => *decision,
            _ => self.standing(&charges[i], hashes[i], now),
        };
        Verdict { allowed: false, decisions: (0..charges.len()).map(told).collect(), at: now }
    }

    /// What a peek would say, as far as it is known here.
    pub(crate) fn standing(&self, charge: &Charge<'_>, hash: KeyHash, now: Nanos) -> LimitDecision {
        // What can never be had is not to be had with a lease beside it either.
        let leases = self.leases.as_ref().filter(|_| !is_never(charge));
        let leased = leases.and_then(|leases| leases.standing(hash, charge, now));
        leased.unwrap_or_else(|| self.denials.standing(hash, charge, now))
    }

    /// Asks the server for what was not drawn. What was drawn is spent by then, if all is admitted: as with what the
    /// server takes, the client may hear of it up to a deadline later.
    pub(crate) async fn take_there(
        &self,
        charges: &[Charge<'_>],
        lacking: &UndecidedTake,
        given: Nanos,
    ) -> Result<Verdict, StoreError> {
        let UndecidedTake { hashes, steps, now: sent } = lacking;
        let sent = *sent;
        let mut held = DrawnLeases::new(self.leases.as_ref(), sent);
        hashes.iter().zip(steps).for_each(|(&hash, step)| held.hold(hash, drawn(step)));
        let questions = self.questions(charges, hashes, steps, &mut held);
        let asked = self.ask(Intent::Take, &questions.charges, &questions.wants, Nanos::ZERO, given).await?;
        let timing = Timing { sent, heard: self.local_now(given), at: asked.verdict.at };
        held.answered();
        let request = Request { charges, hashes, steps, questions: &questions };
        if !asked.verdict.allowed {
            drop(held);
            return Ok(self.refused_there(&request, &asked, timing));
        }
        held.used();
        Ok(self.taken(&request, &asked, timing))
    }

    /// What is to be asked: what leases do not cover, and renewals while at it.
    fn questions<'a>(
        &self,
        charges: &[Charge<'a>],
        hashes: &Hashes,
        steps: &Steps,
        held: &mut DrawnLeases<'_>,
    ) -> Questions<'a> {
        let mut questions = Questions::default();
        for (i, (charge, step)) in charges.iter().zip(steps).enumerate() {
            let cost = match step {
                LeaseStep::Ask(drawn) => Cost::new(charge.cost.get() - drawn.tokens()),
                LeaseStep::Covered { low: true, .. } => Cost::ZERO,
                LeaseStep::Covered { .. } | LeaseStep::Refused(_) => continue,
            };
            let want = held.begin(hashes[i], charge, || self.denials.promised(hashes[i], charge));
            if want > 0 || matches!(step, LeaseStep::Ask(_)) {
                questions.of.push(i);
                questions.charges.push(Charge { cost, ..*charge });
                questions.wants.push(want);
            }
        }
        questions
    }

    fn taken(&self, request: &Request<'_, '_>, asked: &StrictAnswer, timing: Timing) -> Verdict {
        let leased = self.hear(request, asked, timing);
        let mut decisions: SmallVec<[LimitDecision; 8]> = request.steps.iter().map(told_here).collect();
        for (j, &i) in request.questions.of.iter().enumerate() {
            let (charge, hash) = (&request.charges[i], request.hashes[i]);
            let standing = &asked.standings[j];
            self.denials.taken(hash, charge, standing, timing_of(standing, timing));
            let LeaseStep::Ask(drawn) = request.steps[i] else { continue };
            let decision = asked.verdict.decisions[j];
            if !decision.is_allowed() {
                // An advisory charge that does not fit: what was drawn for it is not used.
                if let Some(leases) = &self.leases {
                    leases.put_back(hash, drawn, false);
                }
            }
            decisions[i] = with_lease(decision, leased[j].0);
        }
        Verdict { allowed: true, decisions, at: timing.at }
    }

    fn refused_there(&self, request: &Request<'_, '_>, asked: &StrictAnswer, timing: Timing) -> Verdict {
        let leased = self.hear(request, asked, timing);
        let mut decisions: SmallVec<[LimitDecision; 8]> = (0..request.charges.len())
            .map(|i| self.standing(&request.charges[i], request.hashes[i], timing.heard))
            .collect();
        for (j, &i) in request.questions.of.iter().enumerate() {
            let (charge, standing) = (&request.charges[i], &asked.standings[j]);
            let LeaseStep::Ask(drawn) = request.steps[i] else { continue };
            // What was drawn may be dead when somebody comes back: the bucket itself must hold the cost.
            let whole = |decision: LimitDecision| match (standing.limit, &standing.state) {
                (Limit::Meter(meter), State::Word(word)) if drawn.tokens() > 0 => {
                    meter.peek(*word, charge.cost, standing.at)
                }
                _ => decision,
            };
            // Where limits are spread over slots, what refused may have been made good while another was asked: it
            // still refused.
            let told = asked.verdict.decisions[j];
            let decision = Some(whole(told)).filter(|whole| !whole.is_allowed()).unwrap_or(told);
            let timed = timing_of(standing, timing);
            self.denials.refused(request.hashes[i], charge, &decision, standing, timed);
            let (left, next_ask) = leased[j];
            decisions[i] = not_before(with_lease(decision, left), next_ask.saturating_sub(timing.heard));
        }
        self.no_demand(request.charges, request.hashes, |i| decisions[i].is_allowed());
        Verdict { allowed: false, decisions, at: timing.at }
    }

    /// Tells leases what was answered: for each question what is leased now, and when the next ask is due.
    fn hear(
        &self,
        request: &Request<'_, '_>,
        asked: &StrictAnswer,
        timing: Timing,
    ) -> SmallVec<[(u32, Nanos); 8]> {
        let questions = request.questions;
        let hear = |(j, &i): (usize, &usize)| {
            let standing: &LimitState = &asked.standings[j];
            let told = LeaseAnswer {
                timing: timing_of(standing, timing),
                want: questions.wants[j],
                granted: asked.leased.get(j).copied().unwrap_or(0),
                refused_itself: !asked.verdict.decisions[j].is_allowed(),
                refused: !asked.verdict.allowed,
                standing,
            };
            let leases = self.leases.as_ref()?;
            leases.hear(request.hashes[i], &request.charges[i], &told)
        };
        questions.of.iter().enumerate().map(|one| hear(one).unwrap_or((0, Nanos::ZERO))).collect()
    }

    pub(crate) fn hashes(&self, charges: &[Charge<'_>]) -> Hashes {
        charges.iter().map(|charge| self.hasher.hash(charge.limit, charge.key)).collect()
    }
}

/// What leases and remembered denials say to a take that they do not decide. What was drawn for it is lost if the server
/// is never asked.
#[derive(Debug)]
pub(crate) struct UndecidedTake {
    hashes: Hashes,
    steps: Steps,
    /// When that was, by this node's clock.
    now: Nanos,
}

/// What is asked of the server, and which charges that is about.
#[derive(Default)]
struct Questions<'a> {
    of: SmallVec<[usize; 8]>,
    charges: SmallVec<[Charge<'a>; 8]>,
    wants: SmallVec<[u32; 8]>,
}

/// A request that was asked about.
struct Request<'a, 'c> {
    charges: &'a [Charge<'c>],
    hashes: &'a Hashes,
    steps: &'a Steps,
    questions: &'a Questions<'c>,
}

/// The limits of a request may be on several servers, each with a clock of its own.
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
        LeaseStep::Covered { drawn, .. } | LeaseStep::Ask(drawn) => *drawn,
        LeaseStep::Refused(_) => Drawn::default(),
    }
}

/// What a step says by itself; of those that ask the answer is put in its place.
fn told_here(step: &LeaseStep) -> LimitDecision {
    match step {
        LeaseStep::Covered { decision, .. } | LeaseStep::Refused(decision) => *decision,
        LeaseStep::Ask(_) => {
            LimitDecision { outcome: Outcome::Allowed, limit: 0, remaining: 0, reset_after: Nanos::ZERO }
        }
    }
}

/// The same, told to wait at least so long if it has to wait.
fn not_before(decision: LimitDecision, wait: Nanos) -> LimitDecision {
    match decision.outcome {
        Outcome::Denied { retry_after } if retry_after < wait => {
            LimitDecision { outcome: Outcome::Denied { retry_after: wait }, ..decision }
        }
        _ => decision,
    }
}
