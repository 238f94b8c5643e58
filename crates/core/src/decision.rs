//! The result of one charge on one limit.

use core::time::Duration;

use crate::Nanos;

/// Whether the cost was admitted, and how long to wait if it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a cost that was not admitted must not be spent"]
pub enum Outcome {
    /// Admitted.
    Allowed,
    /// Denied for now. After exactly this wait, if nothing else is charged meanwhile, it is admitted.
    Denied {
        /// The wait; never zero.
        retry_after: Nanos,
    },
    /// The cost is above the capacity: no wait helps.
    Never,
}

impl Outcome {
    /// The time until the cost is admitted: zero if it was admitted, `None` if no wait helps. Meant for
    /// computing with; to answer a client use [`LimitDecision::retry_after`].
    #[inline]
    pub const fn wait(self) -> Option<Nanos> {
        match self {
            Outcome::Allowed => Some(Nanos::ZERO),
            Outcome::Denied { retry_after } => Some(retry_after),
            Outcome::Never => None,
        }
    }
}

/// Whether a request should be repeated, and after how long.
///
/// ```
/// use tidegate_core::RetryAfter;
/// use core::time::Duration;
///
/// let text = |retry: RetryAfter| match retry {
///     RetryAfter::NotDenied => "admitted".to_owned(),
///     RetryAfter::Wait(wait) => format!("try again in {wait:?}"),
///     RetryAfter::Never => "no wait helps".to_owned(),
/// };
/// assert_eq!(text(RetryAfter::Wait(Duration::from_millis(100))), "try again in 100ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "says whether the request was denied"]
pub enum RetryAfter {
    /// The request was admitted: there is nothing to repeat.
    NotDenied,
    /// The request was denied. After this wait, if nothing else is charged meanwhile, it is admitted.
    Wait(Duration),
    /// The request was denied, and no wait helps or none is known.
    Never,
}

impl RetryAfter {
    /// Built from a wait as [`Outcome::wait`] returns it, which is ignored if the request was admitted.
    pub fn from_wait(is_allowed: bool, wait: Option<Nanos>) -> RetryAfter {
        match wait {
            _ if is_allowed => RetryAfter::NotDenied,
            Some(wait) => RetryAfter::Wait(wait.into()),
            None => RetryAfter::Never,
        }
    }

    /// The wait, if the request was denied and waiting helps.
    pub const fn wait(self) -> Option<Duration> {
        match self {
            RetryAfter::Wait(wait) => Some(wait),
            RetryAfter::NotDenied | RetryAfter::Never => None,
        }
    }
}

/// The result of one charge on one limit: the outcome, and the state of the limit after it.
// The alignment keeps it within one cache line. A decision that straddles two slows down the
// compare-exchange that follows it by a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a cost that was not admitted must not be spent"]
#[repr(align(32))]
pub struct LimitDecision {
    /// Whether the cost was admitted, and how long to wait otherwise.
    pub outcome: Outcome,
    /// The most that can be taken at once: the capacity of a bucket, the limit of a window.
    pub limit: u32,
    /// Whole tokens left, rounded down; never above `limit`.
    pub remaining: u32,
    /// The time until nothing counts as used any more.
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

    /// Whether a request should be repeated, and after how long.
    #[inline]
    pub fn retry_after(&self) -> RetryAfter {
        RetryAfter::from_wait(self.is_allowed(), self.outcome.wait())
    }

    /// The same decision as seen `delay` before its instant: every wait is longer by `delay`.
    pub const fn seen_earlier_by(self, delay: Nanos) -> LimitDecision {
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
    /// Is this the decision to report when both limits apply to a request? If either denies, the denial with
    /// the longer wait comes first (never is the longest); otherwise the limit with the smaller fraction
    /// remaining.
    pub fn is_tighter_than(&self, other: &LimitDecision) -> bool {
        match (self.outcome, other.outcome) {
            (Outcome::Allowed, Outcome::Allowed) => self.has_less_left_than(other),
            (Outcome::Allowed, _) | (_, Outcome::Never) => false,
            (_, Outcome::Allowed) | (Outcome::Never, _) => true,
            (Outcome::Denied { retry_after: mine }, Outcome::Denied { retry_after: other }) => mine > other,
        }
    }

    /// Is a smaller fraction of the limit remaining?
    #[inline]
    pub fn has_less_left_than(&self, other: &LimitDecision) -> bool {
        u64::from(self.remaining) * u64::from(other.limit)
            < u64::from(other.remaining) * u64::from(self.limit)
    }
}

/// The index of the decision that is reported for all: the tightest, the first one on a tie. `None` only if
/// there are no decisions.
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
