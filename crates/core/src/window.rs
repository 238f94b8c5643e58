//! Counting in aligned windows: the quota, and the state word of both window algorithms.

use core::fmt;

use crate::reciprocal::{div_floor, portion, reciprocal};
use crate::{Nanos, QuotaError, Rate};

/// At most `limit` per window of a given length: the numbers of `sliding_window` and `fixed_window`. Windows
/// begin at multiples of their length.
///
/// # The word
///
/// Both algorithms store `window number | count before | count now` in 64 bits. A count has as many bits as
/// twice the limit needs (20 at most), because a trusted key may have used up to twice the limit and keeps that
/// count when its trust drops. The window number has the remaining bits, at least 24.
///
/// If those are enough to tell apart all windows up to [`Nanos::END`], any step back of the clock is
/// recognised. If not (a limit of 10⁶ over windows shorter than about three minutes), the number wraps: a step
/// back of up to a minute is recognised, and a count that was not touched for a whole cycle of 2²⁴ windows or
/// more may be taken for a current one. That can only deny, and for no longer than a minute and two windows.
#[derive(Clone, Copy, Debug)]
pub struct WindowQuota {
    limit: u32,
    length: Nanos,
    count_bits: u32,
    /// If the number wraps: how many windows a stored number may be ahead of `now`.
    steps_back: Option<u64>,
    per_length: u128,
}

impl WindowQuota {
    /// The largest limit: two counts and a window number must fit into a word.
    pub const LIMIT_MAX: u32 = 1_000_000;

    /// At most `limit` in each window of `length`.
    ///
    /// # Errors
    /// A number is zero, the limit is above [`WindowQuota::LIMIT_MAX`], or the rate is out of range; see
    /// [`Rate::new`].
    pub fn new(limit: u32, length: impl Into<Nanos>) -> Result<WindowQuota, QuotaError> {
        let length = length.into();
        if limit > WindowQuota::LIMIT_MAX {
            return Err(QuotaError::LimitTooLarge { limit, max: WindowQuota::LIMIT_MAX });
        }
        Rate::new(u64::from(limit), length)?;
        let count_bits = 32 - WindowQuota::count_max_of(limit).leading_zeros();
        assert!(2 * count_bits <= 40, "two counts leave 24 bits for the window number");
        let last_number = Nanos::END.get() / length.get();
        let steps_back = if last_number <= u64::MAX >> (2 * count_bits) {
            None
        } else {
            Some(Nanos::MINUTE.get().div_ceil(length.get()))
        };
        let per_length = reciprocal(length.get());
        Ok(WindowQuota { limit, length, count_bits, steps_back, per_length })
    }

    /// The most that a window admits.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// The length of a window.
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// The highest count in a window: the limit at the highest trust.
    pub const fn count_max(&self) -> u32 {
        WindowQuota::count_max_of(self.limit)
    }

    const fn count_max_of(limit: u32) -> u32 {
        if 2 * limit < WindowQuota::LIMIT_MAX { 2 * limit } else { WindowQuota::LIMIT_MAX }
    }

    /// The state word for the window `number`, with the counts of the window before it and of the window
    /// itself. Both counts must be at most [`WindowQuota::count_max`].
    ///
    /// # Panics
    /// A count is higher than that.
    pub fn word(&self, number: u64, before: u32, now: u32) -> u64 {
        assert!(before.max(now) <= self.count_max(), "a count is at most {}", self.count_max());
        WindowCounts { number, elapsed: 0, before, now }.word(self)
    }

    /// The number of the window that matters at `now`, the count of the window before it, and its own count.
    pub fn counts(&self, word: u64, now: Nanos) -> (u64, u32, u32) {
        let counts = WindowCounts::read(word, self, now);
        (counts.number, counts.before, counts.now)
    }

    /// The number of the window that contains `now`, and the nanoseconds since it began.
    const fn position(&self, now: Nanos) -> (u64, u64) {
        let now = if now.get() < Nanos::END.get() { now.get() } else { Nanos::END.get() };
        let number = div_floor(now, self.per_length);
        (number, now - number * self.length.get())
    }

