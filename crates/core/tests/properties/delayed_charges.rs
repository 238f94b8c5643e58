//! Delayed charges.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, LimitDecision, LogQuota, Meter, Nanos, Outcome, fixed_window, sliding_window};

use crate::cases;
use crate::exact::{Exact, ratio, read, whole};
use crate::model::{Kind, Limiter, Model};
use crate::quotas::{BucketNumbers, WindowNumbers, bucket, lasting_windows, log, windows, wrapping_windows};
use crate::run::Charge;
use crate::steps::{Act, Clock, Step, any_steps, forward_charges, start};

/// For each step, how many eighths of the limit's unit of time pass.
fn delays() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![2 => Just(0_u64), 3 => 0_u64..8, 1 => 0_u64..40], 60)
}

fn eighths(unit: u64, delay: u64) -> Nanos {
    Nanos::new((u128::from(unit) * u128::from(delay) / 8) as u64)
}

/// A queue on a bucket: what does not fit now is charged with the wait as its delay. Some charges are handed
/// back. Returns what is kept, and whether anything was handed back.
fn queue(numbers: BucketNumbers, start: Nanos, steps: &[Step]) -> (Vec<Charge>, bool) {
    let (meter, mut model) = (Meter::TokenBucket(numbers.quota()), numbers.model());
    let (mut state, mut clock, mut admitted) = (0, Clock::new(start, numbers.unit()), Vec::<Charge>::new());
    let mut given_up = false;
    for step in steps {
        clock.advance(step.wait);
        let now = clock.now;
        if let Act::HandBack(which) = step.act
            && !admitted.is_empty()
        {
            let charge = admitted.remove(which % admitted.len());
            state = meter.hand_back(state, charge.cost, charge.at, now);
            model.hand_back(charge.cost, charge.at, now);
            given_up = true;
        }
        let Act::Take(amount) = step.act else { continue };
        let cost = clock.cost(amount, numbers.capacity);
        let said = meter.peek(state, cost, now);
        assert_eq!(said, model.peek(cost, now), "peek {cost} at {now}, behind delayed charges");
        clock.hear(&said);
        let Some(delay) = said.wait().filter(|&wait| now.saturating_add(wait) <= Nanos::END) else {
            continue;
        };
        let at = now.saturating_add(delay);
        let next = meter.charge_ahead(state, cost, now, delay);
        assert!(
            next.is_some(),
            "{cost}, denied at {now} with a wait of {delay}, is not admitted with that delay"
        );
        state = next.unwrap_or(state);
        assert!(model.take(cost, at).is_allowed());
        if cost > Cost::ZERO {
            // Waits are rounded up, some by more than others. A charge that is handed back makes space for
            // later ones.
            let turn = at.saturating_add(Nanos::new(model.retry_slack()));
            let in_turn = admitted.last().is_none_or(|last| last.at < turn);
            assert!(in_turn || given_up, "{at} is before its turn");
            admitted.push(Charge { cost, at });
        }
    }
    (admitted, given_up)
}

/// Takes with any delay; returns what was admitted, and as of when.
fn charge_delayed(
    (limit, unit): (u32, u64),
    start: Nanos,
    steps: &[Step],
    delays: &[u64],
    mut take: impl FnMut(Cost, Nanos, Nanos) -> (LimitDecision, Nanos),
) -> Vec<Charge> {
    let (mut clock, mut admitted) = (Clock::new(start, unit), Vec::new());
    for (step, &delay) in steps.iter().zip(delays) {
        clock.advance(step.wait);
        let Act::Take(amount) = step.act else { continue };
        let cost = clock.cost(amount, limit);
        let (said, at) = take(cost, clock.now, eighths(unit, delay));
        if said.is_allowed() {
            admitted.push(Charge { cost, at });
        }
        clock.hear(&said);
    }
    admitted.sort_by_key(|charge| charge.at);
    admitted
}

/// The same on a meter, whose waits must be right for delayed charges too.
fn reserve_on(meter: Meter, unit: u64, start: Nanos, steps: &[Step], delays: &[u64]) -> Vec<Charge> {
    let limit = meter.peek(0, Cost::ZERO, start).limit;
    let mut state = 0;
    charge_delayed((limit, unit), start, steps, delays, |cost, now, delay| {
        let next = meter.charge_ahead(state, cost, now, delay);
        let said = meter.decision_ahead(next.ok_or(state), cost, now, delay);
        state = next.unwrap_or(state);
        let waiting = meter.peek(state, Cost::ONE, now);
        if let Outcome::Denied { retry_after } = waiting.outcome {
            let then = now.saturating_add(retry_after);
            assert!(retry_after > Nanos::ZERO);
            assert!(then > Nanos::END || meter.charge(state, Cost::ONE, then).is_some(), "denied at {then}");
        }
        (said, meter.as_of(now, delay))
    })
}

