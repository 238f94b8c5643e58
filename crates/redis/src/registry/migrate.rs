//! Migrates a state that was found in other numbers: after an edit of the limit, or in another variant.
//!
//! The rule is that of every store ([`tidegate::history::edits`]). Numbers that this node does not know come from an
//! edit on another node: it is taken to be made now, and to keep the tokens as they are.
//!
//! While a new policy is rolled out, old and new nodes rewrite a state in turn. However often they alternate, migrating
//! it must not add tokens:
//! - An edit that resets or scales applies only to states from before it. Nodes that still have the old numbers write
//!   them in another edition once they have found the new ones, and this node does not know that edition.
//! - A bucket never gets more tokens than it held. For a state from before an edit, the instant of the edit is right. A
//!   state that an old node wrote after it would then be refilled at the new rate for a time in which it did not exist.
//!   The state does not show which it is, so it is migrated both ways, as of the edit and as of now, and the lower
//!   level counts. The price: where a rate was raised, a bucket that was idle since has been refilled at the old rate
//!   until now. That is less than one fill, once.

use std::sync::Arc;

use tidegate::history::edits::{Edit, StoredElsewhere, carry_word_to_variant};
use tidegate::history::scaled;
use tidegate::{Algorithm, Carry, Cost, Limit, LimitVariant, Meter, Nanos};
use tidegate_core::sliding_log::Log;

use super::numbers_text::StateNumbers;
use super::version::note_foreign_numbers;
use super::{LimitRegistry, RedisVersion};
use crate::calls::wire::numbers::{Scale, from_pair, max_windows_ahead};
use crate::calls::wire::{log_entries, state_and_text};
use crate::calls::{LogState, State};

/// A state that was found under another text, after its migration.
#[derive(Debug)]
pub(crate) struct MigratedState {
    /// The version by which the entry is charged from now on.
    pub(crate) version: Arc<RedisVersion>,
    /// The state in its numbers.
    pub(crate) state: State,
    /// If the variant changed: the bucket as it stays if nothing is charged.
    pub(crate) unchanged: Option<StoredElsewhere>,
    /// Is a token of the requested version still a token of this one?
    pub(crate) keeps_tokens: bool,
    /// Was the stored value no valid state?
    pub(crate) poisoned: bool,
}

impl LimitRegistry {
    /// Migrates a stored value whose text is not that of `requested`.
    pub(crate) fn migrate(&self, requested: &Arc<RedisVersion>, raw: &[u8], now: Nanos) -> MigratedState {
        let Some((numbers, found, poisoned)) = parse_found(&requested.limit, raw, now) else {
            return MigratedState {
                version: requested.clone(),
                state: untouched(&requested.limit),
                unchanged: None,
                keeps_tokens: false,
                poisoned: true,
            };
        };
        let registration = self.history.registration();
        let generations = || registration.generations(&requested.name);
        let is_requested = |known: &&Arc<RedisVersion>| Arc::ptr_eq(&known.generation, &requested.generation);
        // Neither an ad hoc limit nor one that was removed meanwhile is there.
        let plain = generations().find(is_requested).unwrap_or(requested);
        let is_known = |known: &&Arc<RedisVersion>| {
            known.generation.limit == numbers.limit && known.data.edition() == numbers.edition
        };
        let known = std::iter::once(plain).chain(generations()).find(is_known);
        let (version, edits) = match known {
            Some(known) if known.generation.index > plain.generation.index => {
                let variant = registration.version_at(&known.generation, requested.variant);
                (variant.unwrap_or_else(|_| known.clone()), Vec::new())
            }
            Some(known) => {
                let edits: Vec<Edit> =
                    known.generation.edits_to(&plain.generation, numbers.variant).collect();
                let late = edits.first().is_some_and(|edit| written_after(&found, edit));
                let edits = if late { vec![foreign_edit(&numbers, plain, now)] } else { edits };
                (requested.clone(), edits)
            }
            None if numbers.limit == plain.generation.limit => {
                plain.data.adopt(numbers.edition);
                requested.data.adopt(numbers.edition);
                (requested.clone(), Vec::new())
            }
            None => {
                note_foreign_numbers(plain, registration.variants(plain), &numbers.limit);
                (requested.clone(), vec![foreign_edit(&numbers, plain, now)])
            }
        };
        let keeps_tokens = match known {
            Some(known) => plain.generation.keeps_tokens(&known.generation, LimitVariant::PLAIN),
            None => numbers.limit == plain.generation.limit,
        };
        let limit = edits.last().map_or_else(|| scaled(&numbers.limit, numbers.variant), |edit| edit.after);
        let state = fewer_tokens(&limit, after_edits(&found, &edits, |edit| edit.at().min(now)), || {
            after_edits(&found, &edits, |_| now)
        });
        let is_other = version.variant != numbers.variant;
        let unchanged = match (&limit, &state) {
            (Limit::Meter(meter @ Meter::TokenBucket(_)), State::Word(word)) if is_other => {
                let is_overridden = version.variant.numbers != numbers.variant.numbers;
                Some(StoredElsewhere { meter: *meter, word: *word, is_overridden })
            }
            _ => None,
        };
        let state =
            if is_other { to_variant((numbers.variant, &limit), state, &version, now) } else { state };
        MigratedState { version, state, unchanged, keeps_tokens, poisoned }
    }
}