    /// How far ahead of `now` a charge may be counted and still be recognised at `now`. If the number wraps,
    /// half of the recognised distance, so that the clock may step back too.
    pub(crate) const fn ahead_max(&self) -> Nanos {
        match self.steps_back {
            None => Nanos::END,
            Some(_) => Nanos::new(Nanos::MINUTE.get() / 2),
        }
    }

    /// Is a count recognised however far the clock steps back? If the window number wraps, only up to a minute;
    /// a caller whose clock may step back further must prevent that.
    pub const fn recognises_any_step_back(&self) -> bool {
        self.steps_back.is_none()
    }

    const fn number_mask(&self) -> u64 {
        u64::MAX >> (2 * self.count_bits)
    }

    /// `floor(count · part / length)` for a `part` within the window: estimated with the reciprocal, which is
    /// too low by at most one, then corrected.
    pub(crate) fn share(&self, count: u32, part: u64) -> u32 {
        let (count, length) = (u128::from(count), u128::from(self.length.get()));
        let estimate = (count * u128::from(portion(part, self.per_length))) >> 64;
        let short = (estimate + 1) * length <= count * u128::from(part);
        estimate as u32 + u32::from(short)
    }
}

impl PartialEq for WindowQuota {
    /// Compares limit and length; the other fields follow from them.
    fn eq(&self, other: &WindowQuota) -> bool {
        self.limit == other.limit && self.length == other.length
    }
}

impl Eq for WindowQuota {}

impl fmt::Display for WindowQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.limit, self.length)
    }
}

/// The counts that matter at an instant. If the clock has stepped back to before the stored window, `number` is
/// still that window and `elapsed` is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowCounts {
    pub(crate) number: u64,
    /// Nanoseconds since the window began.
    pub(crate) elapsed: u64,
    pub(crate) before: u32,
    pub(crate) now: u32,
}

impl WindowCounts {
    /// Reads a word as of `now`. The counts of windows that have passed become `before` or are dropped.
    pub(crate) fn read(word: u64, quota: &WindowQuota, now: Nanos) -> WindowCounts {
        let (number, elapsed) = quota.position(now);
        let count_mask = (1_u64 << quota.count_bits) - 1;
        let current = (word & count_mask) as u32;
        let before = (word >> quota.count_bits & count_mask) as u32;
        let fresh = WindowCounts { number, elapsed, before: 0, now: 0 };
        if current == 0 && before == 0 {
            return fresh;
        }
        let stored = word >> (2 * quota.count_bits);
        let ahead = stored.wrapping_sub(number) & quota.number_mask();
        let stepped_back = match quota.steps_back {
            None => stored > number,
            Some(most) => ahead <= most,
        };
        match number.wrapping_sub(stored) & quota.number_mask() {
            0 => WindowCounts { before, now: current, ..fresh },
            _ if stepped_back => WindowCounts { number: number + ahead, elapsed: 0, before, now: current },
            1 => WindowCounts { before: current, ..fresh },
            _ => fresh,
        }
    }

    /// The word for these counts; zero if both counts are zero.
    pub(crate) fn word(&self, quota: &WindowQuota) -> u64 {
        debug_assert!(self.before.max(self.now) <= quota.count_max(), "counts fit their bits");
        if self.before == 0 && self.now == 0 {
            return 0;
        }
        let number = self.number & quota.number_mask();
        let counts = u64::from(self.before) << quota.count_bits | u64::from(self.now);
        number << (2 * quota.count_bits) | counts
    }

    /// When the window begins.
    pub(crate) fn start(&self, quota: &WindowQuota) -> Nanos {
        Nanos::new(self.number * quota.length.get())
    }

    /// When the window ends.
    pub(crate) fn end(&self, quota: &WindowQuota) -> Nanos {
        self.start(quota).saturating_add(quota.length)
    }

    /// Gives `tokens` back, from the newest count first.
    pub(crate) fn refund(self, tokens: u32) -> WindowCounts {
        let now = self.now.saturating_sub(tokens);
        let rest = tokens - (self.now - now);
        WindowCounts { now, before: self.before.saturating_sub(rest), ..self }
    }

