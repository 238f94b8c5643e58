//! A token bucket written from the documentation alone: so many tokens at some instant, in some numbers.
//!
//! It counts in fractions of a token that are exact for the numbers of a limit and of every multiple in hundredths.

use tidegate_core::{Nanos, Quota};

/// The rate and the burst of a limit, multiplied by some hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NaiveNumbers {
    /// The fractions of one token; the same for all multiples of a limit.
    token: i128,
    /// The fractions that come in within a nanosecond.
    rate: i128,
    /// The burst, in fractions.
    capacity: i128,
}

impl NaiveNumbers {
    /// The rate is multiplied exactly; the burst is rounded down, to at least 1.
    pub(super) fn of(quota: &Quota, hundredths: u16) -> NaiveNumbers {
        let token = i128::from(quota.rate().nanos()) * 100;
        let capacity = (u64::from(quota.capacity()) * u64::from(hundredths) / 100).max(1);
        NaiveNumbers {
            token,
            rate: i128::from(quota.rate().tokens()) * i128::from(hundredths),
            capacity: i128::from(capacity) * token,
        }
    }

    /// Does a quota have these numbers?
    pub(super) fn are_those_of(&self, quota: &Quota) -> bool {
        let (tokens, nanos) = (i128::from(quota.rate().tokens()), i128::from(quota.rate().nanos()));
        tokens * self.token == self.rate * nanos && i128::from(quota.capacity()) * self.token == self.capacity
    }

    /// So many tokens, in fractions.
    pub(super) fn tokens(&self, tokens: u32) -> i128 {
        i128::from(tokens) * self.token
    }

    /// The burst, in fractions.
    pub(super) fn capacity(&self) -> i128 {
        self.capacity
    }

    /// What comes in during a span, in fractions.
    pub(super) fn refill(&self, span: Nanos) -> i128 {
        i128::from(span.get()) * self.rate
    }
}

/// A bucket at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NaiveBucket {
    /// Its numbers.
    pub(super) numbers: NaiveNumbers,
    /// What it held, in fractions…
    held: i128,
    /// …at this instant.
    pub(super) at: Nanos,
}

impl NaiveBucket {
    /// A bucket that was never used: full for as long as anybody can know.
    pub(super) fn unused(numbers: NaiveNumbers) -> NaiveBucket {
        NaiveBucket { numbers, held: numbers.capacity, at: Nanos::ZERO }
    }

    /// What it holds now, in fractions. If the clock was set back, what came in meanwhile comes in once more, and the bucket
    /// holds less until then.
    pub(super) fn held(&self, now: Nanos) -> i128 {
        let since = self.numbers.refill(now.saturating_sub(self.at));
        let until = self.numbers.refill(self.at.saturating_sub(now));
        (self.held + since - until).clamp(0, self.numbers.capacity)
    }

    /// Is it full?
    pub(super) fn is_full(&self, now: Nanos) -> bool {
        self.held(now) == self.numbers.capacity
    }

    /// The same bucket in other numbers from now on: it keeps its tokens, at most the new burst; one that is full goes on
    /// filling up in the new numbers from the time at which it was full.
    pub(super) fn renumbered(&self, to: NaiveNumbers, now: Nanos) -> NaiveBucket {
        if self.numbers == to {
            return *self;
        }
        let held = self.held(now).min(to.capacity);
        if !self.is_full(now) {
            return NaiveBucket { numbers: to, held, at: now };
        }
        let filled_in = (self.numbers.capacity - self.held) / self.numbers.rate;
        NaiveBucket { numbers: to, held, at: self.at.saturating_add(Nanos::new(filled_in as u64)) }
    }

    /// The same bucket after some tokens were taken; less than nothing counts as nothing.
    pub(super) fn less(&self, tokens: i128, now: Nanos) -> NaiveBucket {
        NaiveBucket { held: (self.held(now) - tokens).max(0), at: now, ..*self }
    }

    /// The same bucket after some tokens were put in, at most up to its burst. Nothing changes in a full one.
    pub(super) fn more(&self, tokens: i128, now: Nanos) -> NaiveBucket {
        if self.is_full(now) {
            return *self;
        }
        let held = (self.held(now) + tokens).min(self.numbers.capacity);
        NaiveBucket { held, at: now, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(1_000_000 + millis)
    }

    fn times(hundredths: u16) -> NaiveNumbers {
        NaiveNumbers::of(&Quota::new(10, Nanos::SECOND, 20).expect("in range"), hundredths)
    }

    fn whole(bucket: &NaiveBucket, now: Nanos) -> i128 {
        bucket.held(now) / times(100).tokens(1)
    }

    #[test]
    fn numbers_are_those_of_the_quota() {
        assert!(times(250).are_those_of(&Quota::new(25, Nanos::SECOND, 50).expect("in range")));
        assert!(!times(250).are_those_of(&Quota::new(25, Nanos::SECOND, 51).expect("in range")));
        assert!(!times(250).are_those_of(&Quota::new(26, Nanos::SECOND, 50).expect("in range")));
        assert!(
            times(1).are_those_of(&Quota::new(1, Nanos::from_secs(10), 1).expect("in range")),
            "at least 1"
        );
    }

    #[test]
    fn tokens_are_kept_up_to_the_new_burst() {
        let bucket = NaiveBucket::unused(times(100)).less(times(100).tokens(5), at(0));
        assert_eq!(whole(&bucket.renumbered(times(1_000), at(0)), at(0)), 15);
        assert_eq!(whole(&bucket.renumbered(times(1_000), at(0)), at(100)), 25, "at the new rate");
        assert_eq!(whole(&bucket.renumbered(times(10), at(0)), at(0)), 2);
        assert_eq!(whole(&bucket.renumbered(times(10), at(0)).renumbered(times(100), at(0)), at(0)), 2);
    }

    #[test]
    fn a_full_bucket_goes_on_from_when_it_was_full() {
        let full_at_500 = NaiveBucket::unused(times(100)).less(times(100).tokens(5), at(0));
        let raised = full_at_500.renumbered(times(200), at(1_000));
        assert_eq!(whole(&raised, at(1_000)), 30, "twenty, and twenty a second since half a second");
        let unused = NaiveBucket::unused(times(100)).renumbered(times(200), at(1_000));
        assert_eq!(whole(&unused, at(1_000)), 40, "one that was never used is full");
    }

    #[test]
    fn nothing_is_put_above_the_burst() {
        let bucket = NaiveBucket::unused(times(100)).less(times(100).tokens(5), at(0));
        assert_eq!(whole(&bucket.more(times(100).tokens(3), at(0)), at(0)), 18);
        assert_eq!(whole(&bucket.more(times(100).tokens(50), at(0)), at(0)), 20);
    }
}
