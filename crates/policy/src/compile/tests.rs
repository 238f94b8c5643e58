//! What compiling refuses and warns of.

use crate::{Policy, Problem};

/// The problems of a policy, warnings included, as texts.
fn problems(text: &str) -> Vec<String> {
    let problems = match Policy::parse(&format!("version: 1\n{text}")) {
        Ok(policy) => policy.warnings,
        Err(error) => error.problems,
    };
    problems.iter().map(Problem::to_string).collect()
}

/// Its one problem.
fn problem(text: &str) -> String {
    let mut all = problems(text);
    assert_eq!(all.len(), 1, "{text}\n{all:#?}");
    all.remove(0)
}

#[test]
fn routes_name_upstreams_that_exist() {
    let upstreams = "upstreams: [{ name: openai, hosts: api.openai.com }, { name: off, enabled: false }]\n";
    assert_eq!(
        problems(&format!(
            "{upstreams}routes: [{{ path: /a, upstream: openai }}, {{ path: /b, upstream: off }}]"
        )),
        [""; 0]
    );
    let typo = problem(&format!("{upstreams}routes: [{{ path: /a, upstream: opnai }}]"));
    assert!(
        typo.starts_with("error: line 3, column 32: routes[0].upstream: `upstreams` has no `opnai`"),
        "{typo}"
    );
    assert!(typo.ends_with("did you mean `openai`?"), "{typo}");
    let none = problem("routes: [{ path: /a, upstream: openai }]");
    assert!(none.contains("hint: add `{ name: openai, hosts: […] }` to `upstreams`"), "{none}");
    let twice = problem("upstreams: [{ name: a }, { name: a }]");
    assert!(twice.contains("upstreams[1].name: the name `a` is already used on line 2"), "{twice}");
}

#[test]
fn a_condition_on_an_undeclared_upstream_is_suspicious() {
    let limit = "limits: [{ name: a, match: { upstream: opnai }, key: [], sustained: { rate: 1 } }]\n";
    assert_eq!(problems(limit), [""; 0], "without `upstreams` requests name theirs");
    let typo = problem(&format!("upstreams: [{{ name: openai }}]\n{limit}"));
    assert!(
        typo.starts_with("warning: ")
            && typo.contains("limits[0].match.upstream: `upstreams` has no `opnai`")
    );
    assert!(typo.ends_with("did you mean `openai`?"), "{typo}");
    let block = problem("upstreams: [{ name: openai }]\nblock: [{ upstream: opnai }]\n");
    assert!(block.contains("block[0].upstream: "), "{block}");
}

#[test]
fn hosts_that_are_none_are_answered_with_what_was_meant() {
    for (host, hint) in [
        ("https://api.openai.com/v1", "write it as `api.openai.com`"),
        ("api.openai.com:443", "write it as `api.openai.com`"),
        ("'*openai.com'", "write it as `*.openai.com`"),
        ("'api.*.com'", "write it as `*.com`"),
        (".openai.com", "write it as `openai.com`"),
        ("'*'", "limits without `upstream` apply to every host"),
    ] {
        let told = problem(&format!("upstreams: [{{ name: a, hosts: [{host}] }}]"));
        assert!(told.starts_with("error: line 2") && told.contains("upstreams[0].hosts[0]: "), "{told}");
        assert!(told.contains(hint), "{host}: {told}");
    }
}

#[test]
fn a_route_of_another_upstream_is_not_hidden() {
    let upstreams = "upstreams: [{ name: a }, { name: b }]\n";
    let of = |routes: &str| problems(&format!("{upstreams}routes: [{routes}]")).len();
    assert_eq!(of("{ path: /**, upstream: a }, { path: /x, upstream: b }, { path: /x }"), 0);
    assert_eq!(of("{ path: /**, upstream: a }, { path: /x, upstream: a }"), 1);
    assert_eq!(of("{ path: /** }, { path: /x, upstream: a }"), 1);
}

#[test]
fn a_burst_below_a_second_of_the_rate_is_told() {
    let of = |numbers: &str| problems(&format!("limits: [{{ name: l, key: [], sustained: {numbers} }}]"));
    assert_eq!(of("{ rate: 60, window: minute }, burst: { capacity: 20 }"), [""; 0]);
    assert_eq!(of("{ rate: 60, window: minute }, burst: { capacity: 1 }"), [""; 0]);
    assert_eq!(of("{ rate: 10, window: 100ms }"), [""; 0]);
    let told = of("{ rate: 20 }, burst: { capacity: 19 }");
    assert!(told.len() == 1 && told[0].contains("saw 20 per second, burst 19"), "{told:?}");
    assert_eq!(of("{ rate: 1200, window: minute }, burst: { capacity: 19 }").len(), 1);
    assert_eq!(of("{ rate: 10, window: 100ms }, burst: { capacity: 9 }").len(), 1);
}

