//! From one version to another: what an edit, or a change of trust, does to a state that is found on the server.
//!
//! The rule is the one of every store ([`tidegate::history::edits`]). Numbers that this node does not know are others'
//! edits: they are taken to be made now, and leave the tokens as they are.
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

use tidegate::history::edits::{Edit, carry_word_to_trust};
use tidegate::history::scaled;
use tidegate::{Algorithm, Carry, Cost, Limit, Meter, Nanos};
use tidegate_core::sliding_log::Log;

use super::text::StateNumbers;
use super::version::met;
use super::{LimitRegistry, RedisVersion};
use crate::link::{LogState, State};
use crate::wire::numbers::{Scale, far_windows, read};
use crate::wire::{log_entries, state_and_text};

/// A state that was found under another text, and what it comes to.
#[derive(Debug)]
pub(crate) struct MigratedState {
    /// The version that the entry is charged by from now on.
    pub(crate) version: Arc<RedisVersion>,
    /// The state under it.
    pub(crate) state: State,
    /// At another trust: the bucket as it stays if nothing is charged.
    pub(crate) unchanged: Option<(Meter, u64)>,
    /// Is a token of the version that was asked for still a token of this one?
    pub(crate) keeps_tokens: bool,
    /// Was it no state at all?
    pub(crate) poisoned: bool,
}

impl LimitRegistry {
    /// Brings up what was found under another text than that of `asked`.
    pub(crate) fn bring_up(&self, asked: &Arc<RedisVersion>, raw: &[u8], now: Nanos) -> MigratedState {
        let Some((numbers, found, poisoned)) = read_found(&asked.limit, raw, now) else {
            return MigratedState {
                version: asked.clone(),
                state: untouched(&asked.limit),
                unchanged: None,
                keeps_tokens: false,
                poisoned: true,
            };
        };
        let history = &self.history;
        let plain = history.plain(asked);
        let is_known =
            |known: &&RedisVersion| known.limit == numbers.limit && known.data.edition() == numbers.edition;
        let known = history.generations(plain).find(is_known);
        let (version, edits) = match known {
            Some(known) if known.generation > plain.generation => {
                let variant = history.variant(known.number, asked.trust);
                (variant.unwrap_or_else(|_| history.get(known.number)), Vec::new())
            }
            Some(known) => {
                let edits: Vec<Edit> = history.edits(known, plain, numbers.trust).collect();
                let late = edits.first().is_some_and(|edit| is_later(&found, edit));
                (asked, if late { vec![others_edit(&numbers, plain, now)] } else { edits })
            }
            None if numbers.limit == plain.limit => {
                plain.data.adopt(numbers.edition);
                asked.data.adopt(numbers.edition);
                (asked, Vec::new())
            }
            None => {
                met(plain, &numbers.limit);
                (asked, vec![others_edit(&numbers, plain, now)])
            }
        };
        let keeps_tokens = match known {
            Some(known) => history.keeps_tokens(plain, known),
            None => numbers.limit == plain.limit,
        };
        let limit = edits.last().map_or_else(|| scaled(&numbers.limit, numbers.trust), |edit| edit.after);
        let state = lesser(&limit, carried(&found, &edits, |edit| edit.at().min(now)), || {
            carried(&found, &edits, |_| now)
        });
        let retrusted = version.trust != numbers.trust;
        let unchanged = match (&limit, &state) {
            (Limit::Meter(meter @ Meter::TokenBucket(_)), State::Word(word)) if retrusted => {
                Some((*meter, *word))
            }
            _ => None,
        };
        let state = if retrusted { retrust(state, &limit, &version.limit, now) } else { state };
        MigratedState { version: version.clone(), state, unchanged, keeps_tokens, poisoned }
    }
}

/// The numbers that a value is written in, its state, and whether it lay absurdly far ahead; then it is empty as of
/// now. `None` if it is no state at all.
fn read_found(asked: &Limit, raw: &[u8], now: Nanos) -> Option<(StateNumbers, State, bool)> {
    if let Limit::Log(_) = asked {
        let (text, entries) = log_entries(raw)?;
        let numbers =
            StateNumbers::read(text).filter(|numbers| numbers.limit.algorithm() == Algorithm::SlidingLog)?;
        let Limit::Log(quota) = numbers.scaled()? else { return None };
        let far = quota.window().saturating_add(quota.window()).saturating_add(Nanos::DAY);
        let poisoned = entries.last().is_some_and(|(at, _)| *at > now.saturating_add(far));
        let entries = if poisoned { vec![(now, quota.limit())] } else { entries };
        return Some((numbers, State::Log(LogState { entries, ..LogState::default() }), poisoned));
    }
    let (pair, text) = state_and_text(raw)?;
    let numbers =
        StateNumbers::read(text).filter(|numbers| numbers.limit.algorithm() == asked.algorithm())?;
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

/// An edit that was not made here.
fn others_edit(numbers: &StateNumbers, plain: &RedisVersion, now: Nanos) -> Edit {
    Edit {
        before: scaled(&numbers.limit, numbers.trust),
        after: scaled(&plain.limit, numbers.trust),
        carry: Carry::AsIs,
        made: now.into(),
    }
}

/// Was a state certainly written after an edit, by somebody who did not know of it? One that was written before it
/// is not further ahead than what a charge of everything at that instant leaves.
fn is_later(state: &State, edit: &Edit) -> bool {
    match (state, &edit.before) {
        (State::Word(word), Limit::Meter(meter @ Meter::TokenBucket(quota))) => {
            let most = meter.charge(0, Cost::new(quota.capacity()), edit.at());
            most.is_some_and(|most| *word > most)
        }
        (State::Word(word), Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota))) => {
            quota.counts(*word, edit.at()).0 > edit.at().get() / quota.length().get()
        }
        (State::Log(log), _) => log.entries.last().is_some_and(|(at, _)| *at > edit.at()),
        _ => false,
    }
}

/// A state after some edits, each as of the instant that is given for it.
fn carried(found: &State, edits: &[Edit], as_of: impl Fn(&Edit) -> Nanos) -> State {
    match found {
        State::Word(word) => {
            State::Word(edits.iter().fold(*word, |word, edit| edit.carry_word(word, as_of(edit))))
        }
        State::Log(found) => {
            let mut log = Log::from_entries(found.entries.iter().copied());
            edits.iter().for_each(|edit| edit.carry_log(&mut log, as_of(edit)));
            State::Log(LogState { entries: log.entries().collect(), ..LogState::default() })
        }
    }
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

/// A state at another trust: a bucket keeps its tokens, a window or a log what it counted.
fn retrust(state: State, from: &Limit, to: &Limit, now: Nanos) -> State {
    match state {
        State::Word(word) => State::Word(carry_word_to_trust(from, word, to, |_| now)),
        State::Log(log) => State::Log(log),
    }
}

fn untouched(limit: &Limit) -> State {
    match limit {
        Limit::Meter(_) => State::Word(0),
        Limit::Log(_) => State::Log(LogState::default()),
    }
}
