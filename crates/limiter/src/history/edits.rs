//! The rule for what an edit, or a change of the variant, does to the state of a key.
//!
//! A state is first migrated from generation to generation in the variant it was written with, each edit as of
//! its own instant, and then to the variant in which it is charged, as of the charge.

use tidegate_core::sliding_log::Log;
use tidegate_core::{Carry, Cost, Limit, LimitDecision, LimitVariant, Meter, Nanos, Outcome};

use super::{ClockPair, Generation};

/// One edit of a limit, in the variant of a state.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The numbers before it.
    pub before: Limit,
    /// The numbers after it.
    pub after: Limit,
    /// What it does with the tokens.
    pub carry: Carry,
    /// When it was made.
    pub made: ClockPair,
}

impl Generation {
    /// The edits between this generation and `to`, oldest first, for a state in this variant. None if this one is
    /// not older: a request that started before an edit must not undo it.
    pub fn edits_to<'a>(
        &'a self,
        to: &Generation,
        variant: LimitVariant,
    ) -> impl Iterator<Item = Edit> + use<'a> {
        // Mostly there is none, and to scale a limit takes a while.
        let (last, mut generation, mut limit) = (to.index, self, None);
        std::iter::from_fn(move || {
            let from = generation;
            generation = from.next().filter(|next| next.index <= last)?;
            let before = limit.take().unwrap_or_else(|| from.scaled(variant));
            let after = *limit.insert(generation.scaled(variant));
            Some(Edit { before, after, carry: generation.carry, made: generation.since })
        })
    }

    /// Is a token in this variant before the edits to `to` still a token after them? If not, a charge from before
    /// must not be handed back.
    pub fn keeps_tokens(&self, to: &Generation, variant: LimitVariant) -> bool {
        self.edits_to(to, variant).all(|edit| edit.keeps_tokens())
    }
}

impl Edit {
    /// The instant of the edit, on the clock that the limit before it uses.
    pub fn at(&self) -> Nanos {
        self.made.on_clock_of(&self.before)
    }

    /// If an edit resets or scales the state, a charge from before no longer equals what is missing now.
    fn keeps_tokens(&self) -> bool {
        self.carry == Carry::AsIs && self.before.algorithm() == self.after.algorithm()
    }

    /// The word migrated as of `at`; zero if the edit changes between a word and a log.
    pub fn carry_word(&self, word: u64, at: Nanos) -> u64 {
        match (&self.before, &self.after) {
            (Limit::Meter(before), Limit::Meter(after)) => before.carry(word, after, self.carry, at),
            _ => 0,
        }
    }

    /// Migrates a log as of `at`. `Carry::AsIs` keeps everything that was admitted.
    pub fn carry_log(&self, log: &mut Log, at: Nanos) {
        match (&self.before, &self.after, self.carry) {
            (Limit::Log(before), Limit::Log(after), Carry::AsIs) if before.window() == after.window() => {}
            (Limit::Log(before), Limit::Log(after), Carry::Proportional)
                if before.window() == after.window() =>
            {
                log.forget(before, at);
                log.scale(before.limit(), after.limit());
            }
            _ => *log = Log::default(),
        }
    }
}

/// The word migrated to another variant of the same limit, as of the instant that `now` returns for its meter. A
/// log needs no such migration: it keeps what was admitted.
pub fn carry_word_to_variant(
    (from, from_limit): (LimitVariant, &Limit),
    word: u64,
    (to, to_limit): (LimitVariant, &Limit),
    now: impl Fn(&Meter) -> Nanos,
) -> u64 {
    match (from_limit, to_limit) {
        (Limit::Meter(meter), Limit::Meter(to_meter)) if from.numbers == to.numbers => {
            meter.carry_trust(word, to_meter, now(meter))
        }
        (Limit::Meter(meter), Limit::Meter(to_meter)) => meter.carry_override(word, to_meter, now(meter)),
        _ => 0,
    }
}

/// The state of a key in another variant than that of a charge, as it stays if nothing is charged.
#[derive(Clone, Copy, Debug)]
pub struct StoredElsewhere {
    /// The numbers it is stored in.
    pub meter: Meter,
    /// The state.
    pub word: u64,
    /// Are these the numbers of another override, or only of another trust?
    pub is_overridden: bool,
}

/// Corrects a decision by `wanted` on a state that is stored in another variant; `unchanged` returns that stored state. A
/// denial writes nothing, so the state stays in that variant: the wait must be long enough for it too.
pub fn extend_wait_for_stored_variant(
    decision: LimitDecision,
    unchanged: impl FnOnce() -> Option<StoredElsewhere>,
    (wanted, cost): (&Limit, Cost),
    now: Nanos,
) -> LimitDecision {
    let Outcome::Denied { retry_after } = decision.outcome else { return decision };
    let (Some(stored), Some(wanted)) = (unchanged(), wanted.meter()) else { return decision };
    let to = (wanted, stored.is_overridden);
    let held_after = |cost| stored.meter.time_until_held(stored.word, to, cost, now).unwrap_or(Nanos::ZERO);
    LimitDecision {
        outcome: Outcome::Denied { retry_after: retry_after.max(held_after(cost)) },
        reset_after: decision.reset_after.max(held_after(Cost::new(decision.limit))),
        ..decision
    }
}
