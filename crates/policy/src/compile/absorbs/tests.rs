//! What `absorbs` makes `validate` warn of.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Policy, Problem, Request, Strategy as LimitStrategy};

/// The problems of a policy, warnings included, as texts.
fn problems(text: &str) -> Vec<String> {
    let problems = match Policy::parse(&format!("version: 1\n{text}")) {
        Ok(policy) => policy.warnings,
        Err(error) => error.problems,
    };
    problems.iter().map(Problem::to_string).collect()
}

#[test]
fn more_than_an_upstream_absorbs_is_told() {
    let of = |limits: &str| {
        problems(&format!(
            "upstreams: [{{ name: a, absorbs: {{ rate: 10, burst: 20 }} }}]\nlimits: [{limits}]"
        ))
    };
    let within = "sustained: { rate: 600, window: minute }, burst: { capacity: 20 }";
    assert_eq!(of(&format!("{{ name: l, key: [], {within} }}")), [""; 0]);
    assert_eq!(
        of(&format!("{{ name: l, match: {{ upstream: [a, b] }}, key: [], {within} }}")).len(),
        1,
        "b alone"
    );
    for (limit, reaching) in [
        (format!("name: l, key: [user], missing: shared, {within}"), "any number of requests"),
        (format!("name: l, match: {{ path: /a }}, key: [], {within}"), "any number of requests"),
        (format!("name: l, mode: shadow, key: [], {within}"), "any number of requests"),
        (format!("name: l, strategy: degrade, key: [], {within}"), "any number of requests"),
        (
            "name: l, key: [], sustained: { rate: 11 }, burst: { capacity: 20 }".into(),
            "20 requests at once and 11 a second",
        ),
        (
            "name: l, key: [], sustained: { rate: 10 }, burst: { capacity: 21 }".into(),
            "21 requests at once and 10 a second",
        ),
        (
            "name: l, key: [], algorithm: fixed_window, sustained: { rate: 11, window: 2s }".into(),
            "22 requests at once and 6 a second",
        ),
    ] {
        let told = of(&format!("{{ {limit} }}"));
        let expected = format!("{reaching} can reach `a`, which absorbs 20 at once and 10 a second");
        assert!(told.len() == 1 && told[0].contains(&expected), "{limit}: {told:?}");
    }
    assert_eq!(problems("upstreams: [{ name: a, absorbs: { rate: 10 } }]").len(), 1, "no limit at all");
}

/// The warnings about a limit that says `absorbs: { rate: 10, burst: 20 }`, beside other limits.
fn of_limit(limit: &str, others: &str) -> Vec<String> {
    problems(&format!("limits: [{{ name: l, {limit}, absorbs: {{ rate: 10, burst: 20 }} }}, {others}]"))
}

/// Within `rate: 10, burst: 20`.
const WITHIN: &str = "sustained: { rate: 10 }, burst: { capacity: 20 }";

#[test]
fn more_than_what_is_behind_a_limit_absorbs_is_told() {
    assert_eq!(of_limit(&format!("match: {{ path: /a }}, key: [], {WITHIN}"), ""), [""; 0]);
    for (limit, reaching) in [
        ("key: [], sustained: { rate: 10 }, burst: { capacity: 21 }", "21 requests at once and 10 a second"),
        ("key: [], sustained: { rate: 11 }, burst: { capacity: 20 }", "20 requests at once and 11 a second"),
        (&format!("key: [ip], {WITHIN}"), "any number of requests"),
        (&format!("key: [], mode: shadow, {WITHIN}"), "any number of requests"),
        (&format!("key: [], strategy: degrade, {WITHIN}"), "any number of requests"),
    ] {
        let told = of_limit(limit, "");
        let expected =
            format!("{reaching} can reach what is behind `l`, which absorbs 20 at once and 10 a second");
        assert!(told.len() == 1 && told[0].contains(&expected), "{limit}: {told:?}");
        assert!(told[0].contains("limits[0].absorbs") && told[0].contains("`key: [], "), "{limit}: {told:?}");
    }
    let keyed = of_limit(&format!("key: [ip], {WITHIN}"), "");
    assert!(keyed[0].contains("a bucket for each key, and they add up"), "{keyed:?}");
    let off = format!("enabled: false, key: [ip], {WITHIN}");
    assert_eq!(of_limit(&off, ""), [""; 0], "a limit that is switched off says nothing");
}

#[test]
fn a_limit_with_the_same_or_fewer_conditions_bounds_another() {
    let keyed = format!("match: {{ path: /a/**, plan: free }}, key: [ip], {WITHIN}");
    let total = |conditions: &str| format!("{{ name: total, {conditions} key: [], {WITHIN} }}");
    for conditions in ["", "match: { path: /a/** },", "match: { plan: [free, pro], path: '/**' },"] {
        assert_eq!(of_limit(&keyed, &total(conditions)), [""; 0], "{conditions}");
    }
    for conditions in ["match: { path: /a/b },", "match: { plan: pro },", "unless: { path: /a/b },"] {
        assert_eq!(of_limit(&keyed, &total(conditions)).len(), 1, "{conditions}");
    }
    let same = format!("unless: {{ path: /x }}, key: [ip], {WITHIN}");
    assert_eq!(of_limit(&same, &total("unless: { path: /x },")), [""; 0], "the same requests are left out");
}

