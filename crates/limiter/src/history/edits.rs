//! From one version to another: what an edit, or a change of trust, does to the
//! state of a key.
//!
//! A state goes from one generation to the next at the trust it is written in,
//! each edit as of its own instant, and then from that trust to the one it is
//! charged at, as of the charge.

use tidegate_core::sliding_log::Log;
use tidegate_core::{Carry, Cost, Limit, LimitDecision, Meter, Nanos, Outcome};

use super::{ClockPair, History, LimitVersion};

/// One edit of a limit, at the trust of a state.
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

impl<D> History<D> {
    /// The edits that lead from the generation of `from` to that of `to`, oldest
    /// first, for a state at some trust. None if `from` is already as new: a
    /// request under way since before an edit must not undo it.
    pub fn edits<'a>(
        &'a self,
        from: &'a LimitVersion<D>,
        to: &LimitVersion<D>,
        trust: u8,
    ) -> impl Iterator<Item = Edit> + use<'a, D> {
        let (generation, mut plain) = (to.generation, self.plain(from));
        let mut limit = if from.trust == trust { from.limit } else { plain.scaled(trust) };
        std::iter::from_fn(move || {
            plain = plain.next().filter(|new| new.generation <= generation)?;
            let before = std::mem::replace(&mut limit, plain.scaled(trust));
            Some(Edit { before, after: limit, carry: plain.carry, made: plain.since })
        })
    }

    /// Is a token before the edits from `from` to `to` still a token after them?
    /// Otherwise a charge from before must not be handed back.
    pub fn keeps_tokens(&self, from: &LimitVersion<D>, to: &LimitVersion<D>) -> bool {
        self.edits(from, to, from.trust).all(|edit| edit.keeps_tokens())
    }
}

impl Edit {
    /// When it was made, as the limit before it sees that.
    pub fn at(&self) -> Nanos {
        self.made.seen_by(&self.before)
    }

    /// Where an edit starts anew or scales, a charge from before is not what is
    /// missing now.
    fn keeps_tokens(&self) -> bool {
        self.carry == Carry::AsIs && self.before.algorithm() == self.after.algorithm()
    }

    /// A word carried over as of `at`; between words and logs nothing is.
    pub fn carry_word(&self, word: u64, at: Nanos) -> u64 {
        match (&self.before, &self.after) {
            (Limit::Meter(before), Limit::Meter(after)) => before.carry(word, after, self.carry, at),
            _ => 0,
        }
    }

    /// A log carried over as of `at`. As it is, it keeps all that was admitted.
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

/// A word carried over to the same limit at another trust, as of the instant that
/// `now` tells for its meter. A log needs nothing of the kind: it keeps what was
/// admitted.
pub fn retrust_word(from: &Limit, word: u64, to: &Limit, now: impl Fn(&Meter) -> Nanos) -> u64 {
    match (from, to) {
        (Limit::Meter(from), Limit::Meter(to)) => from.carry_trust(word, to, now(from)),
        _ => 0,
    }
}

/// What is told of a charge whose state was found at another trust; `unchanged` is
/// that state there. A denial writes nothing, so the state stays there: the wait
/// must be long enough for that too.
pub fn told_as_found(
    decision: LimitDecision,
    unchanged: impl FnOnce() -> Option<(Meter, u64)>,
    cost: Cost,
    now: Nanos,
) -> LimitDecision {
    let Outcome::Denied { retry_after } = decision.outcome else { return decision };
    let Some((meter, word)) = unchanged() else { return decision };
    let holds_in = |cost| meter.holds_in(word, cost, now).unwrap_or(Nanos::ZERO);
    LimitDecision {
        outcome: Outcome::Denied { retry_after: retry_after.max(holds_in(cost)) },
        reset_after: decision.reset_after.max(holds_in(Cost::new(decision.limit))),
        ..decision
    }
}
