//! The sliding log: stores every admitted cost with its instant, and is exact over any span.
//!
//! A cost admitted at `s` counts until `s + window`, so the cost admitted in any `(t − window, t]` is at most
//! the limit. That takes memory: 16 bytes for each instant at which something was admitted that still counts,
//! at most `limit` of them, 160 kB for the largest limit.

use alloc::collections::VecDeque;
use core::fmt;

use crate::{Cost, LimitDecision, Nanos, Outcome, QuotaError, Rate};

/// At most `limit` in any span of `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogQuota {
    limit: u32,
    window: Nanos,
}

impl LogQuota {
    /// The largest limit, since each admitted request is stored.
    pub const LIMIT_MAX: u32 = 10_000;

    /// At most `limit` in any span of `window`.
    ///
    /// # Errors
    /// A number is zero, the limit is above [`LogQuota::LIMIT_MAX`], or the rate is out of range; see
    /// [`Rate::new`].
    pub fn new(limit: u32, window: impl Into<Nanos>) -> Result<LogQuota, QuotaError> {
        let window = window.into();
        if limit > LogQuota::LIMIT_MAX {
            return Err(QuotaError::LimitTooLarge { limit, max: LogQuota::LIMIT_MAX });
        }
        Rate::new(u64::from(limit), window)?;
        Ok(LogQuota { limit, window })
    }

    /// The most that is admitted in any span of the window's length.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// How long an admitted cost counts.
    pub const fn window(&self) -> Nanos {
        self.window
    }
}

impl fmt::Display for LogQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in any {}", self.limit, self.window)
    }
}

/// The cost admitted at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Nanos,
    tokens: u32,
}

/// Whether a log may allocate one more entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogGrowth {
    /// The log may grow.
    Grow,
    /// The log may not grow: the newest entry, if there is one, takes the cost and its instant becomes `now`.
    /// That can only deny more, never admit more.
    Full,
}

/// The admitted costs that may still count, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    total: u64,
}

impl Log {
    /// A log with the given admitted costs, oldest first.
    pub fn from_entries(entries: impl IntoIterator<Item = (Nanos, u32)>) -> Log {
        let entries: VecDeque<Entry> = entries.into_iter().map(|(at, tokens)| Entry { at, tokens }).collect();
        let total = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
        Log { entries, total }
    }

