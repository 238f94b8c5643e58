//! Whatever waits, leaves or is late: over the instants at which requests are admitted, no limit admits more
//! than *B + R·t*, tenants are served round-robin, and every request is answered.

use proptest::prelude::*;

use super::world::{Asker, Step, Terms, World};

/// For these a nanosecond is a whole number of ticks, so that the bound is exact in nanoseconds.
const RATES: std::ops::Range<u64> = 1..7;

fn queue(rate: u64, capacity: u64, max_wait: u64) -> Terms {
    let queue = Some((100, max_wait));
    Terms { name: "jobs", by_user: false, rate, window_secs: 1, capacity, cost: 1, queue }
}

fn of(tenant: &'static str, cost: u32) -> Asker {
    Asker { tenant, user: "1", priority: 50, cost }
}

fn run(terms: &[Terms], steps: &[Step]) {
    let mut world = World::new(terms);
    steps.iter().for_each(|step| world.step(step));
    world.close();
}

#[test]
fn what_is_saved_for_a_large_cost_is_not_let_go_in_a_bunch() {
    let mut steps = vec![Step::Check(of("", 5))];
    steps.extend([(); 5].map(|()| Step::Admit(of("a", 1))));
    steps.push(Step::Admit(of("b", 5)));
    run(&[queue(1, 5, 60_000)], &steps);
}

#[test]
fn what_those_leave_who_hang_up_is_not_let_go_in_a_bunch() {
    let mut steps = vec![Step::Check(of("", 5))];
    steps.extend([(); 4].map(|()| Step::Admit(of("", 1))));
    steps.push(Step::Admit(of("", 5)));
    steps.extend([(); 4].map(|()| Step::Admit(of("", 1))));
    steps.extend([(); 4].map(|()| Step::Leave(0)));
    run(&[queue(1, 5, 60_000)], &steps);
}

fn asker() -> impl Strategy<Value = Asker> {
    let tenant = prop::sample::select(vec!["", "a", "b", "c"]);
    let cost = prop_oneof![3 => Just(1), 2 => 1_u32..6];
    let priority = prop::sample::select(vec![50, 50, 0, 90]);
    (tenant, prop::sample::select(vec!["1", "2"]), priority, cost)
        .prop_map(|(tenant, user, priority, cost)| Asker { tenant, user, priority, cost })
}

fn step(is_prompt: bool) -> impl Strategy<Value = Step> {
    let late = if is_prompt { 0 } else { 2 };
    let millis = || prop_oneof![Just(1_000), 0_u64..400, 0_u64..4_000];
    prop_oneof![
        8 => asker().prop_map(Step::Admit),
        3 => asker().prop_map(Step::Check),
        3 => (0_usize..20).prop_map(Step::Leave),
        6 => millis().prop_map(Step::Wait),
        1 => Just(Step::Swap),
        late => (0_usize..20).prop_map(Step::Doze),
        late => millis().prop_map(Step::Jump),
    ]
}

fn terms(name: &'static str, always_queues: bool) -> impl Strategy<Value = Terms> {
    let queue = (1_usize..12, prop_oneof![Just(3_000_u64), Just(20_000)]);
    let rejects = if always_queues { 0 } else { 1 };
    let queue = prop_oneof![2 => queue.prop_map(Some), rejects => Just(None)];
    (any::<bool>(), RATES, 1_u64..4, 1_u64..9, 1_u64..3, queue).prop_map(
        move |(by_user, rate, window_secs, capacity, cost, queue)| Terms {
            name,
            by_user,
            rate,
            window_secs,
            capacity,
            cost,
            queue,
        },
    )
}

fn steps(is_prompt: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(is_prompt), 1..60)
}

proptest! {
    #[test]
    fn one_limit_holds_whoever_waits(
        one in terms("one", true), steps in any::<bool>().prop_flat_map(steps),
    ) {
        run(&[one], &steps);
    }

    #[test]
    fn several_limits_hold_whoever_waits(
        one in terms("one", true), two in terms("two", false), three in terms("three", false),
        is_three in any::<bool>(), steps in any::<bool>().prop_flat_map(steps),
    ) {
        let all = [one, two, three];
        run(if is_three { &all } else { &all[..2] }, &steps);
    }

    /// Nodes that share a store do not know each other's queues.
    #[test]
    fn all_limits_hold_on_two_nodes(
        one in terms("one", true), two in terms("two", false), is_two in any::<bool>(), steps in steps(true),
    ) {
        let all = [one, two];
        let mut world = World::of_nodes(2, if is_two { &all } else { &all[..1] });
        steps.iter().for_each(|step| world.step(step));
        world.close();
    }

    /// A request that waits while its limit is edited is still answered in time.
    #[test]
    fn nobody_is_stuck_when_a_limit_is_edited(
        one in terms("one", true),
        steps in prop::collection::vec(prop_oneof![8 => step(true), 1 => Just(Step::Edit)], 1..60),
    ) {
        run(&[one], &steps);
    }

    /// Places with a fixed instant and waiting requests, in one bucket.
    #[test]
    fn one_limit_holds_with_places_that_were_told(
        one in terms("one", true),
        steps in prop::collection::vec(
            prop_oneof![4 => step(false), 1 => asker().prop_map(Step::TakePlace)], 1..60),
    ) {
        run(&[one], &steps);
    }

    /// Without tenants, and if none leaves, every request is admitted after the wait that a check returned on
    /// its arrival.
    #[test]
    fn who_comes_first_waits_as_long_as_it_was_told(
        rate in RATES, capacity in 1_u64..9, costs in prop::collection::vec((1_u32..6, 0_u64..3_000), 1..30),
    ) {
        let mut world = World::new(&[queue(rate, capacity, 3_600_000)]);
        for (cost, pause) in costs {
            world.step(&Step::Admit(of("", cost)));
            world.step(&Step::Wait(pause));
        }
        world.close();
        prop_assert!(world.is_as_told());
    }
}