#[test]
fn a_limit_that_a_request_without_key_evades_is_told() {
    let rate = "sustained: { rate: 5 }";
    let of = |limits: &str| problems(&format!("limits: [{limits}]"));
    let alone = of(&format!("{{ name: l, key: ['header:x-api-key'], {rate} }}"));
    let expected = "limits[0].key: `l` does not apply to requests without `header:x-api-key`";
    assert!(alone.len() == 1 && alone[0].contains(expected), "{alone:?}");
    assert!(alone[0].contains("`missing: shared`") && alone[0].contains("`missing: deny`"), "{alone:?}");
    let group = of(&format!(
        "{{ name: a, group: g, match: {{ plan: pro }}, key: [user], {rate} }}, {{ name: b, group: g, key: [user], {rate} }}"
    ));
    assert!(group.len() == 1 && group[0].contains("no limit of the group `g` applies to"), "{group:?}");
    for sound in [
        "{ name: l, key: [user], missing: skip, RATE }",
        "{ name: l, key: [user], missing: shared, RATE }",
        "{ name: l, key: [user], missing: deny, RATE }",
        "{ name: l, key: [user], mode: shadow, RATE }",
        "{ name: l, key: [user], enabled: false, RATE }",
        "{ name: l, key: [ip, route, method], RATE }",
        "{ name: l, key: ['descriptor:generic_key', domain], RATE }",
        "{ name: l, match: { plan: free }, key: [plan], RATE }",
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, key: [], RATE }",
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, key: [client], missing: shared, RATE }",
        "{ name: a, group: g, match: { path: /a/b }, key: [user], RATE }, { name: b, group: g, match: { path: /a/** }, key: [ip], RATE }",
        "{ name: a, key: [user], RATE }, { name: b, key: [ip], RATE }",
    ] {
        assert_eq!(of(&sound.replace("RATE", rate)), [""; 0], "{sound}");
    }
    for leaky in [
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, match: { path: /a }, key: [], RATE }",
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, unless: { path: /a }, key: [], RATE }",
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, mode: shadow, key: [], RATE }",
        "{ name: a, group: g, key: [user], RATE }, { name: b, group: g, key: [client], RATE }",
        "{ name: a, key: [user], RATE }, { name: b, key: [], RATE }",
    ] {
        assert_eq!(of(&leaky.replace("RATE", rate)).len(), 1, "{leaky}");
    }
}

#[test]
fn a_limit_without_its_key_does_not_hide_one_that_applies_without() {
    let of = |first: &str, second: &str| {
        let rate = "sustained: { rate: 5 }";
        problems(&format!(
            "limits: [{{ name: a, group: g, {first}, {rate} }}, {{ name: b, group: g, {second}, {rate} }}]"
        ))
    };
    assert_eq!(of("key: [user], missing: skip", "key: [user], missing: shared"), [""; 0]);
    let hidden = of("key: [user], missing: shared", "key: [ip]");
    assert!(hidden.len() == 1 && hidden[0].contains("never applies"), "{hidden:?}");
    assert_eq!(of("key: [user], missing: shared, unless: { plan: a }", "key: [ip]"), [""; 0]);
    assert_eq!(of("key: [], unless: { plan: a }", "key: [], unless: { plan: a }").len(), 1);
}

#[test]
fn costs_that_a_limit_never_holds_are_told() {
    let of = |limit: &str, route: &str| {
        problems(&format!(
            "limits: [{{ name: l, key: [], sustained: {{ rate: 5 }}, {limit} }}]\nroutes: [{{ path: /a/b, cost: 6, {route} }}]"
        ))
    };
    let told = of("enabled: true", "enabled: true");
    let expected = "routes[0].cost: costs 6, and the limit `l` holds at most 5";
    assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
    for (limit, route) in [
        ("burst: { capacity: 6 }", "enabled: true"),
        ("cost: { fixed: 1 }", "enabled: true"),
        ("cost: { from: 'header:x' }", "enabled: true"),
        ("match: { path: /a/c }", "enabled: true"),
        ("match: { path: /a/*/c }", "enabled: true"),
        ("match: { methods: GET }", "methods: POST"),
        ("match: { route: /a/c }", "enabled: true"),
        ("unless: { path: /a/** }", "enabled: true"),
        ("enabled: true", "enabled: false"),
    ] {
        assert_eq!(of(limit, route), [""; 0], "{limit} {route}");
    }
    for (limit, route) in [
        ("match: { path: ['/{x}/b', /q] }", "enabled: true"),
        ("match: { methods: [GET, POST] }", "methods: POST"),
        ("match: { route: /a/b }", "enabled: true"),
        ("match: { plan: free }", "enabled: true"),
        ("unless: { path: /a/**, plan: free }", "enabled: true"),
        ("algorithm: sliding_window", "enabled: true"),
        ("mode: shadow", "enabled: true"),
        ("strategy: degrade", "enabled: true"),
    ] {
        assert_eq!(of(limit, route).len(), 1, "{limit} {route}");
    }
    let own = problem("limits: [{ name: l, key: [], sustained: { rate: 5 }, cost: { fixed: 6 } }]");
    assert!(own.contains("limits[0].cost: a request costs 6, and the limit holds at most 5"), "{own}");
    let tenant = problem(
        "tenants: [{ id: t, rate_limit: { sustained: { rate: 5 } } }]\nroutes: [{ path: /a, cost: 6 }]",
    );
    assert!(tenant.contains("the limit `tenant:t` holds at most 5"), "{tenant}");
}

