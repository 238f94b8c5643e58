//! The answer to one charge on one limit.

use crate::Nanos;

/// Whether the cost was admitted, and when to come back if it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Admitted.
    Allowed,
    /// Not now. Waiting exactly this long, with no other consumption, is
    /// admitted.
    Denied {
        /// The wait; never zero.
        retry_after: Nanos,
    },
    /// The cost is above the capacity: no wait will do.
    Never,
}

/// What a limit says to one charge: the outcome and where the limit stands
/// after it.
// Aligned so as not to straddle two cache lines, which would slow down the
// exchange that follows it by a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Decision {
    /// Whether it was admitted.
    pub outcome: Outcome,
    /// The most that can be taken at once: a bucket's capacity, a window's
    /// limit.
    pub limit: u32,
    /// Whole tokens left, rounded down; never above `limit`.
    pub remaining: u32,
    /// How long until nothing is used any more.
    pub reset_after: Nanos,
}

impl Decision {
    /// Was the cost admitted?
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// Is the cost above what the limit can ever admit?
    #[inline]
    pub const fn is_never(&self) -> bool {
        matches!(self.outcome, Outcome::Never)
    }

    /// The wait that will be admitted: zero when allowed, `None` when no wait
    /// will do.
    #[inline]
    pub const fn retry_after(&self) -> Option<Nanos> {
        match self.outcome {
            Outcome::Allowed => Some(Nanos::ZERO),
            Outcome::Denied { retry_after } => Some(retry_after),
            Outcome::Never => None,
        }
    }

    /// The same told `delay` before its instant: waits are that much longer.
    #[must_use]
    pub const fn told_ahead(self, delay: Nanos) -> Decision {
        let outcome = match self.outcome {
            Outcome::Denied { retry_after } => {
                Outcome::Denied { retry_after: retry_after.saturating_add(delay) }
            }
            Outcome::Allowed | Outcome::Never => self.outcome,
        };
        Decision { outcome, reset_after: self.reset_after.saturating_add(delay), ..self }
    }
}

impl Decision {
    /// Does it speak before the other where both are asked? If any denies, the one
    /// with the longer wait does (never is the longest); else the one with the
    /// smaller share remaining.
    pub fn is_tighter_than(&self, other: &Decision) -> bool {
        match (self.outcome, other.outcome) {
            (Outcome::Allowed, Outcome::Allowed) => self.has_less_left_than(other),
            (Outcome::Allowed, _) | (_, Outcome::Never) => false,
            (_, Outcome::Allowed) | (Outcome::Never, _) => true,
            (Outcome::Denied { retry_after: mine }, Outcome::Denied { retry_after: other }) => mine > other,
        }
    }

    /// Is a smaller share remaining?
    #[inline]
    pub fn has_less_left_than(&self, other: &Decision) -> bool {
        u64::from(self.remaining) * u64::from(other.limit)
            < u64::from(other.remaining) * u64::from(self.limit)
    }
}

/// Which of several decisions speaks for all: the tightest, ties go to the first;
/// `None` only where there is none.
pub fn tightest<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Option<usize> {
    let mut best: Option<(usize, &Decision)> = None;
    for (index, decision) in decisions.into_iter().enumerate() {
        if best.is_none_or(|(_, held)| decision.is_tighter_than(held)) {
            best = Some((index, decision));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(remaining: u32, limit: u32) -> Decision {
        Decision { outcome: Outcome::Allowed, limit, remaining, reset_after: Nanos::ZERO }
    }

    fn denied(wait: u64) -> Decision {
        let outcome = Outcome::Denied { retry_after: Nanos::new(wait) };
        Decision { outcome, limit: 10, remaining: 0, reset_after: Nanos::ZERO }
    }

    #[test]
    fn the_tightest_speaks() {
        let never = Decision { outcome: Outcome::Never, ..denied(0) };
        assert_eq!(tightest(&[]), None);
        assert_eq!(tightest(&[allowed(5, 10), allowed(49, 100), allowed(1, 2)]), Some(1));
        assert_eq!(tightest(&[allowed(5, 10), allowed(1, 2)]), Some(0), "a tie goes to the first");
        assert_eq!(tightest(&[allowed(0, 10), denied(5), denied(7), denied(7)]), Some(2));
        assert_eq!(tightest(&[denied(u64::MAX), never, never]), Some(1));
    }
}
