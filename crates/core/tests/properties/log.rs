//! The sliding log.

use proptest::prelude::*;
use tidegate_core::{Carry, LogQuota, Nanos};

use crate::cases;
use crate::exact::read;
use crate::model::{Limiter, Log};
use crate::quotas::{fitting, log, up_to};
use crate::real::Bounded;
use crate::run::{Reach, Run};
use crate::steps::{Act, Clock, Step, any_steps, forward_charges, start};

/// How many entries a log may hold: a few, or more than a run makes.
fn room() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..6, Just(usize::MAX)]
}

fn model(quota: LogQuota, room: usize) -> Log {
    Log::new(quota.limit(), quota.window(), room)
}

fn run(quota: LogQuota, room: usize, start: Nanos) -> Run<Bounded, Log> {
    let clock = Clock::new(start, quota.window().get());
    Run::new(Bounded::new(quota, room), model(quota, room), clock, Reach::EVERYWHERE)
}

/// What a run admits, and when.
fn admitted(quota: LogQuota, room: usize, start: Nanos, steps: &[Step]) -> Vec<(u64, u64)> {
    let clock = &mut Clock::new(start, quota.window().get());
    let real = &mut Bounded::new(quota, room);
    let mut take = |step: &Step| {
        clock.advance(step.wait);
        let Act::Take(amount) = step.act else { return None };
        let cost = clock.cost(amount, quota.limit());
        let said = real.take(cost, clock.now);
        clock.hear(&said);
        said.is_allowed().then(|| (read(clock.now), u64::from(cost.get())))
    };
    steps.iter().filter_map(&mut take).collect()
}

proptest! {
    #![proptest_config(cases(1_024))]

    #[test]
    fn agrees_with_the_model(quota in log(), room in room(), start in start(), steps in any_steps()) {
        let mut run = run(quota, room, start);
        for step in &steps {
            run.steps(std::slice::from_ref(step));
            prop_assert_eq!(run.real.log.len(), run.model.len());
        }
    }

    /// Whatever its capacity: a log that may not grow only denies more.
    #[test]
    fn never_admits_more_than_the_limit_in_any_span(
        quota in log(),
        room in room(),
        start in start(),
        steps in forward_charges(),
    ) {
        let admitted = admitted(quota, room, start, &steps);
        let window = u128::from(quota.window().get());
        for (last, _) in &admitted {
            let inside = |at: &u64| at <= last && u128::from(*at) + window > u128::from(*last);
            let spent: u64 = admitted.iter().filter(|(at, _)| inside(at)).map(|(_, cost)| cost).sum();
            prop_assert!(spent <= u64::from(quota.limit()), "{} up to {}", spent, last);
        }
    }

    /// A new limit keeps what was admitted, as it is or in proportion.
    #[test]
    fn an_edit_keeps_what_was_admitted(
        quota in log(),
        limit in up_to(10_000),
        carry in prop_oneof![Just(Carry::AsIs), Just(Carry::Proportional)],
        start in start(),
        (before, after) in (any_steps(), any_steps()),
    ) {
        let limit = fitting(limit as u32, quota.window().get());
        let edited = LogQuota::new(limit, quota.window()).expect("a fitting limit");
        let mut run = run(quota, usize::MAX, start);
        run.steps(&before);
        let (mut log, mut model) = (run.real.log.clone(), run.model.clone());
        if carry == Carry::Proportional {
            log.scale(quota.limit(), limit);
            model = model.scaled(limit);
        }
        let real = Bounded { quota: edited, log, most: usize::MAX };
        run.edited(real, model.with_limit(limit), quota.window().get()).steps(&after);
    }
}