#[test]
fn ids_are_unique_in_their_list_and_are_no_condition() {
    let text =
        "routes: [{ id: a, path: /a }]\nallow: [{ id: a, ip: 10.0.0.1 }]\nblock: [{ id: a, ip: 10.0.0.2 }]";
    assert_eq!(problems(text), [""; 0]);
    let policy = Policy::parse(&format!("version: 1\n{text}")).unwrap();
    assert_eq!(policy.rules.block().entries()[0].conditions.len(), 1);
    for list in ["routes", "allow", "block"] {
        let (first, second) = match list {
            "routes" => ("path: /a", "path: /b"),
            _ => ("ip: 10.0.0.1", "ip: 10.0.0.2"),
        };
        let twice = problem(&format!("{list}: [{{ id: a, {first} }}, {{ id: a, {second} }}]"));
        assert!(twice.contains(&format!("{list}[1].id: the id `a` is already used on line 2")), "{twice}");
        let no_name = problem(&format!("{list}: [{{ id: a b, {first} }}]"));
        assert!(no_name.contains("for instance `a-b`"), "{no_name}");
        // An id alone would match every request.
        if list != "routes" {
            assert!(problem(&format!("{list}: [{{ id: a }}]")).contains("names no descriptor"));
        }
    }
}

#[test]
fn budgets_tell_what_their_children_are_allotted() {
    let policy = |ratio: &str, third: u32| {
        let text = format!(
            "version: 1\ntenants:\n\
             - {{ id: p, rate_limit: {{ sustained: {{ rate: 5000 }}, budget: {{ mode: allocated, total: 5000{ratio} }} }} }}\n\
             - {{ id: a, parent: p, rate_limit: {{ sustained: {{ rate: 2000 }} }} }}\n\
             - {{ id: b, parent: p, rate_limit: {{ sustained: {{ rate: 60000, window: minute }} }} }}\n\
             - {{ id: c, parent: p, rate_limit: {{ sustained: {{ rate: {third} }} }} }}\n"
        );
        let (document, _) = crate::read(&text);
        let (rules, _) = crate::compile(&document, tidegate_core::Nanos::ZERO);
        let told =
            rules.tenants().allocations("c").iter().map(|of| (of.tenant.to_owned(), of.allocation)).collect();
        let told: Vec<(String, crate::Allocation)> = told;
        let [(parent, allocation)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(parent, "p");
        (allocation.sum, allocation.total, allocation.left, allocation.is_exceeded)
    };
    assert_eq!(policy("", 1500), (4500, 5000, 500, false));
    assert_eq!(policy("", 3000), (6000, 5000, 0, true));
    assert_eq!(policy(", overcommit_ratio: 1.5", 3000), (6000, 5000, 1500, false));
    assert_eq!(policy(", overcommit_ratio: 1.5", 4501), (7501, 5000, 0, true));
}

#[test]
fn effective_numbers_tell_which_tenants_they_come_from() {
    let policy = Policy::parse(
        "version: 1\ntenants:\n\
         - { id: top, rate_limit: { sharing: inherit, sustained: { rate: 100 }, burst: { capacity: 10 } } }\n\
         - { id: shadow, parent: top, rate_limit: { sharing: inherit, sustained: { rate: 1 }, mode: shadow } }\n\
         - { id: mid, parent: shadow, rate_limit: { sharing: inherit, sustained: { rate: 3000, window: minute }, burst: { capacity: 900 } } }\n\
         - { id: low, parent: mid }\n\
         - { id: own, parent: mid, rate_limit: { sustained: { rate: 50 }, burst: { capacity: 9 } } }\n\
         - { id: free }\n",
    );
    let policy = policy.unwrap();
    let origins = |id| policy.rules.tenants().origins(id, None);
    assert_eq!(origins("low"), Some(("mid", "top")));
    assert_eq!(origins("own"), Some(("own", "own")), "of equal rates, the nearest counts");
    assert_eq!(origins("top"), Some(("top", "top")));
    assert_eq!((origins("free"), origins("nobody")), (None, None));
}