    /// Has the window not begun yet?
    pub(crate) fn is_ahead_of(&self, quota: &WindowQuota, now: Nanos) -> bool {
        self.number > quota.position(now).0
    }

    /// Undoes a charge made at `charged_at`, if the window it was counted in still counts. While this window
    /// has not begun, `before` holds everything that counts until it begins, not only the count of one window, so
    /// it is not reduced.
    pub(crate) fn hand_back(
        self,
        quota: &WindowQuota,
        tokens: u32,
        charged_at: Nanos,
        now: Nanos,
    ) -> WindowCounts {
        let (charged, _) = quota.position(charged_at);
        if self.number == charged {
            WindowCounts { now: self.now.saturating_sub(tokens), ..self }
        } else if self.number == charged + 1 && !self.is_ahead_of(quota, now) {
            WindowCounts { before: self.before.saturating_sub(tokens), ..self }
        } else {
            self
        }
    }

    /// The same counts, each at most `limit`.
    pub(crate) fn capped(self, limit: u32) -> WindowCounts {
        WindowCounts { before: self.before.min(limit), now: self.now.min(limit), ..self }
    }

    /// The counts scaled from one limit to another, rounded up.
    pub(crate) fn scaled(self, from: u32, to: u32) -> WindowCounts {
        let scale = |count: u32| (u64::from(count) * u64::from(to)).div_ceil(u64::from(from)) as u32;
        WindowCounts { before: scale(self.before), now: scale(self.now), ..self }.capped(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_out_of_range_are_refused() {
        assert_eq!(
            WindowQuota::new(1_000_001, Nanos::SECOND),
            Err(QuotaError::LimitTooLarge { limit: 1_000_001, max: 1_000_000 })
        );
        assert_eq!(WindowQuota::new(0, Nanos::SECOND), Err(QuotaError::ZeroRate));
        assert!(WindowQuota::new(1_000_000, Nanos::MILLISECOND).is_ok());
        assert!(WindowQuota::new(1, Nanos::new(366 * Nanos::DAY.get())).is_ok());
    }

    #[test]
    fn a_long_idle_key_is_forgotten_even_where_the_number_wraps() {
        let quota = WindowQuota::new(1_000_000, Nanos::MILLISECOND).unwrap();
        let start = Nanos::from_secs(1_800_000_000);
        let used = WindowCounts { number: 1_800_000_000_000, elapsed: 0, before: 7, now: 9 };
        let word = used.word(&quota);
        assert_eq!(WindowCounts::read(word, &quota, start).now, 9);
        // Less than a turn, and half a turn, later.
        for idle in [1_000, 3_600_000, 1 << 23, (1 << 24) - 60_001] {
            let counts = WindowCounts::read(word, &quota, start.saturating_add(Nanos::from_millis(idle)));
            assert_eq!((counts.before, counts.now), (0, 0), "idle {idle} ms");
        }
        let back = WindowCounts::read(word, &quota, start.saturating_sub(Nanos::MINUTE));
        assert_eq!(back, used, "a minute back is recognised");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn share_is_exact(limit in 1_u32..=1_000_000, length in 1_000_000_u64..3_000_000_000_000_000, part in any::<u64>()) {
            let quota = WindowQuota::new(limit, Nanos::new(length)).unwrap();
            for part in [part % (length + 1), 0, 1, length - 1, length] {
                let exact = u128::from(limit) * u128::from(part) / u128::from(length);
                prop_assert_eq!(u128::from(quota.share(limit, part)), exact);
            }
        }

        #[test]
        fn a_word_reads_back(limit in 1_u32..=1_000_000, length in 1_u64..100_000, now in 0_u64..2_000_000_000, a in any::<u32>(), b in any::<u32>()) {
            let quota = WindowQuota::new(limit, Nanos::from_millis(length)).unwrap();
            let now = Nanos::from_secs(now);
            let (number, elapsed) = quota.position(now);
            let counts = WindowCounts { number, elapsed, before: a % (limit + 1), now: b % (limit + 1) };
            prop_assert_eq!(WindowCounts::read(counts.word(&quota), &quota, now), counts);
        }
    }
}
