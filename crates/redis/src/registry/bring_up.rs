//! From one version to another: what an edit, or a change of trust, does to a state that is found on the server.
//!
//! A state goes from one generation to the next at the trust it is written in, each edit as of its own instant, and
//! then from that trust to the one it is charged at, as of the server's now. Numbers that this node does not know
//! are others' edits: they are taken to be made now, and leave the tokens as they are.
//!
//! While nodes change over from one policy to another, both numbers are written in turn. What is done to a state
//! must not add up then, however often they alternate:
//! - An edit that starts anew or scales is done to what was written before it. Nodes that still have the old numbers
//!   write them in another edition once they have met the new ones; that edition is not known here.
//! - A bucket never comes to more than it held. An edit in the past is right for a state from before it, but would
//!   let one that was written since be filled at the new rate for longer than it was there. The state does not tell,
//!   so it is carried both ways, and the lesser level counts. The price: where a rate is raised, a bucket that was
//!   not asked for since has been filled at the old rate until now. That is less than one fill, once.

use std::sync::Arc;

use tidegate::{Algorithm, Carry, Cost, Decision, Limit, Meter, Nanos, Outcome};
use tidegate_core::LogQuota;
use tidegate_core::sliding_log::Log;

use super::{Numbers, Registry, Version};
use crate::link::{LogState, State};
use crate::wire::numbers::{Scale, far_windows, read};
use crate::wire::{log_entries, state_and_text};

/// A state that was found under another text, and what it comes to.
#[derive(Debug)]
pub(crate) struct BroughtUp {
    /// The version that the entry is charged by from now on.
    pub(crate) version: Arc<Version>,
    /// The state under it.
    pub(crate) state: State,
    /// At another trust: the bucket as it stays if nothing is charged.
    pub(crate) unchanged: Option<(Meter, u64)>,
    /// Is a token of the version that was asked for still a token of this one?
    pub(crate) keeps_tokens: bool,
    /// Was it no state at all?
    pub(crate) poisoned: bool,
}

/// An edit: the limit before and after it, at the trust of a state, and what it does to the state when.
struct Edit {
    before: Limit,
    after: Limit,
    carry: Carry,
    at: Nanos,
}

impl Registry {
    /// Brings up what was found under another text than that of `asked`.
    pub(crate) fn bring_up(&self, asked: &Arc<Version>, raw: &[u8], now: Nanos) -> BroughtUp {
        let Some((numbers, found, poisoned)) = read_found(&asked.limit, raw, now) else {
            return BroughtUp {
                version: asked.clone(),
                state: untouched(&asked.limit),
                unchanged: None,
                keeps_tokens: false,
                poisoned: true,
            };
        };
        let plain = self.plain(asked);
        let is_known =
            |known: &Arc<Version>| known.limit == numbers.limit && known.edition() == numbers.edition;
        let known = self.generations(&plain).find(is_known);
        let (version, edits) = match &known {
            Some(known) if known.generation > plain.generation => {
                (self.variant_of(known, asked.trust()).unwrap_or_else(|_| known.clone()), Vec::new())
            }
            Some(known) => {
                let edits = edits_between(known, &plain, numbers.trust);
                let late = edits.first().is_some_and(|edit| is_later(&found, edit));
                let edits = if late { vec![others_edit(&numbers, &plain, now)] } else { edits };
                (asked.clone(), edits)
            }
            None if numbers.limit == plain.limit => {
                plain.adopt(numbers.edition);
                asked.adopt(numbers.edition);
                (asked.clone(), Vec::new())
            }
            None => {
                plain.met(&numbers.limit);
                (asked.clone(), vec![others_edit(&numbers, &plain, now)])
            }
        };
        let keeps_tokens = match &known {
            Some(known) => keeps_tokens(&edits_between(&plain, known, 0)),
            None => numbers.limit == plain.limit,
        };
        let limit = edits.last().map_or_else(|| scaled(&numbers.limit, numbers.trust), |edit| edit.after);
        let state = lesser(&limit, carried(&found, &edits, |edit| edit.at.min(now)), || {
            carried(&found, &edits, |_| now)
        });
        let retrusted = version.trust() != numbers.trust;
        let unchanged = match (&limit, &state) {
            (Limit::Meter(meter @ Meter::TokenBucket(_)), State::Word(word)) if retrusted => {
                Some((*meter, *word))
            }
            _ => None,
        };
        let state = if retrusted { retrust(state, &limit, &version.limit, now) } else { state };
        BroughtUp { version, state, unchanged, keeps_tokens, poisoned }
    }
}

