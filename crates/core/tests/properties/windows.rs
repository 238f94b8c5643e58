//! The sliding and the fixed window.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_core::{Cost, Nanos};

use crate::cases;
use crate::exact::{Exact, ratio, read, whole};
use crate::model::{Kind, Limiter};
use crate::quotas::{WindowNumbers, lasting_windows, windows, wrapping_windows};
use crate::real::Word;
use crate::run::{Reach, Run};
use crate::steps::{Act, Clock, Step, any_steps, forward_charges, start};

fn agree(numbers: WindowNumbers, start: Nanos, steps: &[Step]) {
    let clock = Clock::new(start, numbers.length);
    Run::new(Word::new(numbers.meter()), numbers.model(), clock, numbers.reach()).steps(steps);
}

/// Takes whatever the limit admits and checks each decision by the rule itself, with one count per window.
fn admits_by_the_rule(numbers: WindowNumbers, start: Nanos, steps: &[Step]) {
    let (mut real, mut clock) = (Word::new(numbers.meter()), Clock::new(start, numbers.length));
    let mut counts = BTreeMap::<u64, u32>::new();
    for step in steps {
        clock.advance(step.wait);
        let Act::Take(amount) = step.act else { continue };
        let (cost, now) = (clock.cost(amount, numbers.limit), read(clock.now));
        let said = real.take(cost, clock.now);
        clock.hear(&said);
        let fits = estimate(numbers, &counts, now) + whole(cost.get()) <= whole(numbers.limit);
        assert_eq!(said.is_allowed(), fits || cost == Cost::ZERO, "{cost} at {now}: {said:?}");
        if said.is_allowed() {
            *counts.entry(now / numbers.length).or_default() += cost.get();
        }
    }
}

/// prev·(1 − progress) + cur, or cur alone.
fn estimate(numbers: WindowNumbers, counts: &BTreeMap<u64, u32>, now: u64) -> Exact {
    let count = |window: u64| whole(counts.get(&window).copied().unwrap_or(0));
    let (window, left) = (now / numbers.length, numbers.length - now % numbers.length);
    let weighs = numbers.kind == Kind::Sliding && window > 0;
    let before = if weighs { count(window - 1) } else { whole(0) };
    before * ratio(left, numbers.length) + count(window)
}

proptest! {
    #![proptest_config(cases(1_024))]

    #[test]
    fn agree_with_the_model(numbers in windows(), start in start(), steps in any_steps()) {
        agree(numbers, start, &steps);
    }

    #[test]
    fn agree_with_the_model_where_the_number_wraps(
        numbers in wrapping_windows(),
        start in start(),
        steps in any_steps(),
    ) {
        prop_assert_ne!(numbers.reach(), Reach::EVERYWHERE);
        agree(numbers, start, &steps);
    }

    #[test]
    fn admit_exactly_what_the_rule_says(
        numbers in lasting_windows(),
        start in start(),
        steps in forward_charges(),
    ) {
        admits_by_the_rule(numbers, start, &steps);
    }

    /// A count that is found again after whole cycles of the window number can only deny, and is gone once the
    /// clock has passed the minute in which it might be a step back, and the windows in which it counts.
    #[test]
    fn a_count_is_forgotten_where_the_number_wraps(
        numbers in wrapping_windows(),
        start in 0..Nanos::YEAR.get(),
        (turns, windows) in (any::<u64>(), any::<u64>()),
    ) {
        let minute = Nanos::MINUTE.get().div_ceil(numbers.length);
        let turns = turns % ((Nanos::END.get() - start) / numbers.length / numbers.turn());
        let idle = turns * numbers.turn() + 2 + windows % (numbers.turn() - minute - 2);
        let (mut real, later) = (Word::new(numbers.meter()), Nanos::new(start + idle * numbers.length));
        prop_assert!(real.take(Cost::new(numbers.limit), Nanos::new(start)).is_allowed());
        prop_assert!(real.is_idle(later));
        prop_assert!(real.take(Cost::new(numbers.limit), later).is_allowed());
    }
}
