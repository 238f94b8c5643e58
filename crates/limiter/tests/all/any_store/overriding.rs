//! Overrides: which numbers decide, and what a decision says of it.

use std::sync::Arc;

use tidegate::engine::{
    Decision, GateBuilder, Joint, JointBy, OverrideRule, OverrideUse, Overrides, PolicyBuilder, Request,
    RuleSet, Trust,
};
use tidegate::{LimitError, Nanos, OverrideNumbers, Rate};

use super::flaky::{NOT_COUNTED, World, run, user};

/// An override of a limit for requests with this value.
fn overridden(id: &str, limit: &str, who: (&str, &str), numbers: OverrideNumbers) -> OverrideRule {
    let gate = GateBuilder::new().when(who.0, [who.1]).reason("a test");
    let rules: RuleSet = PolicyBuilder::new().block_gate(gate).build().expect("a policy").into();
    OverrideRule::new(id, limit, numbers, rules.block().entries()[0].clone(), Arc::default())
}

impl World {
    /// Puts an override in force, and returns the record of its use.
    fn overrides(&self, rules: impl IntoIterator<Item = OverrideRule>) -> Vec<Arc<OverrideUse>> {
        let rules: Vec<OverrideRule> = rules.into_iter().collect();
        let uses = rules.iter().map(|rule| Arc::clone(rule.use_record())).collect();
        self.limiter.set_overrides(Some(Overrides::new(rules)));
        uses
    }
}

/// Of each limit its name, its numbers and the override.
fn shown(decision: &Decision) -> Vec<(String, u32, Option<String>)> {
    let one = |limit: tidegate::engine::LimitStanding<'_>| {
        let id = limit.overridden.map(|overridden| overridden.id.to_string());
        (limit.rule.name.to_string(), limit.decision.limit, id)
    };
    decision.limits().map(one).collect()
}

fn one(name: &str, limit: u32, id: Option<&str>) -> Vec<(String, u32, Option<String>)> {
    vec![(name.to_owned(), limit, id.map(str::to_owned))]
}

fn times(hundredths: u16) -> OverrideNumbers {
    OverrideNumbers::Times(hundredths)
}

fn trusted(name: &str, hundredths: u8) -> Request<'_> {
    user(name).trust(Trust::from_hundredths(hundredths).expect("at most a hundred"))
}

/// The bucket of a child that enforces what its ancestors say is all that enforces them: an override of one of them does not
/// loosen the others.
#[test]
fn ancestors_bind_where_a_bucket_of_its_own_enforces_them() {
    let tenants = |grandparent: &str| {
        World::new(&format!(
            "version: 1\nlimits: []\ntenants:\n\
             - {{ id: top, rate_limit: {{ sharing: enforce, {grandparent} }} }}\n\
             - {{ id: mid, parent: top, rate_limit: {{ sharing: enforce, sustained: {{ rate: 50, window: minute }} }} }}\n\
             - {{ id: leaf, parent: mid, rate_limit: {{ scope: user, sustained: {{ rate: 40, window: minute }} }} }}\n"
        ))
    };
    let leaf = user("1").tenant("leaf");
    let raised = || overridden("o", "tenant:mid", ("tenant", "leaf"), times(1_000));
    let mid = |world: &World| {
        let shown = shown(&world.check(&leaf));
        shown.into_iter().find(|(name, ..)| name == "tenant:mid").expect("it is enforced")
    };
    let world = tenants("sustained: { rate: 100, window: minute }");
    assert_eq!(mid(&world), ("tenant:mid".into(), 50, None));
    world.overrides([raised()]);
    assert_eq!(mid(&world), ("tenant:mid".into(), 100, Some("o".into())), "`top` has a hundred");
    // What does not bind is no ceiling.
    let world = tenants("mode: shadow, sustained: { rate: 100, window: minute }");
    world.overrides([raised()]);
    assert_eq!(mid(&world), ("tenant:mid".into(), 500, Some("o".into())));
}

/// A log holds at most 10,000: three times 4,000 are too many only for those with more trust.
#[test]
fn numbers_that_trust_makes_too_large_count_without_it() {
    let world = World::new(
        "version: 1\nadaptive: { trust: true }\nlimits:\n- { name: logged, key: [user], algorithm: sliding_log, sustained: \
         { rate: 4000, window: hour } }\n",
    );
    let [used] = &*world.overrides([overridden("o", "logged", ("plan", "pro"), times(200))]) else {
        panic!()
    };
    let limit = |trust| shown(&world.check(&trusted("1", trust).plan("pro")));
    assert_eq!(limit(0), one("logged", 8_000, Some("o")));
    assert_eq!(limit(20), one("logged", 9_600, Some("o")));
    assert_eq!(
        limit(30),
        one("logged", 8_000, Some("o")),
        "10,400 are too many, and 5,200 are not what was granted"
    );
    assert!(!used.is_refused());
}

