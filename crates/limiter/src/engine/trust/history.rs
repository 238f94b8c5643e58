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
    /// Drops those of more than a day from now: some clock was wrong. They would count until then, and take the places of
    /// others.
    pub(super) fn drop_ahead(&mut self, now: Nanos) {
        let ahead = |at: &Nanos| *at > now.saturating_add(Nanos::DAY);
        self.0.iter_mut().filter(|place| place.as_ref().is_some_and(ahead)).for_each(|place| *place = None);
    }

    /// Adds a violation, which may be older than those that are known: records are read back while requests are
    /// decided.
    pub(super) fn add(&mut self, at: Nanos) {
        let oldest = self.0.iter_mut().min().expect("there is at least one place");
        *oldest = (*oldest).max(Some(at));
    }

    /// How many there are within thirty days; no more than make a difference.
    pub(super) fn count(&self, now: Nanos) -> u64 {
        let counts = |at: &&Nanos| {
            now.saturating_sub(**at) < VIOLATIONS_LIFE && **at <= now.saturating_add(Nanos::DAY)
        };
        self.0.iter().flatten().filter(counts).count() as u64
    }
}

/// Outcomes of days after this many from now are not believed: some clock was wrong.
const AHEAD_DAYS: u64 = 1;

/// The outcomes of a user's requests in the last seven days, by day (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyOutcomes {
    /// The latest day with an outcome, counted from 1970.
    latest: u64,
    /// Successes and failures of each day, at the day's number modulo seven.
    days: [(u32, u32); OUTCOME_DAYS as usize],
}

impl DailyOutcomes {
    /// Adds outcomes of this time.
    pub fn add(&mut self, successes: u32, failures: u32, at: Nanos) {
        let day = day_of(at);
        if self.latest > day + AHEAD_DAYS {
            // They would count for ever, and everything after them as one day.
            *self = DailyOutcomes::default();
        }
        self.begin(day);
        // If the clock was set back, outcomes count for the latest day.
        let (succeeded, failed) = &mut self.days[place(self.latest)];
        *succeeded = succeeded.saturating_add(successes);
        *failed = failed.saturating_add(failures);
    }

    /// Makes a day the latest one, if it is not before it.
    fn begin(&mut self, day: u64) {
        // The days since the latest had no outcomes; their places still have those of a week ago.
        for empty in (self.latest + 1..=day).take(self.days.len()) {
            self.days[place(empty)] = (0, 0);
        }
        self.latest = self.latest.max(day);
    }

    /// How many successes and failures count: those of the current day and the six before.
    pub fn counted(&self, now: Nanos) -> (u64, u64) {
        let today = day_of(now);
        if self.latest > today + AHEAD_DAYS {
            return (0, 0);
        }
        let first = today.max(self.latest).saturating_sub(OUTCOME_DAYS - 1);
        let days = (first..=self.latest).map(|day| self.days[place(day)]);
        days.fold((0, 0), |(successes, failures), (succeeded, failed)| {
            (successes + u64::from(succeeded), failures + u64::from(failed))
        })
    }

    /// The success rate of the current day and the six before; `None` without outcomes.
    pub fn rate(&self, now: Nanos) -> Option<SuccessRate> {
        let (successes, failures) = self.counted(now);
        let requests = successes + failures;
        (requests > 0).then(|| SuccessRate::new(successes, requests))
    }

    /// The days with outcomes, oldest first: the number of the day since 1970, its successes and its failures. With these
    /// a program can keep the outcomes, and make them again with [`DailyOutcomes::from_days`].
    pub fn days(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        let first = self.latest.saturating_sub(OUTCOME_DAYS - 1);
        (first..=self.latest).filter_map(move |day| {
            let (succeeded, failed) = self.days[place(day)];
            (succeeded > 0 || failed > 0).then_some((day, succeeded, failed))
        })
    }

