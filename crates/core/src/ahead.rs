//! Delayed charges: made now, counted at a later instant.
//!
//! A caller whose charge was denied with a wait may charge at once, with that wait as the delay: the cost then
//! counts as of the instant at which the limit will hold it. Until that instant other callers find the limit used
//! up, even if the clock steps back, and their waits begin after the delayed charge. No delay, however long,
//! makes the limit admit more than it should.
//!
//! Delay a charge by the wait that its own limit returned, and by no more. A longer delay keeps others waiting
//! for the difference; and a bucket that is full before the later instant does not store which charge it is
//! full for. So [`Meter::hand_back`] restores exactly (and never more than) what would be there without the
//! charge only if the charge was delayed no longer than necessary.

use crate::{Cost, LimitDecision, Meter, Nanos, fixed_window, sliding_window, token_bucket};

impl Meter {
    /// The instant at which a charge made at `now` with this `delay` is counted: `delay` later, or as far ahead
    /// as the algorithm can represent.
    pub fn as_of(&self, now: Nanos, delay: Nanos) -> Nanos {
        now.saturating_add(self.clamp_delay(delay))
    }

    /// The delay, at most as long as the algorithm can represent.
    fn clamp_delay(&self, delay: Nanos) -> Nanos {
        match self {
            Meter::TokenBucket(_) => delay,
            Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => delay.min(quota.ahead_max()),
        }
    }

    /// [`Meter::charge`], counted `delay` later. To hand it back, call [`Meter::hand_back`] with
    /// [`Meter::as_of`] as the instant of the charge.
    #[must_use = "the charge counts only once the returned state is stored"]
    pub fn charge_ahead(&self, state: u64, cost: Cost, now: Nanos, delay: Nanos) -> Option<u64> {
        if delay == Nanos::ZERO {
            return self.charge(state, cost, now);
        }
        let at = self.as_of(now, delay);
        match self {
            Meter::TokenBucket(quota) => token_bucket::charge(state, quota, cost, at),
            Meter::SlidingWindow(quota) => sliding_window::charge_ahead(state, quota, cost, now, at),
            Meter::FixedWindow(quota) => fixed_window::charge_ahead(state, quota, cost, now, at),
        }
    }

    /// The decision that [`Meter::charge_ahead`] would lead to, without taking anything: `remaining` is as of
    /// the later instant, waits begin at `now`.
    pub fn peek_ahead(&self, state: u64, cost: Cost, now: Nanos, delay: Nanos) -> LimitDecision {
        if delay == Nanos::ZERO {
            return self.peek(state, cost, now);
        }
        let at = self.as_of(now, delay);
        let decision = match self {
            Meter::SlidingWindow(quota) => sliding_window::peek_ahead(state, quota, cost, now, at),
            Meter::TokenBucket(_) | Meter::FixedWindow(_) => self.peek(state, cost, at),
        };
        decision.seen_earlier_by(self.clamp_delay(delay))
    }

