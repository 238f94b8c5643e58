//! Computes the decisions from a server's answer, with core's arithmetic.

use smallvec::SmallVec;
use tidegate::history::edits::extend_wait_for_stored_variant;
use tidegate::{Cost, Limit, LimitDecision, Nanos, Outcome};
use tidegate_core::LogQuota;

use super::LimitState;
use super::round::{CallDraft, RoundAnswer};
use crate::calls::{BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, LinkError, LogState, State};

/// The wait in a refusal because of a migration: other nodes will have finished by then.
const RETRY_SOON: Nanos = Nanos::from_millis(5);

pub(super) type States = SmallVec<[State; 4]>;
type Decisions = SmallVec<[LimitDecision; 8]>;

/// The result of a call, computed from its answer.
///
/// # Errors
/// When core would have decided otherwise than the script: then one of the two is wrong.
pub(super) fn replay(draft: &CallDraft, answer: CallAnswer) -> Result<RoundAnswer, LinkError> {
    let entries = &draft.call.entries;
    if answer.found.len() != entries.len() || answer.leased.len() != entries.len() {
        return Err(LinkError::Garbled("as many states as keys are expected".into()));
    }
    let under_own_text = |found: FoundState| match found {
        FoundState::Here(state) => Ok(state),
        FoundState::Other(_) => Err(LinkError::Garbled("a state under another text was charged".into())),
    };
    let states = answer.found.into_iter().map(under_own_text).collect::<Result<States, LinkError>>()?;
    let call = Replay { draft, at: answer.at };
    match draft.call.verb {
        CallVerb::Take => call.take(states, answer.outcome, answer.leased),
        CallVerb::Peek => call.peek(states, answer.outcome),
        CallVerb::Refund => Ok(call.give(states, |entry, state| refunded(entry, state, answer.at))),
        CallVerb::HandBack => Ok(call.give(states, |entry, state| handed_back(entry, state, answer.at))),
    }
}

/// A refusal with a short wait: nothing was done, because some states are still in other nodes' numbers. `states` are
/// the migrated ones. `None` if that is no reason to refuse: the call takes nothing, or the limits are only advisory.
pub(super) fn refuse_for_now(
    draft: &CallDraft,
    contended: &[bool],
    states: States,
    at: Nanos,
) -> Option<RoundAnswer> {
    let call = Replay { draft, at };
    let mut decisions = call.looks(&states);
    let binding = |&index: &usize| contended[index] && call.entries()[index].binding;
    for index in (0..states.len()).filter(binding) {
        let decision = &mut decisions[index];
        if decision.is_allowed() {
            decision.outcome = Outcome::Denied { retry_after: RETRY_SOON };
            decision.remaining = 0;
            decision.reset_after = decision.reset_after.max(RETRY_SOON);
        }
    }
    let refused = decisions.iter().enumerate().any(|(index, decision)| call.refuses(index, decision));
    if draft.call.verb != CallVerb::Take || !refused {
        return None;
    }
    Some(RoundAnswer { contended: true, ..call.round_answer(false, decisions, states) })
}

struct Replay<'a> {
    draft: &'a CallDraft,
    at: Nanos,
}