/// The numbers of a stored value, its state, and whether it lay absurdly far in the future; then the state is a bucket
/// that is empty now. `None` if it is no valid state.
fn parse_found(requested: &Limit, raw: &[u8], now: Nanos) -> Option<(StateNumbers, State, bool)> {
    if let Limit::Log(_) = requested {
        let (text, entries) = log_entries(raw)?;
        let numbers =
            StateNumbers::parse(text).filter(|numbers| numbers.limit.algorithm() == Algorithm::SlidingLog)?;
        let Limit::Log(quota) = numbers.scaled()? else { return None };
        let far = quota.window().saturating_add(quota.window()).saturating_add(Nanos::DAY);
        let poisoned = entries.last().is_some_and(|(at, _)| *at > now.saturating_add(far));
        let entries = if poisoned { vec![(now, quota.limit())] } else { entries };
        return Some((numbers, State::Log(LogState { entries, ..LogState::default() }), poisoned));
    }
    let (pair, text) = state_and_text(raw)?;
    let numbers =
        StateNumbers::parse(text).filter(|numbers| numbers.limit.algorithm() == requested.algorithm())?;
    let Limit::Meter(meter) = numbers.scaled()? else { return None };
    match too_far(&meter, pair, now)? {
        Some(empty) => Some((numbers, State::Word(empty), true)),
        None => Some((numbers, from_pair(&meter, pair)?, false)),
    }
}

/// The replacement of a state that lies absurdly far in the future: used up as of now. `None` if scripts cannot count
/// the limit.
fn too_far(meter: &Meter, (first, second): (u64, u64), now: Nanos) -> Option<Option<u64>> {
    Some(match meter {
        Meter::TokenBucket(quota) => {
            let scale = Scale::new(quota)?;
            let far = first > scale.instant(now).0 + scale.far();
            far.then(|| meter.charge(0, Cost::new(quota.capacity()), now)).flatten()
        }
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let current = now.get() / quota.length().get();
            let far = second > 0 && first > current + max_windows_ahead(meter, quota);
            far.then(|| quota.word(current, quota.limit(), quota.limit()))
        }
    })
}

/// An edit that another node has made.
fn foreign_edit(numbers: &StateNumbers, plain: &RedisVersion, now: Nanos) -> Edit {
    Edit {
        before: scaled(&numbers.limit, numbers.variant),
        after: scaled(&plain.generation.limit, numbers.variant),
        carry: Carry::AsIs,
        made: now.into(),
    }
}

/// Was a state certainly written after an edit, by a node that did not know of it? A state from before the edit lies no
/// further in the future than a charge of the whole capacity at that instant.
fn written_after(state: &State, edit: &Edit) -> bool {
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

/// A state after some edits, each applied as of the instant that `as_of` returns.
fn after_edits(found: &State, edits: &[Edit], as_of: impl Fn(&Edit) -> Nanos) -> State {
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

/// Of two states of a bucket, the one with fewer tokens, which is full later. Counts of windows and logs do not depend
/// on the instant, so `state` is right for them.
fn fewer_tokens(limit: &Limit, state: State, other: impl FnOnce() -> State) -> State {
    match (limit, state) {
        (Limit::Meter(Meter::TokenBucket(_)), State::Word(word)) => match other() {
            State::Word(other) => State::Word(word.max(other)),
            State::Log(_) => State::Word(word),
        },
        (_, state) => state,
    }
}

/// A state in the variant of a version: a bucket keeps its tokens, a window or a log its counts.
fn to_variant(from: (LimitVariant, &Limit), state: State, to: &RedisVersion, now: Nanos) -> State {
    match state {
        State::Word(word) => State::Word(carry_word_to_variant(from, word, (to.variant, &to.limit), |_| now)),
        State::Log(log) => State::Log(log),
    }
}

fn untouched(limit: &Limit) -> State {
    match limit {
        Limit::Meter(_) => State::Word(0),
        Limit::Log(_) => State::Log(LogState::default()),
    }
}