#[test]
fn a_store_that_cannot_count_an_override_counts_it_without_trust_or_not_at_all() {
    let world = World::new(
        "version: 1\nadaptive: { trust: true }\nlimits: [{ name: a, key: [user], sustained: { rate: 50, window: hour } }]\n",
    );
    let [used] = &*world.overrides([overridden("o", "a", ("plan", "pro"), times(110))]) else { panic!() };
    let limit = |trust| shown(&world.check(&trusted("1", trust).plan("pro")));
    assert_eq!(55 * 140 / 100, NOT_COUNTED);
    assert_eq!([limit(0), limit(40), limit(100)], [55, 55, 110].map(|limit| one("a", limit, Some("o"))));
    assert!(!used.is_refused() && used.last_used().is_some());
    world.limiter.check_override("a", times(110), 1).expect("it can be counted");

    let odd = times(154);
    let refused = world.limiter.check_override("a", odd, 1).expect_err("77 cannot be counted");
    assert!(matches!(refused, LimitError::NotShared { .. }), "{refused}");
    let [used] = &*world.overrides([overridden("o", "a", ("plan", "pro"), odd)]) else { panic!() };
    assert_eq!(limit(0), one("a", 50, None), "the limit itself decides");
    assert!(used.is_refused() && used.last_used().is_none());
}

/// While the store fails, each of ten nodes has at least one of what an override counts.
#[test]
fn a_share_of_an_override_is_at_least_one() {
    let world = World::new(
        "version: 1\nlimits:\n- { name: a, key: [user], algorithm: fixed_window, sustained: { rate: 30, window: minute } }\n",
    );
    let rate = Rate::new(5, Nanos::MINUTE).expect("in range");
    world.overrides([overridden(
        "o",
        "a",
        ("user", "1"),
        OverrideNumbers::Fixed { rate: Some(rate), capacity: None },
    )]);
    assert_eq!(shown(&world.check(&user("1"))), one("a", 5, Some("o")));
    world.store().set_nodes(10);
    world.store().fail(true);
    assert_eq!(shown(&world.check(&user("1"))), one("a", 1, Some("o")), "not the three of the limit itself");
    assert_eq!(shown(&world.check(&user("2"))), one("a", 3, None));
}

/// Nodes that share nothing have their share of every limit, and of what overrides it.
#[test]
fn an_override_is_divided_among_nodes_as_limits_are() {
    for algorithm in ["token_bucket", "sliding_window", "fixed_window", "sliding_log"] {
        let world = World::new(&format!(
            "version: 1\nlimits: [{{ name: a, key: [user], algorithm: {algorithm}, sustained: {{ rate: 4, window: second }} }}]\n"
        ));
        for (tokens, nodes, share) in [(40, 4, 10), (3, 4, 1), (7, 2, 3)] {
            let rate = Rate::new(tokens, Nanos::SECOND).expect("in range");
            let capacity = (algorithm == "token_bucket").then_some(tokens as u32);
            let numbers = OverrideNumbers::Fixed { rate: Some(rate), capacity };
            world.limiter.check_override("a", numbers, nodes).expect("it can be counted");
            world.overrides([overridden("o", "a", ("user", "1"), numbers).divided(nodes)]);
            assert_eq!(shown(&world.check(&user("1"))), one("a", share, Some("o")), "{algorithm}");
        }
    }
}

/// Of requests that charge one bucket the one with the smallest numbers counts, whichever comes first.
#[test]
fn the_order_of_joint_requests_does_not_choose_the_numbers() {
    let requests = [user("1").plan("pro"), user("1").plan("free"), user("1").plan("slow")];
    let world = World::new(
        "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 10, window: minute } }]\n",
    );
    world.overrides([
        overridden("large", "a", ("plan", "pro"), times(300)),
        overridden("small", "a", ("plan", "slow"), times(50)),
    ]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let joint: Vec<Joint<'_, '_>> =
            order.iter().map(|&index| Joint { request: &requests[index], by: JointBy::Policy }).collect();
        let decided = run(world.limiter.check_joint_async(&joint)).expect("no ad hoc bucket");
        for (decision, index) in decided.decisions.iter().zip(order) {
            let id = (index == 2).then_some("small");
            assert_eq!(shown(decision), one("a", 5, id), "{order:?}: what was charged is shown");
        }
        world.clock.advance(Nanos::HOUR);
    }
}