impl Replay<'_> {
    fn entries(&self) -> &[BucketEntry] {
        &self.draft.call.entries
    }

    /// The index of the first entry for the same bucket: its state is kept there.
    fn bucket(&self, index: usize) -> usize {
        let key = &self.entries()[index].key;
        self.entries()[..index].iter().position(|entry| entry.key == *key).unwrap_or(index)
    }

    /// The decision of each entry with nothing taken.
    fn looks(&self, states: &States) -> Decisions {
        (0..states.len()).map(|index| self.look(index, &states[index])).collect()
    }

    fn look(&self, index: usize, state: &State) -> LimitDecision {
        let entry = &self.entries()[index];
        let decision = match (&entry.limit, state) {
            (Limit::Meter(meter), State::Word(word)) => {
                meter.peek_ahead(*word, entry.cost, self.at, entry.delay)
            }
            (Limit::Log(quota), State::Log(log)) => {
                log_decision(quota, log, entry.cost, as_of(entry, self.at)).seen_earlier_by(entry.delay)
            }
            _ => unreachable!("a state is of its limit's kind"),
        };
        let unchanged = || self.draft.parts[index].unchanged.as_deref().copied();
        extend_wait_for_stored_variant(decision, unchanged, (&entry.limit, entry.cost), self.at)
    }

    fn refuses(&self, index: usize, decision: &LimitDecision) -> bool {
        self.entries()[index].binding && !decision.is_allowed()
    }

    fn standings(&self, states: States) -> Vec<LimitState> {
        let standing =
            |(entry, state): (&BucketEntry, State)| LimitState { limit: entry.limit, state, at: self.at };
        // With room for just as many: each is large.
        let mut standings = Vec::with_capacity(states.len());
        standings.extend(self.entries().iter().zip(states).map(standing));
        standings
    }

    fn round_answer(&self, allowed: bool, decisions: Decisions, states: States) -> RoundAnswer {
        let count = decisions.len();
        RoundAnswer {
            allowed,
            at: self.at,
            decisions,
            before: None,
            standings: self.standings(states),
            taken: SmallVec::from_elem(false, count),
            leased: SmallVec::from_elem(0, count),
            poisoned: 0,
            contended: false,
        }
    }

    fn peek(&self, states: States, outcome: CallOutcome) -> Result<RoundAnswer, LinkError> {
        let looks = self.looks(&states);
        let allowed = !looks.iter().enumerate().any(|(index, decision)| self.refuses(index, decision));
        agree(allowed, outcome)?;
        Ok(self.round_answer(allowed, looks, states))
    }

    fn take(
        &self,
        states: States,
        outcome: CallOutcome,
        leased: SmallVec<[u32; 8]>,
    ) -> Result<RoundAnswer, LinkError> {
        let looks = self.looks(&states);
        let refused = |decisions: Decisions, states: States| {
            agree(false, outcome)?;
            Ok(self.round_answer(false, decisions, states))
        };
        if looks.iter().enumerate().any(|(index, decision)| self.refuses(index, decision)) {
            return refused(looks, states);
        }
        let (mut after, mut decisions) = (states.clone(), looks.clone());
        let mut taken: SmallVec<[bool; 8]> = SmallVec::from_elem(false, states.len());
        let binding = |&index: &usize| self.entries()[index].binding;
        let all = 0..states.len();
        for index in all.clone().filter(binding).chain(all.clone().filter(|index| !binding(index))) {
            let bucket = self.bucket(index);
            let state = with_wait_of(&after[bucket], &states[index]);
            let (decision, next) = self.charge(index, &state);
            if next.is_none() && self.refuses(index, &decision) {
                decisions = looks;
                decisions[index] = decision;
                return refused(decisions, states);
            }
            decisions[index] = decision;
            taken[index] = next.is_some();
            after[bucket] = next.unwrap_or(state);
        }
        agree(true, outcome)?;
        for (index, &tokens) in leased.iter().enumerate().filter(|(_, tokens)| **tokens > 0) {
            let bucket = self.bucket(index);
            after[bucket] = self.lease(index, &after[bucket], tokens)?;
        }
        let standings = all.map(|index| after[self.bucket(index)].clone()).collect();
        let before = self.draft.can_be_undone.then(|| (looks, self.standings(states)));
        Ok(RoundAnswer { before, taken, leased, ..self.round_answer(true, decisions, standings) })
    }

    /// The decision on a charge, and the state after it if it is admitted.
    fn charge(&self, index: usize, state: &State) -> (LimitDecision, Option<State>) {
        let entry = &self.entries()[index];
        match (&entry.limit, state) {
            (Limit::Meter(meter), State::Word(word)) => {
                match meter.charge_ahead(*word, entry.cost, self.at, entry.delay) {
                    Some(next) => {
                        let decision = meter.decision_ahead(Ok(next), entry.cost, self.at, entry.delay);
                        (decision, Some(State::Word(next)))
                    }
                    None => (self.look(index, state), None),
                }
            }
            (Limit::Log(quota), State::Log(log)) => {
                let at = as_of(entry, self.at);
                if !log_decision(quota, log, entry.cost, at).is_allowed() {
                    return (self.look(index, state), None);
                }
                let next = log_after(quota, log, entry.cost, at);
                let decision = log_decision(quota, &next, Cost::ZERO, at).seen_earlier_by(entry.delay);
                (decision, Some(State::Log(next)))
            }
            _ => unreachable!("a state is of its limit's kind"),
        }
    }

    fn lease(&self, index: usize, state: &State, tokens: u32) -> Result<State, LinkError> {
        let entry = &self.entries()[index];
        let leased = match (&entry.limit, state) {
            (Limit::Meter(meter), State::Word(word)) if tokens <= entry.want => {
                meter.charge_ahead(*word, Cost::new(tokens), self.at, entry.delay)
            }
            _ => None,
        };
        let not_available =
            || LinkError::Garbled(format!("{tokens} tokens leased that the bucket does not hold"));
        leased.map(State::Word).ok_or_else(not_available)
    }

    /// Returns tokens to each entry in turn; for a hand-back, the last entry first.
    fn give(&self, mut states: States, give: impl Fn(&BucketEntry, &State) -> State) -> RoundAnswer {
        let mut order: SmallVec<[usize; 8]> = (0..states.len()).collect();
        if self.draft.call.verb == CallVerb::HandBack {
            order.reverse();
        }
        for index in order {
            let bucket = self.bucket(index);
            states[bucket] = give(&self.entries()[index], &states[bucket]);
        }
        let after: States = (0..states.len()).map(|index| states[self.bucket(index)].clone()).collect();
        let standing = |(entry, state): (&BucketEntry, &State)| match (&entry.limit, state) {
            (Limit::Meter(meter), State::Word(word)) => meter.peek(*word, Cost::ZERO, self.at),
            (Limit::Log(quota), State::Log(log)) => log_decision(quota, log, Cost::ZERO, self.at),
            _ => unreachable!("a state is of its limit's kind"),
        };
        let decisions = self.entries().iter().zip(&after).map(standing).collect();
        self.round_answer(true, decisions, after)
    }
}