#[test]
fn limits_that_share_the_requests_are_added_up() {
    let part = |name: &str, plan: &str, capacity: u32| {
        format!(
            "{{ name: {name}, group: g, match: {{ plan: {plan} }}, key: [], sustained: {{ rate: 3 }}, burst: {{ capacity: \
             {capacity} }} }}"
        )
    };
    let rest = |capacity: u32| {
        format!(
            "{{ name: rest, group: g, key: [], sustained: {{ rate: 3 }}, burst: {{ capacity: {capacity} }}, absorbs: {{ \
             rate: 9, burst: 20 }} }}"
        )
    };
    let of = |limits: &[String]| problems(&format!("limits: [{}]", limits.join(", ")));
    assert_eq!(of(&[part("a", "free", 5), part("b", "pro", 5), rest(10)]), [""; 0]);
    let more = of(&[part("a", "free", 5), part("b", "pro", 6), rest(10)]);
    assert!(more.len() == 1 && more[0].contains("21 requests at once and 9 a second"), "{more:?}");
    // A limit by plan has as many buckets as it names plans.
    let plans = |plans: &str| {
        of_limit(
            &format!(
                "match: {{ plan: [{plans}] }}, key: [plan], sustained: {{ rate: 5 }}, burst: {{ capacity: 10 }}"
            ),
            "",
        )
    };
    assert_eq!(plans("a, b"), [""; 0]);
    let three = plans("a, b, c");
    assert!(three.len() == 1 && three[0].contains("30 requests at once and 15 a second"), "{three:?}");
    // Rates that are thirds of a second add up to whole ones.
    let thirds = "match: { plan: [a, b, c] }, key: [plan], sustained: { rate: 200, window: minute }, burst: { capacity: 6 }";
    assert_eq!(of_limit(thirds, ""), [""; 0]);
}

#[test]
fn of_a_group_only_the_limits_for_the_same_upstream_count() {
    let of = |first: &str| {
        problems(&format!(
            "upstreams: [{{ name: a }}, {{ name: b, absorbs: {{ rate: 10, burst: 20 }} }}]\nlimits: [{{ name: first, group: g, \
             match: {{ upstream: {first} }}, key: [], sustained: {{ rate: 99 }} }}, {{ name: rest, group: g, key: [], {WITHIN} }}]"
        ))
    };
    assert_eq!(of("a"), [""; 0]);
    let told = of("b");
    assert!(told.len() == 1 && told[0].contains("99 requests at once and 99 a second"), "{told:?}");
    // A bucket for each upstream is one for this upstream.
    let keyed = format!(
        "upstreams: [{{ name: a, absorbs: {{ rate: 10, burst: 20 }} }}]\nlimits: [{{ name: l, key: [upstream], missing: skip, {WITHIN} }}]"
    );
    assert_eq!(problems(&keyed), [""; 0]);
}

#[test]
fn a_budget_that_every_request_is_charged_to_bounds_too() {
    let of = |defaults: &str, budget: &str, more: &str| {
        problems(&format!(
            "defaults: {{ {defaults} }}\nupstreams: [{{ name: a, absorbs: {{ rate: 10, burst: 20 }} }}]\ntenants: [{{ id: root, \
             rate_limit: {{ sharing: inherit, {WITHIN}, budget: {{ mode: {budget} }} }} }}, {{ id: x, parent: root }}{more}]"
        ))
    };
    let all = "tenant: x, unknown_tenant: deny";
    assert_eq!(of(all, "shared", ""), [""; 0]);
    assert_eq!(of("tenant: x", "shared", ", { id: '*', parent: root }"), [""; 0], "nobody is unknown");
    for (defaults, budget, more, why) in [
        ("tenant: x", "shared", "", "an unknown tenant is charged to none"),
        ("unknown_tenant: deny", "shared", "", "a request without a tenant is charged to none"),
        (all, "shared", ", { id: y }", "a root without a limit"),
        (
            "tenant: x",
            "unlimited",
            ", { id: '*', parent: root }",
            "each unlisted tenant has a bucket of its own",
        ),
    ] {
        let told = of(defaults, budget, more);
        assert!(told.len() == 1 && told[0].contains("any number of requests"), "{why}: {told:?}");
    }
    let two = of(all, "shared", &format!(", {{ id: y, rate_limit: {{ {WITHIN} }} }}"));
    assert!(two.len() == 1 && two[0].contains("40 requests at once and 20 a second"), "{two:?}");
    // Without a budget a parent is no bucket for all below: both tenants have their own.
    let each = of(all, "unlimited", "");
    assert!(each.len() == 1 && each[0].contains("40 requests at once and 20 a second"), "{each:?}");
}