/// A denial writes nothing, so a bucket found at another trust stays there: the wait must be long enough for that
/// too.
pub(crate) fn as_found(
    decision: Decision,
    unchanged: &Option<(Meter, u64)>,
    cost: Cost,
    now: Nanos,
) -> Decision {
    let (Outcome::Denied { retry_after }, Some((meter, word))) = (decision.outcome, unchanged) else {
        return decision;
    };
    let holds_in = |cost| meter.holds_in(*word, cost, now).unwrap_or(Nanos::ZERO);
    Decision {
        outcome: Outcome::Denied { retry_after: retry_after.max(holds_in(cost)) },
        reset_after: decision.reset_after.max(holds_in(Cost::new(decision.limit))),
        ..decision
    }
}

/// The numbers that a value is written in, its state, and whether it lay absurdly far ahead; then it is empty as of
/// now. `None` if it is no state at all.
fn read_found(asked: &Limit, raw: &[u8], now: Nanos) -> Option<(Numbers, State, bool)> {
    if let Limit::Log(_) = asked {
        let (text, entries) = log_entries(raw)?;
        let numbers =
            Numbers::read(text).filter(|numbers| numbers.limit.algorithm() == Algorithm::SlidingLog)?;
        let Limit::Log(quota) = numbers.scaled()? else { return None };
        let far = quota.window().saturating_add(quota.window()).saturating_add(Nanos::DAY);
        let poisoned = entries.last().is_some_and(|(at, _)| *at > now.saturating_add(far));
        let entries = if poisoned { vec![(now, quota.limit())] } else { entries };
        return Some((numbers, State::Log(LogState { entries, ..LogState::default() }), poisoned));
    }
    let (pair, text) = state_and_text(raw)?;
    let numbers = Numbers::read(text).filter(|numbers| numbers.limit.algorithm() == asked.algorithm())?;
    let Limit::Meter(meter) = numbers.scaled()? else { return None };
    match too_far(&meter, pair, now)? {
        Some(empty) => Some((numbers, State::Word(empty), true)),
        None => Some((numbers, read(&meter, pair)?, false)),
    }
}

/// For a state that lies absurdly far ahead the one that is used up as of now. `None` if the limit cannot be counted.
fn too_far(meter: &Meter, (first, second): (u64, u64), now: Nanos) -> Option<Option<u64>> {
    Some(match meter {
        Meter::TokenBucket(quota) => {
            let scale = Scale::new(quota)?;
            let far = first > scale.instant(now).0 + scale.far();
            far.then(|| meter.charge(0, Cost::new(quota.capacity()), now)).flatten()
        }
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let here = now.get() / quota.length().get();
            let far = second > 0 && first > here + far_windows(meter, quota);
            far.then(|| quota.word(here, quota.limit(), quota.limit()))
        }
    })
}

/// The edits that lead from one plain version to a later one, oldest first, at some trust.
fn edits_between(from: &Arc<Version>, to: &Version, trust: u8) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut version = from.clone();
    while version.generation < to.generation {
        let Some(next) = version.next.get().cloned() else { break };
        edits.push(Edit {
            before: scaled(&version.limit, trust),
            after: scaled(&next.limit, trust),
            carry: next.carry,
            at: next.since,
        });
        version = next;
    }
    edits
}