fn agree(allowed: bool, outcome: CallOutcome) -> Result<(), LinkError> {
    if allowed == (outcome == CallOutcome::Done) {
        Ok(())
    } else {
        Err(LinkError::Garbled(format!("the server says {outcome:?} where allowed is {allowed}")))
    }
}

fn as_of(entry: &BucketEntry, now: Nanos) -> Nanos {
    now.saturating_add(entry.delay).min(Nanos::END)
}

fn refunded(entry: &BucketEntry, state: &State, now: Nanos) -> State {
    match (&entry.limit, state) {
        (Limit::Meter(meter), State::Word(word)) => State::Word(meter.refund(*word, entry.cost, now)),
        _ => state.clone(),
    }
}

fn handed_back(entry: &BucketEntry, state: &State, now: Nanos) -> State {
    match (&entry.limit, state) {
        (Limit::Meter(meter), State::Word(word)) => {
            let counted_at = meter.as_of(entry.charged_at, entry.delay);
            State::Word(meter.hand_back(*word, entry.cost, counted_at, now))
        }
        _ => state.clone(),
    }
}

/// `fits_at` of a log depends on the cost, so each entry keeps its own.
fn with_wait_of(state: &State, found: &State) -> State {
    match (state, found) {
        (State::Log(log), State::Log(found)) => {
            State::Log(LogState { fits_at: found.fits_at, ..log.clone() })
        }
        _ => state.clone(),
    }
}

/// The decision of a log on a cost as of `at`, before it is counted.
fn log_decision(quota: &LogQuota, log: &LogState, cost: Cost, at: Nanos) -> LimitDecision {
    let outcome = if cost.get() > quota.limit() {
        Outcome::Never
    } else if cost == Cost::ZERO || log.counted <= quota.limit() - cost.get() {
        Outcome::Allowed
    } else {
        Outcome::Denied { retry_after: log.fits_at.saturating_sub(at) }
    };
    LimitDecision {
        outcome,
        limit: quota.limit(),
        remaining: quota.limit().saturating_sub(log.counted),
        reset_after: log.empty_at.saturating_sub(at),
    }
}

/// The summary of a log after a cost that it admits.
fn log_after(quota: &LogQuota, log: &LogState, cost: Cost, at: Nanos) -> LogState {
    if cost == Cost::ZERO {
        return log.clone();
    }
    LogState {
        counted: log.counted + cost.get(),
        empty_at: log.empty_at.max(at.saturating_add(quota.window())),
        fits_at: Nanos::ZERO,
        entries: Vec::new(),
    }
}