/// A random limit, without its name.
fn limit() -> impl Strategy<Value = String> {
    let condition = || {
        prop::sample::select(vec![
            "",
            "plan: p",
            "plan: [p, q]",
            "upstream: a",
            "user: u",
            "path: /x/**",
            "tenant: t",
        ])
    };
    let key = prop::sample::select(vec!["", "plan", "user", "upstream", "tenant", "plan, user"]);
    let more = prop::sample::select(vec![
        "",
        "",
        "",
        "",
        "missing: shared, ",
        "missing: deny, ",
        "mode: shadow, ",
        "strategy: degrade, ",
    ]);
    let group = prop::sample::select(vec!["", "", "group: g, ", "group: h, "]);
    (condition(), condition(), key, more, group, 1..12_u32).prop_map(|(when, unless, key, more, group, burst)| {
        format!(
            "{group}{more}match: {{ {when} }}, {} key: [{key}], sustained: {{ rate: 1 }}, burst: {{ capacity: {burst} }}",
            if unless.is_empty() { String::new() } else { format!("unless: {{ {unless} }},") },
        )
    })
}

/// Every request of a small world.
fn requests() -> Vec<Request<'static>> {
    let mut all = Vec::new();
    for plan in [None, Some("p"), Some("q")] {
        for upstream in [None, Some("a"), Some("b")] {
            for user in [None, Some("u"), Some("v")] {
                for (tenant, path) in
                    [(None, "/x/y"), (Some("t"), "/z"), (Some("s"), "/x/y"), (Some("n"), "/x/y")]
                {
                    all.push(Request {
                        plan: plan.map(Into::into),
                        upstream: upstream.map(Into::into),
                        user: user.map(Into::into),
                        tenant: tenant.map(Into::into),
                        path: Some(path.into()),
                        ..Request::default()
                    });
                }
            }
        }
    }
    all
}

/// How many of a flood of requests are admitted at one instant, of those that `counts` selects.
fn admitted(policy: &Policy, counts: impl Fn(&Request<'_>) -> bool) -> u64 {
    let (rules, mut taken, mut admitted) = (&policy.rules, HashMap::<(u32, Vec<u8>), u32>::new(), 0);
    for request in requests().iter().cycle().take(40 * requests().len()) {
        let plan = rules.plan(&rules.facts(request));
        let is_lacking = plan.lacking().iter().any(|&rule| !rules.rule(rule).is_shadow());
        let is_unknown = plan.unknown_tenant && rules.denies_unknown_tenants();
        let is_full = plan.items().iter().any(|item| {
            let rule = rules.rule(item.rule);
            let used = taken.get(&(item.rule, plan.key(item).to_vec())).copied().unwrap_or_default();
            let denies = !rule.is_shadow() && !matches!(rule.strategy, LimitStrategy::Degrade { .. });
            denies && used >= rule.numbers.capacity
        });
        if is_lacking || is_unknown || is_full {
            continue;
        }
        for item in plan.items() {
            *taken.entry((item.rule, plan.key(item).to_vec())).or_default() += 1;
        }
        admitted += u64::from(counts(request));
    }
    admitted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Where nothing is told, a flood does not exceed what a service absorbs.
    #[test]
    fn what_is_not_told_is_absorbed(
        limits in vec(limit(), 1..5),
        burst in 1..30_u64,
        tenants in prop::sample::select(vec![
            "",
            "tenants: [{ id: t, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 7 } } }, { id: s, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 3 } } }]\n",
            "tenants: [{ id: r, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 9 }, sharing: inherit, budget: { mode: shared } } }, { id: t, parent: r }, { id: s, parent: r, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 2 }, scope: user } }, { id: '*', parent: r }]\n",
        ]),
        defaults in prop::sample::select(vec!["", "tenant: t, ", "tenant: t, unknown_tenant: deny, "]),
    ) {
        let absorbs = format!("absorbs: {{ rate: 1000, burst: {burst} }}");
        let limits: Vec<String> =
            limits.iter().enumerate().map(|(n, limit)| format!("{{ name: l{n}, {limit}, {absorbs} }}")).collect();
        let text = format!(
            "version: 1\ndefaults: {{ {defaults} }}\n{tenants}upstreams: [{{ name: a, {absorbs} }}]\nlimits: [{}]\n",
            limits.join(", ")
        );
        let policy = Policy::parse(&text);
        prop_assume!(policy.is_ok() || defaults.is_empty() || !tenants.is_empty());
        let policy = policy.map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let is_told = |path: &str| policy.warnings.iter().any(|warning| warning.path == path);
        if !is_told("upstreams[0].absorbs") {
            let count = admitted(&policy, |request| request.upstream.as_deref() == Some("a"));
            prop_assert!(count <= burst, "{count} reach the upstream: {text}");
        }
        for (number, rule) in policy.rules.limits().iter().enumerate() {
            if !is_told(&format!("limits[{number}].absorbs")) {
                let count = admitted(&policy, |request| rule.matches(&policy.rules.facts(request)));
                prop_assert!(count <= burst, "{count} reach what is behind limit {number}: {text}");
            }
        }
    }
}
