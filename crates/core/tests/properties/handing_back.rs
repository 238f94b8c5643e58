//! A run with a charge that is handed back, compared with the same run without the charge.

use proptest::prelude::*;
use tidegate_core::{Cost, LimitDecision, Meter, Nanos};

use crate::cases;
use crate::model::Limiter;
use crate::quotas::{bucket, lasting_windows, log};
use crate::real::{Bounded, Word};
use crate::steps::{Act, Amount, Clock, Step, Wait, any_steps, forward_charges, start};

/// A run with one charge in it that is handed back at its end.
#[derive(Clone, Debug)]
struct Story {
    start: Nanos,
    /// On any clock.
    before: Vec<Step>,
    charge: Amount,
    /// On a clock that does not step back.
    after: Vec<Step>,
    /// When the limits are compared.
    later: Wait,
}

fn story(before: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Story> {
    let charge =
        prop_oneof![(1_u32..10).prop_map(Amount::Tokens), (1_u64..1_000).prop_map(Amount::Thousandths)];
    let later = (0_u64..40).prop_map(Wait::Eighths);
    (start(), before, charge, forward_charges(), later)
        .prop_map(|(start, before, charge, after, later)| Story { start, before, charge, after, later })
}

/// Two copies of a limit after a run: one in which the charge was made and handed back, and one in which it was
/// never made. `None` if it was not admitted.
fn two_worlds<L: Limiter + Clone>(untouched: L, unit: u64, story: &Story) -> Option<(L, L, Nanos)> {
    let (mut real, mut clock) = (untouched, Clock::new(story.start, unit));
    let limit = real.peek(Cost::ZERO, story.start).limit;
    takes(&story.before, &mut clock, limit, |cost, now| real.take(cost, now));
    let mut without = real.clone();
    let (cost, charged_at) = (clock.cost(story.charge, limit), clock.now);
    if !real.take(cost, charged_at).is_allowed() {
        return None;
    }
    takes(&story.after, &mut clock, limit, |cost, now| {
        let said = real.take(cost, now);
        if said.is_allowed() {
            assert!(without.take(cost, now).is_allowed(), "{cost} at {now} denied where less was taken");
        }
        said
    });
    real.hand_back(cost, charged_at, clock.now);
    Some((real, without, clock.now))
}

fn takes(steps: &[Step], clock: &mut Clock, limit: u32, mut take: impl FnMut(Cost, Nanos) -> LimitDecision) {
    for step in steps {
        clock.advance(step.wait);
        if let Act::Take(amount) = step.act {
            let said = take(clock.cost(amount, limit), clock.now);
            clock.hear(&said);
        }
    }
}

/// Handing back leaves at most what would be there without the charge.
fn leaves_no_more<L: Limiter + Clone>(untouched: L, unit: u64, story: &Story) {
    let Some((real, without, now)) = two_worlds(untouched, unit, story) else { return };
    let mut clock = Clock::new(now, unit);
    for _ in 0..3 {
        let (left, most) = (real.peek(Cost::ONE, clock.now), without.peek(Cost::ONE, clock.now));
        assert!(left.remaining <= most.remaining, "{left:?} at {}, not {most:?}", clock.now);
        assert!(left.reset_after >= most.reset_after, "{left:?} at {}, not {most:?}", clock.now);
        clock.advance(story.later);
    }
}

/// Handing back leaves exactly what would be there without the charge.
fn leaves_as_much<L: Limiter + Clone>(untouched: L, unit: u64, story: &Story) {
    let Some((real, without, now)) = two_worlds(untouched, unit, story) else { return };
    let mut clock = Clock::new(now, unit);
    for _ in 0..3 {
        assert_eq!(real.peek(Cost::ONE, clock.now), without.peek(Cost::ONE, clock.now), "at {}", clock.now);
        clock.advance(story.later);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn is_never_a_gain_in_a_bucket(numbers in bucket(), story in story(any_steps())) {
        leaves_no_more(Word::new(Meter::TokenBucket(numbers.quota())), numbers.unit(), &story);
    }

    #[test]
    fn at_once_undoes_the_charge_in_a_bucket(numbers in bucket(), story in story(any_steps())) {
        let at_once = Story { after: Vec::new(), ..story };
        leaves_as_much(Word::new(Meter::TokenBucket(numbers.quota())), numbers.unit(), &at_once);
    }

    #[test]
    fn is_never_a_gain_in_windows(numbers in lasting_windows(), story in story(any_steps())) {
        leaves_no_more(Word::new(numbers.meter()), numbers.length, &story);
    }

    #[test]
    fn undoes_the_charge_in_windows(numbers in lasting_windows(), story in story(forward_charges())) {
        leaves_as_much(Word::new(numbers.meter()), numbers.length, &story);
    }

    #[test]
    fn is_never_a_gain_in_a_log(quota in log(), most in 1_usize..40, story in story(any_steps())) {
        leaves_no_more(Bounded::new(quota, most), quota.window().get(), &story);
    }

    #[test]
    fn undoes_the_charge_in_a_log(quota in log(), story in story(forward_charges())) {
        leaves_as_much(Bounded::new(quota, usize::MAX), quota.window().get(), &story);
    }
}
