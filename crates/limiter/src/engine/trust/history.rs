//! What users did lately: how often they exceeded limits, and how many of their requests succeeded.

use tidegate_core::Nanos;

use super::score::{SuccessRate, VIOLATIONS_MAX};

const DAY: u64 = 86_400;
/// How long a violation counts.
pub const VIOLATIONS_LIFE: Nanos = Nanos::from_secs(30 * DAY);
/// How long outcomes count: the current day (UTC) and those before it.
const OUTCOME_DAYS: u64 = 7;

/// The latest violations of a user, as many as make a difference to a score. By these the number that is still
/// within thirty days is exact up to that many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentViolations([Option<Nanos>; VIOLATIONS_MAX]);

impl RecentViolations {
    /// Adds a violation, which may be older than those that are known: records are read back while requests are
    /// decided.
    pub(super) fn add(&mut self, at: Nanos) {
        let oldest = self.0.iter_mut().min().expect("there is at least one place");
        *oldest = (*oldest).max(Some(at));
    }

    /// How many there are within thirty days; no more than make a difference.
    pub(super) fn count(&self, now: Nanos) -> u64 {
        let counts = |at: &&Nanos| now.saturating_sub(**at) < VIOLATIONS_LIFE;
        self.0.iter().flatten().filter(counts).count() as u64
    }
}

/// The outcomes of a user's requests, by day.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DailyOutcomes {
    /// The latest day with an outcome, counted from 1970.
    latest: u64,
    /// Successes and failures of each day, at the day's number modulo seven.
    days: [(u32, u32); OUTCOME_DAYS as usize],
}

impl DailyOutcomes {
    pub(super) fn add(&mut self, successes: u32, failures: u32, at: Nanos) {
        let day = day_of(at);
        // The days since the latest had no outcomes; their places still have those of a week ago.
        for empty in (self.latest + 1..=day).take(self.days.len()) {
            self.days[place(empty)] = (0, 0);
        }
        self.latest = self.latest.max(day);
        // If the clock was set back, outcomes count for the latest day.
        let (succeeded, failed) = &mut self.days[place(self.latest)];
        *succeeded = succeeded.saturating_add(successes);
        *failed = failed.saturating_add(failures);
    }

    /// The success rate of the current day and the six before; `None` without outcomes.
    pub(super) fn rate(&self, now: Nanos) -> Option<SuccessRate> {
        let today = day_of(now).max(self.latest);
        let first = today.saturating_sub(OUTCOME_DAYS - 1);
        let days = (first..=self.latest).map(|day| self.days[place(day)]);
        let (successes, requests) = days.fold((0, 0), |(successes, requests), (succeeded, failed)| {
            let succeeded = u64::from(succeeded);
            (successes + succeeded, requests + succeeded + u64::from(failed))
        });
        (requests > 0).then(|| SuccessRate::new(successes, requests))
    }
}

fn day_of(at: Nanos) -> u64 {
    at.get() / Nanos::SECOND.get() / DAY
}

fn place(day: u64) -> usize {
    (day % OUTCOME_DAYS) as usize
}

/// The age in whole days of an account that was created at this time.
pub(super) fn age_in_days(created: Nanos, now: Nanos) -> u64 {
    day_of(now.saturating_sub(created))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn violations_count_for_thirty_days(gaps in prop::collection::vec(0_u64..12, 0..40), later in 0_u64..40) {
            let (mut recent, mut all, mut now) = (RecentViolations::default(), Vec::new(), 20_000);
            for gap in gaps {
                now += gap;
                recent.add(Nanos::from_secs(now * DAY));
                all.push(now);
            }
            now += later;
            let expected = all.iter().filter(|at| now - **at < 30).count().min(VIOLATIONS_MAX);
            prop_assert_eq!(recent.count(Nanos::from_secs(now * DAY)), expected as u64);
        }

        #[test]
        fn the_order_in_which_violations_are_told_makes_no_difference(
            days in prop::collection::vec(0_u64..90, 0..12),
            rotated in 0_usize..12,
            now in 60_u64..130,
        ) {
            let counted = |days: &[u64]| {
                let mut recent = RecentViolations::default();
                days.iter().for_each(|day| recent.add(Nanos::from_secs((20_000 + day) * DAY)));
                recent.count(Nanos::from_secs((20_000 + now) * DAY))
            };
            let mut others = days.clone();
            others.reverse();
            others.rotate_left(rotated.min(days.len()));
            prop_assert_eq!(counted(&days), counted(&others));
        }

        #[test]
        fn outcomes_count_for_seven_days(
            events in prop::collection::vec((0_u64..12, 0_u32..9, 0_u32..9), 0..40),
            later in 0_u64..12,
        ) {
            let (mut outcomes, mut all, mut day) = (DailyOutcomes::default(), Vec::new(), 20_000);
            for (gap, successes, failures) in events {
                day += gap;
                outcomes.add(successes, failures, Nanos::from_secs(day * DAY + 7));
                all.push((day, u64::from(successes), u64::from(failures)));
            }
            day += later;
            let kept = || all.iter().filter(|(at, ..)| day - at < 7);
            let successes: u64 = kept().map(|(_, successes, _)| successes).sum();
            let requests: u64 = successes + kept().map(|(_, _, failures)| failures).sum::<u64>();
            let expected = (requests > 0).then(|| SuccessRate::new(successes, requests));
            prop_assert_eq!(outcomes.rate(Nanos::from_secs(day * DAY + 8)), expected);
        }
    }

    #[test]
    fn an_account_from_the_future_is_new() {
        let at = |days: u64| Nanos::from_secs(days * DAY);
        assert_eq!(age_in_days(at(5), at(4)), 0);
        assert_eq!(age_in_days(at(5), at(7).saturating_sub(Nanos::new(1))), 1, "whole days");
    }

    #[test]
    fn outcomes_after_the_clock_was_set_back_count_for_the_latest_day() {
        let mut outcomes = DailyOutcomes::default();
        outcomes.add(1, 0, Nanos::from_secs(100 * DAY));
        outcomes.add(0, 1, Nanos::from_secs(99 * DAY));
        assert_eq!(outcomes.rate(Nanos::from_secs(99 * DAY)), Some(SuccessRate::new(1, 2)));
    }
}