    /// The admitted costs with their instants, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        self.entries.iter().map(|entry| (entry.at, entry.tokens))
    }

    /// The number of entries, of 16 bytes each.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Does it hold nothing? Then it can be dropped without losing anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts `cost` if the limit can admit it; otherwise only drops the entries that no longer count.
    pub fn take(&mut self, quota: &LogQuota, cost: Cost, now: Nanos, growth: LogGrowth) -> LimitDecision {
        self.take_ahead(quota, cost, now, now, growth)
    }

    /// A delayed [`Log::take`]: made at `now`, counted at `at`, which is not before `now`. The entry uses up
    /// the limit from `now` on. The waits in the decision begin at `at`.
    pub fn take_ahead(
        &mut self,
        quota: &LogQuota,
        cost: Cost,
        now: Nanos,
        at: Nanos,
        growth: LogGrowth,
    ) -> LimitDecision {
        let at = at.min(Nanos::END);
        self.forget(quota, now);
        let outcome = self.judge(quota, cost, at, self.expired(quota, at));
        if outcome == Outcome::Allowed && cost > Cost::ZERO {
            self.push(cost.get(), at, growth);
        }
        self.standing(quota, outcome, at, self.expired(quota, at))
    }

    /// The decision that [`Log::take`] would return, without counting anything.
    pub fn peek(&self, quota: &LogQuota, cost: Cost, now: Nanos) -> LimitDecision {
        let now = now.min(Nanos::END);
        let expired = self.expired(quota, now);
        self.standing(quota, self.judge(quota, cost, now, expired), now, expired)
    }

    /// Gives `cost` back from the newest entries; the count stops at zero.
    pub fn refund(&mut self, cost: Cost) {
        let mut tokens = cost.get();
        while let Some(newest) = self.entries.back_mut().filter(|_| tokens > 0) {
            let given = newest.tokens.min(tokens);
            newest.tokens -= given;
            tokens -= given;
            self.total -= u64::from(given);
            if newest.tokens == 0 {
                self.entries.pop_back();
            }
        }
    }

    /// Undoes a charge made at `charged_at`, if an entry of that instant still holds the cost.
    pub fn hand_back(&mut self, cost: Cost, charged_at: Nanos) {
        let charged_at = charged_at.min(Nanos::END);
        let found = self.entries.iter().rposition(|e| e.at == charged_at && e.tokens >= cost.get());
        if let Some(index) = found {
            self.entries[index].tokens -= cost.get();
            self.total -= u64::from(cost.get());
            if self.entries[index].tokens == 0 {
                self.entries.remove(index);
            }
        }
    }

    /// Drops the entries that no longer count.
    pub fn forget(&mut self, quota: &LogQuota, now: Nanos) {
        let now = now.min(Nanos::END);
        for _ in 0..self.expired(quota, now) {
            let entry = self.entries.pop_front().expect("expired entries are in the log");
            self.total -= u64::from(entry.tokens);
        }
    }

    /// Multiplies every cost by `to / from`; the running sum is rounded up.
    pub fn scale(&mut self, from: u32, to: u32) {
        let (mut before, mut after) = (0_u64, 0_u64);
        for entry in &mut self.entries {
            before += u64::from(entry.tokens);
            let sum = (before * u64::from(to)).div_ceil(u64::from(from));
            entry.tokens = (sum - after) as u32;
            after = sum;
        }
        self.total = after;
        self.entries.retain(|entry| entry.tokens > 0);
    }

    /// When the newest entry stops counting; `now` if the log is empty.
    pub fn empty_at(&self, quota: &LogQuota, now: Nanos) -> Nanos {
        self.entries.back().map_or(now, |newest| newest.at.saturating_add(quota.window)).max(now)
    }

    /// If the clock has stepped back, the cost is added to the newest entry, so that nothing stops counting
    /// earlier.
    fn push(&mut self, tokens: u32, now: Nanos, growth: LogGrowth) {
        self.total += u64::from(tokens);
        match self.entries.back_mut() {
            Some(newest) if newest.at >= now || growth == LogGrowth::Full => {
                newest.at = newest.at.max(now);
                newest.tokens += tokens;
            }
            _ => self.entries.push_back(Entry { at: now, tokens }),
        }
    }

    /// How many of the oldest entries no longer count.
    fn expired(&self, quota: &LogQuota, now: Nanos) -> usize {
        self.entries.iter().take_while(|e| e.at.saturating_add(quota.window) <= now).count()
    }

    fn counted(&self, expired: usize) -> u64 {
        let gone: u64 = self.entries.iter().take(expired).map(|e| u64::from(e.tokens)).sum();
        self.total - gone
    }

    fn judge(&self, quota: &LogQuota, cost: Cost, now: Nanos, expired: usize) -> Outcome {
        if cost.get() > quota.limit {
            return Outcome::Never;
        }
        let room = u64::from(quota.limit - cost.get());
        let mut counted = self.counted(expired);
        if cost == Cost::ZERO || counted <= room {
            return Outcome::Allowed;
        }
        let mut retry_after = Nanos::ZERO;
        for entry in self.entries.iter().skip(expired) {
            counted -= u64::from(entry.tokens);
            if counted <= room {
                retry_after = entry.at.saturating_add(quota.window).saturating_sub(now);
                break;
            }
        }
        Outcome::Denied { retry_after }
    }

    fn standing(&self, quota: &LogQuota, outcome: Outcome, now: Nanos, expired: usize) -> LimitDecision {
        let left = u64::from(quota.limit).saturating_sub(self.counted(expired));
        LimitDecision {
            outcome,
            limit: quota.limit,
            remaining: left as u32,
            reset_after: self.empty_at(quota, now).saturating_sub(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota() -> LogQuota {
        LogQuota::new(3, Nanos::SECOND).unwrap()
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(1_000_000 + millis)
    }

    #[test]
    fn what_was_admitted_stops_counting_one_window_later() {
        let mut log = Log::default();
        for millis in [0, 100, 200] {
            assert!(log.take(&quota(), Cost::ONE, at(millis), LogGrowth::Grow).is_allowed());
        }
        let denied = log.take(&quota(), Cost::new(2), at(999), LogGrowth::Grow);
        assert_eq!(denied.wait(), Some(Nanos::from_millis(101)));
        assert_eq!(denied.reset_after, Nanos::from_millis(201));
        assert!(log.take(&quota(), Cost::new(2), at(1_100), LogGrowth::Grow).is_allowed());
        assert_eq!(log.len(), 2);
    }

    #[test]
    fn a_log_without_room_only_denies_more() {
        let mut log = Log::default();
        let _ = log.take(&quota(), Cost::ONE, at(0), LogGrowth::Grow);
        let _ = log.take(&quota(), Cost::ONE, at(900), LogGrowth::Full);
        assert_eq!(log.len(), 1);
        assert_eq!(log.peek(&quota(), Cost::ONE, at(1_000)).remaining, 1, "the first counts on");
    }

    #[test]
    fn a_charge_can_be_handed_back_or_refunded() {
        let mut log = Log::default();
        let _ = log.take(&quota(), Cost::ONE, at(0), LogGrowth::Grow);
        let _ = log.take(&quota(), Cost::new(2), at(1), LogGrowth::Grow);
        log.hand_back(Cost::ONE, at(0));
        assert_eq!(log.peek(&quota(), Cost::ONE, at(1)).remaining, 1);
        log.refund(Cost::MAX);
        assert!(log.is_empty());
        log.hand_back(Cost::ONE, at(1));
        assert_eq!(log.peek(&quota(), Cost::ONE, at(1)).remaining, 3);
    }

    #[test]
    fn scaling_keeps_the_share() {
        let mut log = Log::default();
        let _ = log.take(&quota(), Cost::new(2), at(0), LogGrowth::Grow);
        log.scale(3, 10);
        let ten = LogQuota::new(10, Nanos::SECOND).unwrap();
        assert_eq!(log.peek(&ten, Cost::ONE, at(0)).remaining, 3, "a third, rounded down");
    }
}
