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
}

/// Which of several decisions speaks for all: if any denies, the one with the
/// longest wait (never is the longest); else the one with the smallest share
/// remaining. Ties go to the first; `None` only where there is none.
pub fn tightest<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Option<usize> {
    let mut best: Option<(usize, &Decision)> = None;
    for (index, decision) in decisions.into_iter().enumerate() {
        if best.is_none_or(|(_, held)| is_tighter(decision, held)) {
            best = Some((index, decision));
        }
    }
    best.map(|(index, _)| index)
}

fn is_tighter(a: &Decision, b: &Decision) -> bool {
    match (a.outcome, b.outcome) {
        (Outcome::Allowed, Outcome::Allowed) => {
            u64::from(a.remaining) * u64::from(b.limit) < u64::from(b.remaining) * u64::from(a.limit)
        }
        (Outcome::Allowed, _) | (_, Outcome::Never) => false,
        (_, Outcome::Allowed) | (Outcome::Never, _) => true,
        (Outcome::Denied { retry_after: a }, Outcome::Denied { retry_after: b }) => a > b,
    }
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