    /// The decision on a [`Meter::charge_ahead`], from its result, like [`Meter::decision`].
    pub fn decision_ahead(
        &self,
        charged: Result<u64, u64>,
        cost: Cost,
        now: Nanos,
        delay: Nanos,
    ) -> LimitDecision {
        match charged {
            Ok(state) => {
                self.peek(state, Cost::ZERO, self.as_of(now, delay)).seen_earlier_by(self.clamp_delay(delay))
            }
            Err(state) => self.peek_ahead(state, cost, now, delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sliding_log::{Log, LogGrowth};
    use crate::{LogQuota, Quota, WindowQuota};

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(60_000_000).saturating_add(Nanos::from_millis(millis))
    }

    fn span(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn windows(limit: u32) -> WindowQuota {
        WindowQuota::new(limit, Nanos::MINUTE).unwrap()
    }

    /// Charges with the wait of the last denial as the delay, until the limit admits it.
    fn charge_after_wait(meter: &Meter, state: &mut u64, cost: u32, now: Nanos) -> Nanos {
        let mut delay = Nanos::ZERO;
        loop {
            match meter.charge_ahead(*state, Cost::new(cost), now, delay) {
                Some(next) => {
                    *state = next;
                    return delay;
                }
                None => {
                    let wait = meter.peek_ahead(*state, Cost::new(cost), now, delay).wait().unwrap();
                    assert!(wait > delay, "{wait} after {delay}");
                    delay = wait;
                }
            }
        }
    }

    #[test]
    fn reservations_queue_up_in_a_bucket() {
        let meter = Meter::from(Quota::new(10, Nanos::SECOND, 5).unwrap());
        let mut state = meter.charge(0, Cost::new(5), at(0)).unwrap();
        assert_eq!(charge_after_wait(&meter, &mut state, 2, at(0)), span(200));
        assert_eq!(charge_after_wait(&meter, &mut state, 5, at(0)), span(700));
        let others = meter.peek(state, Cost::ONE, at(0));
        assert_eq!((others.remaining, others.wait()), (0, Some(span(800))));
        assert_eq!(meter.peek(state, Cost::ONE, at(750)).wait(), Some(span(50)));
        assert!(meter.charge(state, Cost::ONE, at(800)).is_some());
        assert!(!meter.is_idle(state, at(1_199)) && meter.is_idle(state, at(1_200)));
    }

    #[test]
    fn a_reservation_handed_back_in_time_was_never_made() {
        let bucket = Meter::from(Quota::new(10, Nanos::SECOND, 5).unwrap());
        let meters = [bucket, Meter::SlidingWindow(windows(5)), Meter::FixedWindow(windows(5))];
        for meter in meters {
            let used = meter.charge(0, Cost::new(5), at(100)).unwrap();
            let mut state = used;
            let delay = charge_after_wait(&meter, &mut state, 2, at(200));
            let back = meter.hand_back(state, Cost::new(2), meter.as_of(at(200), delay), at(300));
            for later in [300, 60_000, 90_000, 120_000] {
                let (left, before) =
                    (meter.peek(back, Cost::ONE, at(later)), meter.peek(used, Cost::ONE, at(later)));
                assert_eq!(left.remaining, before.remaining, "{meter:?} at {later}");
            }
        }
    }

    #[test]
    fn what_counts_now_is_not_forgotten_for_a_later_window() {
        for meter in [Meter::SlidingWindow(windows(10)), Meter::FixedWindow(windows(10))] {
            let state = meter.charge(0, Cost::new(10), at(59_000)).unwrap();
            // One in the next window, or two windows on.
            for delay in [60_000, 120_000] {
                let state = meter.charge_ahead(state, Cost::ONE, at(59_500), span(delay)).unwrap();
                let denied = meter.peek(state, Cost::ONE, at(59_600));
                assert_eq!((denied.is_allowed(), denied.remaining), (false, 0), "{meter:?}, {delay}");
                let then = at(59_600).saturating_add(denied.wait().unwrap());
                assert!(meter.charge(state, Cost::ONE, then).is_some(), "{meter:?}, {delay}");
            }
        }
    }

    #[test]
    fn a_fixed_window_is_full_for_those_before_and_after_a_reservation() {
        let meter = Meter::FixedWindow(windows(10));
        let mut state = meter.charge(0, Cost::new(7), at(0)).unwrap();
        assert_eq!(charge_after_wait(&meter, &mut state, 9, at(1_000)), span(59_000));
        let left = |state, millis| meter.peek(state, Cost::ONE, at(millis)).remaining;
        assert_eq!((left(state, 1_000), left(state, 60_000), left(state, 120_000)), (1, 1, 10));
        let state = meter.charge(state, Cost::ONE, at(2_000)).unwrap();
        let denied = meter.peek(state, Cost::ONE, at(2_000));
        assert_eq!(denied.wait(), Some(span(118_000)), "the next window is taken too");
    }

    #[test]
    fn where_the_number_wraps_a_reservation_is_cut_to_what_is_seen() {
        let quota = WindowQuota::new(1_000_000, Nanos::SECOND).unwrap();
        for meter in [Meter::SlidingWindow(quota), Meter::FixedWindow(quota)] {
            let all = Cost::new(1_000_000);
            let state = meter.charge_ahead(0, all, at(0), Nanos::HOUR).unwrap();
            assert_eq!(meter.as_of(at(0), Nanos::HOUR), at(30_000));
            for earlier in [at(0), at(29_000), at(0).saturating_sub(span(29_000))] {
                assert!(!meter.peek(state, Cost::ONE, earlier).is_allowed(), "{meter:?} at {earlier}");
            }
        }
    }

    #[test]
    fn a_log_keeps_what_still_counts_now() {
        let quota = LogQuota::new(3, Nanos::SECOND).unwrap();
        let mut log = Log::default();
        let _ = log.take(&quota, Cost::new(3), at(0), LogGrowth::Grow);
        let delayed = log.take_ahead(&quota, Cost::new(2), at(500), at(1_000), LogGrowth::Grow);
        assert_eq!((delayed.is_allowed(), delayed.remaining), (true, 1));
        let denied = log.take(&quota, Cost::ONE, at(600), LogGrowth::Grow);
        assert_eq!((denied.remaining, denied.wait()), (0, Some(span(400))));
        assert_eq!(log.peek(&quota, Cost::new(2), at(600)).wait(), Some(span(1_400)));
        log.hand_back(Cost::new(2), at(1_000));
        assert_eq!(log.peek(&quota, Cost::new(3), at(600)).wait(), Some(span(400)));
    }
}