    /// The outcomes of these days, whose order makes no difference; those of more than six days before the latest do not
    /// count.
    pub fn from_days(days: impl IntoIterator<Item = (u64, u32, u32)>) -> DailyOutcomes {
        let mut outcomes = DailyOutcomes::default();
        for (day, successes, failures) in days {
            // No clock comes so far; and a day after the last one would overflow.
            if day > day_of(Nanos::MAX) {
                continue;
            }
            outcomes.begin(day);
            if outcomes.latest - day < OUTCOME_DAYS {
                let (succeeded, failed) = &mut outcomes.days[place(day)];
                *succeeded = succeeded.saturating_add(successes);
                *failed = failed.saturating_add(failures);
            }
        }
        outcomes
    }

    /// When the last of them stops to count; `None` if there are none.
    pub fn end(&self) -> Option<Nanos> {
        let (last, ..) = self.days().last()?;
        Some(Nanos::from_secs((last + OUTCOME_DAYS).saturating_mul(DAY)))
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
    fn violations_of_a_clock_that_was_far_ahead_do_not_count_for_years() {
        let (mut recent, at) = (RecentViolations::default(), |day: u64| Nanos::from_secs(day * DAY));
        (0..VIOLATIONS_MAX).for_each(|_| recent.add(at(40_000)));
        assert_eq!(recent.count(at(20_000)), 0);
        recent.drop_ahead(at(20_000));
        recent.add(at(20_000));
        assert_eq!((recent.count(at(20_000)), recent.count(at(20_029)), recent.count(at(20_030))), (1, 1, 0));
    }

    #[test]
    fn an_account_from_the_future_is_new() {
        let at = |days: u64| Nanos::from_secs(days * DAY);
        assert_eq!(age_in_days(at(5), at(4)), 0);
        assert_eq!(age_in_days(at(5), at(7).saturating_sub(Nanos::new(1))), 1, "whole days");
    }

    proptest! {
        #[test]
        fn outcomes_are_made_again_from_their_days(
            events in prop::collection::vec((0_u64..5, 0_u32..9, 0_u32..9), 0..40),
            rotated in 0_usize..7,
        ) {
            let (mut outcomes, mut day) = (DailyOutcomes::default(), 20_000);
            for (gap, successes, failures) in events {
                day += gap;
                outcomes.add(successes, failures, Nanos::from_secs(day * DAY));
            }
            let mut days: Vec<_> = outcomes.days().collect();
            let middle = rotated.min(days.len());
            days.rotate_left(middle);
            let again = DailyOutcomes::from_days(days);
            prop_assert!(again.days().eq(outcomes.days()));
            for later in 0..9 {
                let now = Nanos::from_secs((day + later) * DAY);
                prop_assert_eq!(again.counted(now), outcomes.counted(now));
                let has_ended = outcomes.end().is_none_or(|end| end <= now);
                prop_assert_eq!(has_ended, outcomes.rate(now).is_none());
            }
        }
    }

    #[test]
    fn outcomes_of_a_clock_that_was_far_ahead_do_not_count_for_ever() {
        let (mut outcomes, at) = (DailyOutcomes::default(), |day: u64| Nanos::from_secs(day * DAY));
        outcomes.add(0, 9, at(40_000));
        assert_eq!((outcomes.counted(at(20_000)), outcomes.counted(at(40_006))), ((0, 0), (0, 9)));
        outcomes.add(3, 1, at(20_000));
        assert_eq!(outcomes.counted(at(20_006)), (3, 1));
        assert_eq!(outcomes.counted(at(20_007)), (0, 0));
        let odd = DailyOutcomes::from_days([(u64::MAX, 1, 1), (20_000, 1, 0)]);
        assert_eq!(odd.counted(at(20_000)), (1, 0));
    }

    #[test]
    fn outcomes_after_the_clock_was_set_back_count_for_the_latest_day() {
        let mut outcomes = DailyOutcomes::default();
        outcomes.add(1, 0, Nanos::from_secs(100 * DAY));
        outcomes.add(0, 1, Nanos::from_secs(99 * DAY));
        assert_eq!(outcomes.rate(Nanos::from_secs(99 * DAY)), Some(SuccessRate::new(1, 2)));
    }
}
