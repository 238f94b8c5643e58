//! What is shown of the figures, and to whom.

use proptest::prelude::*;

use super::*;

fn node(millis: u64, allowed: u64, denied: &[u64]) -> FleetNode {
    let denied =
        denied.iter().enumerate().map(|(index, count)| (format!("reason-{index}"), *count)).collect();
    let figures = Figures { millis, allowed, denied, ..Figures::default() };
    FleetNode {
        report: tidegate_database::NodeReport::default(),
        figures: super::super::figures::NodeFigures { figures, ..Default::default() },
    }
}

proptest! {
    /// Over reasons and over nodes, however long the last second of each was.
    #[test]
    fn what_is_shown_adds_up(
        nodes in prop::collection::vec((1_u64..3_000, 0_u64..50, prop::collection::vec(0_u64..50, 0..4)), 0..5),
    ) {
        let nodes: Vec<FleetNode> =
            nodes.iter().map(|(millis, allowed, denied)| node(*millis, *allowed, denied)).collect();
        let caller = Principal::admin();
        let (rules, incomplete) = (RuleSet::default(), Incomplete::new());
        let fleet = FleetFigures::of(nodes, incomplete, &rules);
        let overview = shown_now(&fleet, &caller, &rules, Nanos::ZERO);
        let all = |rates: &mut dyn Iterator<Item = f64>| rates.map(|rate| (rate * 10.0).round()).sum::<f64>();
        let one = |rate: Option<f64>| (rate.expect("the caller sees all") * 10.0).round();
        let (decided, denied) = (one(overview.decisions_per_second), one(overview.denied_per_second));
        prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.decisions_per_second)), decided);
        prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.denied_per_second)), denied);
        prop_assert_eq!(all(&mut overview.denied_by_reason.values().copied()), denied);
        prop_assert_eq!(one(overview.allowed_per_second) + denied, decided);
    }
}

const POLICY: &str = "version: 1
limits: []
upstreams: [{ name: openai, hosts: [a.example] }]
tenants:
- id: acme
  rate_limit: { sharing: enforce, sustained: { rate: 90, window: minute }, budget: { mode: allocated, total: 90, remainder: shared } }
  upstreams: { openai: { rate_limit: { sustained: { rate: 9 } } } }
- { id: shop, parent: acme }
- { id: acme/openai2, rate_limit: { sustained: { rate: 9 } } }
- { id: other, rate_limit: { sustained: { rate: 9 } } }
";

fn rules() -> RuleSet {
    RuleSet::from(tidegate_policy::Policy::parse(POLICY).expect("a policy"))
}

fn restricted(tenant: &str) -> Principal {
    Principal { tenant: Some(tenant.into()), ..Principal::admin() }
}

fn figures(limits: &[(&str, u64)]) -> Figures {
    let limits = limits.iter().map(|(name, allowed)| {
        ((*name).to_owned(), LimitFigures { allowed: *allowed, ..LimitFigures::default() })
    });
    Figures { millis: 1_000, limits: limits.collect(), ..Figures::default() }
}

fn fleet(figures: Vec<Figures>, rules: &RuleSet) -> FleetFigures {
    let node = |figures| FleetNode {
        report: tidegate_database::NodeReport::default(),
        figures: super::super::figures::NodeFigures { figures, ..Default::default() },
    };
    FleetFigures::of(figures.into_iter().map(node).collect(), Incomplete::new(), rules)
}

fn names(overview: &Overview) -> Vec<&str> {
    overview.limits.iter().map(|limit| &*limit.name).collect()
}

#[test]
fn a_partner_sees_all_kinds_of_its_limits_and_nobody_elses() {
    let rules = rules();
    let all = [
        "tenant:acme",
        "tenant:acme/openai",
        "tenant:acme:remainder",
        "tenant:shop",
        "tenant:acme/openai2",
        "tenant:other",
        "tenant:gone",
        "per-user",
    ];
    let all: Vec<(&str, u64)> = all.into_iter().zip((1..=8).rev()).collect();
    let fleet = fleet(vec![figures(&all)], &rules);
    let hour = Hour {
        steps: vec![HistoryStep { number: 7, figures: figures(&all) }],
        incomplete: Incomplete::new(),
    };
    for (tenant, expected) in [
        ("acme", &["tenant:acme", "tenant:acme/openai", "tenant:acme:remainder", "tenant:shop"][..]),
        ("shop", &["tenant:shop"]),
        ("other", &["tenant:other"]),
        ("acme/openai2", &["tenant:acme/openai2"]),
        ("gone", &[]),
    ] {
        let caller = restricted(tenant);
        let overview = shown_now(&fleet, &caller, &rules, Nanos::ZERO);
        assert_eq!(names(&overview), expected, "{tenant}");
        assert!(overview.other_limits.is_none() && overview.incomplete.is_empty(), "{tenant}");
        let history = shown_hour(&hour, &caller, &rules);
        assert!(history.steps[0].limits.keys().eq(expected), "{tenant}");
        assert!(history.steps[0].other_limits.is_none() && history.incomplete.is_empty(), "{tenant}");
    }
}

#[test]
fn what_is_not_named_is_summed_and_a_partner_is_told_that_something_may_be_missing() {
    let rules = rules();
    let many: Vec<(String, u64)> = (0..60).map(|number| (format!("l{number}"), 10)).collect();
    let many: Vec<(&str, u64)> = many.iter().map(|(name, count)| (&**name, *count)).collect();
    let (one, mut other) = (figures(&many), figures(&[("l1", 5)]));
    (other.other_limits.allowed, other.others_at_most) = (3, 2);
    let fleet = fleet(vec![one.clone(), other], &rules);
    let whole = shown_now(&fleet, &Principal::admin(), &rules, Nanos::ZERO);
    let others = whole.other_limits.expect("there are more than are named");
    assert_eq!((whole.limits.len(), others.allowed_per_second), (50, 10.0 * 10.0 + 3.0));
    assert_eq!((&*whole.limits[0].name, whole.limits[0].error_per_second), ("l1", None));
    assert_eq!(whole.limits[1].error_per_second, Some(2.0));
    assert!(whole.incomplete.is_empty(), "the sum says it");
    let partner = shown_now(&fleet, &restricted("acme"), &rules, Nanos::ZERO);
    assert!(partner.limits.is_empty() && partner.other_limits.is_none());
    assert!(partner.incomplete.contains_key("limits"), "an empty list would say that nothing was decided");
    let step = HistoryStep { number: 7, figures: one };
    let hour = Hour { steps: vec![step], incomplete: Incomplete::new() };
    let step = &shown_hour(&hour, &Principal::admin(), &rules).steps[0];
    assert_eq!((step.limits.len(), step.other_limits.map(|others| others.allowed)), (50, Some(100)));
}