/// An edit that was not made here.
fn others_edit(numbers: &Numbers, plain: &Version, now: Nanos) -> Edit {
    Edit {
        before: scaled(&numbers.limit, numbers.trust),
        after: scaled(&plain.limit, numbers.trust),
        carry: Carry::AsIs,
        at: now,
    }
}

/// Was a state certainly written after an edit, by somebody who did not know of it? One that was written before it
/// is not further ahead than what a charge of everything at that instant leaves.
fn is_later(state: &State, edit: &Edit) -> bool {
    match (state, &edit.before) {
        (State::Word(word), Limit::Meter(meter @ Meter::TokenBucket(quota))) => {
            let most = meter.charge(0, Cost::new(quota.capacity()), edit.at);
            most.is_some_and(|most| *word > most)
        }
        (State::Word(word), Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota))) => {
            quota.counts(*word, edit.at).0 > edit.at.get() / quota.length().get()
        }
        (State::Log(log), _) => log.entries.last().is_some_and(|(at, _)| *at > edit.at),
        _ => false,
    }
}

/// A state after some edits, each as of the instant that is given for it.
fn carried(found: &State, edits: &[Edit], as_of: impl Fn(&Edit) -> Nanos) -> State {
    edits.iter().fold(found.clone(), |state, edit| edited(state, edit, as_of(edit)))
}

/// Of two states of a bucket the one with fewer tokens: it is full later. Counts do not grow with time: of others the
/// first will do.
fn lesser(limit: &Limit, state: State, other: impl FnOnce() -> State) -> State {
    match (limit, state) {
        (Limit::Meter(Meter::TokenBucket(_)), State::Word(word)) => match other() {
            State::Word(other) => State::Word(word.max(other)),
            State::Log(_) => State::Word(word),
        },
        (_, state) => state,
    }
}

/// Where an edit starts anew or scales, a charge from before is not what is missing now.
fn keeps_tokens(edits: &[Edit]) -> bool {
    edits.iter().all(|edit| edit.carry == Carry::AsIs && edit.before.algorithm() == edit.after.algorithm())
}

/// A limit at some trust. Where it cannot be scaled, nobody was ever charged under the scaled numbers, and the
/// plain ones do as well.
fn scaled(limit: &Limit, trust: u8) -> Limit {
    limit.trusted(trust).unwrap_or(*limit)
}

fn edited(state: State, edit: &Edit, at: Nanos) -> State {
    match (state, &edit.before, &edit.after) {
        (State::Word(word), Limit::Meter(from), Limit::Meter(to)) => {
            State::Word(from.carry(word, to, edit.carry, at))
        }
        (State::Log(log), Limit::Log(from), Limit::Log(to)) if from.window() == to.window() => {
            State::Log(edited_log(log, from, to, edit.carry, at))
        }
        (_, _, after) => untouched(after),
    }
}

/// A state at another trust: a bucket keeps its tokens, a window or a log what it counted.
fn retrust(state: State, from: &Limit, to: &Limit, now: Nanos) -> State {
    match (state, from, to) {
        (State::Word(word), Limit::Meter(from), Limit::Meter(to)) => {
            State::Word(from.carry_trust(word, to, now))
        }
        (State::Log(log), ..) => State::Log(log),
        (_, _, to) => untouched(to),
    }
}

/// An edit as it is leaves what was admitted as it is.
fn edited_log(log: LogState, from: &LogQuota, to: &LogQuota, carry: Carry, at: Nanos) -> LogState {
    match carry {
        Carry::AsIs => log,
        Carry::Reset => LogState::default(),
        Carry::Proportional => {
            let mut scaled = Log::from_entries(log.entries);
            scaled.forget(from, at);
            scaled.scale(from.limit(), to.limit());
            LogState { entries: scaled.entries().collect(), ..LogState::default() }
        }
    }
}

fn untouched(limit: &Limit) -> State {
    match limit {
        Limit::Meter(_) => State::Word(0),
        Limit::Log(_) => State::Log(LogState::default()),
    }
}