/// What is admitted between two charges is within the bucket's bound for that time, up to `slack`.
fn fits_the_envelope(numbers: BucketNumbers, admitted: &[Charge], slack: Nanos) -> Result<(), TestCaseError> {
    let model = numbers.model();
    for (index, first) in admitted.iter().enumerate() {
        let mut spent = whole(0);
        for last in &admitted[index..] {
            spent += whole(last.cost.get());
            let until = last.at.saturating_add(slack);
            prop_assert!(spent <= model.envelope(first.at, until), "{} to {}", first.at, last.at);
        }
    }
    Ok(())
}

/// Each charge fits what was admitted up to it, by the rule of the windows.
fn fits_the_windows(numbers: WindowNumbers, admitted: &[Charge]) {
    let mut counts = BTreeMap::<u64, u64>::new();
    for charge in admitted {
        let at = read(charge.at);
        let (window, left) = (at / numbers.length, numbers.length - at % numbers.length);
        *counts.entry(window).or_default() += u64::from(charge.cost.get());
        let count = |window: Option<u64>| whole(window.and_then(|w| counts.get(&w).copied()).unwrap_or(0));
        let before = match numbers.kind {
            Kind::Sliding => count(window.checked_sub(1)) * ratio(left, numbers.length),
            Kind::Fixed => whole(0),
        };
        let used: Exact = before + count(Some(window));
        assert!(used <= whole(numbers.limit), "{used} of {} at {at}", numbers.limit);
    }
}

fn reserve_in(quota: LogQuota, start: Nanos, steps: &[Step], delays: &[u64]) -> Vec<Charge> {
    let mut log = Log::default();
    charge_delayed((quota.limit(), quota.window().get()), start, steps, delays, |cost, now, delay| {
        let at = now.saturating_add(delay);
        let said = log.take_ahead(&quota, cost, now, at, LogGrowth::Grow);
        (said.seen_earlier_by(delay), at)
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_queue_is_served_in_order_within_the_envelope(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
    ) {
        let (mut admitted, given_up) = queue(numbers, start, &steps);
        admitted.sort_by_key(|charge| charge.at);
        // The instant of a delayed charge is in whole nanoseconds, rounded up, while the state has it to the
        // tick. If it is handed back between the two, nothing is delayed any more, so the bucket can add what
        // is refilled until that nanosecond to what it holds.
        let late = Nanos::new(numbers.model().retry_slack());
        let slack = if given_up { late } else { Nanos::ZERO };
        fits_the_envelope(numbers, &admitted, slack)?;
    }

    #[test]
    fn no_delay_breaks_the_envelope_of_a_bucket(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
        delays in delays(),
    ) {
        let meter = Meter::TokenBucket(numbers.quota());
        let admitted = reserve_on(meter, numbers.unit(), start, &steps, &delays);
        fits_the_envelope(numbers, &admitted, Nanos::ZERO)?;
    }

    #[test]
    fn no_delay_breaks_the_rule_of_windows(
        numbers in lasting_windows(),
        start in start(),
        steps in forward_charges(),
        delays in delays(),
    ) {
        fits_the_windows(numbers, &reserve_on(numbers.meter(), numbers.length, start, &steps, &delays));
    }

    #[test]
    fn nor_where_the_number_wraps(
        numbers in wrapping_windows(),
        start in start(),
        steps in forward_charges(),
        delays in delays(),
    ) {
        fits_the_windows(numbers, &reserve_on(numbers.meter(), numbers.length, start, &steps, &delays));
    }

    #[test]
    fn no_delay_breaks_the_rule_of_a_log(
        quota in log(),
        start in start(),
        steps in forward_charges(),
        delays in delays(),
    ) {
        let admitted = reserve_in(quota, start, &steps, &delays);
        for last in &admitted {
            let inside = |at: Nanos| at <= last.at && at.saturating_add(quota.window()) > last.at;
            let spent: u64 = admitted.iter().filter(|c| inside(c.at)).map(|c| u64::from(c.cost.get())).sum();
            prop_assert!(spent <= u64::from(quota.limit()), "{} up to {}", spent, last.at);
        }
    }

    /// Without a delay, a charge ahead is a plain charge, also on a clock that steps back.
    #[test]
    fn as_of_now_is_a_plain_charge(numbers in windows(), start in start(), steps in any_steps()) {
        let (mut state, mut clock) = (0, Clock::new(start, numbers.length));
        for step in &steps {
            clock.advance(step.wait);
            let Act::Take(amount) = step.act else { continue };
            let (cost, now) = (clock.cost(amount, numbers.limit), clock.now);
            let meter = numbers.meter();
            let next = meter.charge(state, cost, now);
            match &meter {
                Meter::SlidingWindow(quota) => {
                    prop_assert_eq!(sliding_window::charge_ahead(state, quota, cost, now, now), next);
                    let said = sliding_window::peek_ahead(state, quota, cost, now, now);
                    prop_assert_eq!(said, meter.peek(state, cost, now));
                }
                Meter::FixedWindow(quota) => {
                    prop_assert_eq!(fixed_window::charge_ahead(state, quota, cost, now, now), next);
                }
                Meter::TokenBucket(_) => {}
            }
            clock.hear(&meter.peek(state, cost, now));
            state = next.unwrap_or(state);
        }
    }
}
