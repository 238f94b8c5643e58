//! The answer to one charge on one limit.

use core::time::Duration;

use crate::Nanos;

/// Whether the cost was admitted, and when to come back if it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a cost that was not admitted must not be spent"]
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

impl Outcome {
    /// How long until the cost is admitted, for those that compute with it: zero when it was admitted, `None` when no
    /// wait will do. To tell a client, see [`LimitDecision::retry_after`].
    #[inline]
    pub const fn wait(self) -> Option<Nanos> {
        match self {
            Outcome::Allowed => Some(Nanos::ZERO),
            Outcome::Denied { retry_after } => Some(retry_after),
            Outcome::Never => None,
        }
    }
}

/// Whether, and when, to ask again.
///
/// ```
/// use tidegate_core::RetryAfter;
/// use core::time::Duration;
///
/// let text = |retry: RetryAfter| match retry {
///     RetryAfter::NotDenied => "go on".to_owned(),
///     RetryAfter::Wait(wait) => format!("ask again in {wait:?}"),
///     RetryAfter::Never => "ask for less".to_owned(),
/// };
/// assert_eq!(text(RetryAfter::Wait(Duration::from_millis(100))), "ask again in 100ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum RetryAfter {
    /// It was admitted: there is nothing to ask again.
    NotDenied,
    /// It was denied. After this wait, with no other consumption, it is admitted.
    Wait(Duration),
    /// It was denied, and no wait will do, or none is known.
    Never,
}

impl RetryAfter {
    /// From a wait that is zero when admitted, and none when no wait will do.
    pub fn from_wait(is_allowed: bool, wait: Option<Nanos>) -> RetryAfter {
        match wait {
            _ if is_allowed => RetryAfter::NotDenied,
            Some(wait) => RetryAfter::Wait(wait.into()),
            None => RetryAfter::Never,
        }
    }

    /// The wait, if waiting helps.
    pub const fn wait(self) -> Option<Duration> {
        match self {
            RetryAfter::Wait(wait) => Some(wait),
            RetryAfter::NotDenied | RetryAfter::Never => None,
        }
    }
}

/// What a limit says to one charge: the outcome and where the limit stands
/// after it.
// Aligned so as not to straddle two cache lines, which would slow down the
// exchange that follows it by a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a cost that was not admitted must not be spent"]
#[repr(align(32))]
pub struct LimitDecision {
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

impl LimitDecision {
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

    /// [`Outcome::wait`] of its outcome.
    #[doc(hidden)]
    #[inline]
    pub const fn wait(&self) -> Option<Nanos> {
        self.outcome.wait()
    }

    /// Whether, and when, to ask again.
    #[inline]
    pub fn retry_after(&self) -> RetryAfter {
        RetryAfter::from_wait(self.is_allowed(), self.outcome.wait())
    }

    /// The same told `delay` before its instant: waits are that much longer.
    pub const fn told_ahead(self, delay: Nanos) -> LimitDecision {
        let outcome = match self.outcome {
            Outcome::Denied { retry_after } => {
                Outcome::Denied { retry_after: retry_after.saturating_add(delay) }
            }
            Outcome::Allowed | Outcome::Never => self.outcome,
        };
        LimitDecision { outcome, reset_after: self.reset_after.saturating_add(delay), ..self }
    }
}

impl LimitDecision {
    /// Does it speak before the other where both are asked? If any denies, the one
    /// with the longer wait does (never is the longest); else the one with the
    /// smaller share remaining.
    pub fn is_tighter_than(&self, other: &LimitDecision) -> bool {
        match (self.outcome, other.outcome) {
            (Outcome::Allowed, Outcome::Allowed) => self.has_less_left_than(other),
            (Outcome::Allowed, _) | (_, Outcome::Never) => false,
            (_, Outcome::Allowed) | (Outcome::Never, _) => true,
            (Outcome::Denied { retry_after: mine }, Outcome::Denied { retry_after: other }) => mine > other,
        }
    }

    /// Is a smaller share remaining?
    #[inline]
    pub fn has_less_left_than(&self, other: &LimitDecision) -> bool {
        u64::from(self.remaining) * u64::from(other.limit)
            < u64::from(other.remaining) * u64::from(self.limit)
    }
}

/// Which of several decisions speaks for all: the tightest, ties go to the first;
/// `None` only where there is none.
pub fn tightest<'a>(decisions: impl IntoIterator<Item = &'a LimitDecision>) -> Option<usize> {
    let mut best: Option<(usize, &LimitDecision)> = None;
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

    fn allowed(remaining: u32, limit: u32) -> LimitDecision {
        LimitDecision { outcome: Outcome::Allowed, limit, remaining, reset_after: Nanos::ZERO }
    }

    fn denied(wait: u64) -> LimitDecision {
        let outcome = Outcome::Denied { retry_after: Nanos::new(wait) };
        LimitDecision { outcome, limit: 10, remaining: 0, reset_after: Nanos::ZERO }
    }

    #[test]
    fn the_tightest_speaks() {
        let never = LimitDecision { outcome: Outcome::Never, ..denied(0) };
        assert_eq!(tightest(&[]), None);
        assert_eq!(tightest(&[allowed(5, 10), allowed(49, 100), allowed(1, 2)]), Some(1));
        assert_eq!(tightest(&[allowed(5, 10), allowed(1, 2)]), Some(0), "a tie goes to the first");
        assert_eq!(tightest(&[allowed(0, 10), denied(5), denied(7), denied(7)]), Some(2));
        assert_eq!(tightest(&[denied(u64::MAX), never, never]), Some(1));
    }
}
