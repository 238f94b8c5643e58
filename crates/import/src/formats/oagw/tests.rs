use crate::ImportFormat;
use crate::tests;

fn imported(text: &str) -> (String, String) {
    tests::imported(ImportFormat::Oagw, text)
}

fn refused(text: &str) -> String {
    tests::refused(ImportFormat::Oagw, text)
}

#[test]
fn the_three_shapes_say_the_same() {
    for text in [
        "{ rate: 100, capacity: 500 }",
        "{ tokens_per_second: 100, bucket_capacity: 500, algorithm: token_bucket, scope: tenant }",
        "rate_limit: { sustained: { rate: 100, window: second }, burst: { capacity: 500 }, strategy: reject }",
        "[ { rate_limit: { sustained: { rate: 100 }, burst: { capacity: 500 }, cost: 1 } } ]",
    ] {
        let (policy, notes) = imported(text);
        let want = "version: 1\nlimits:\n  - name: rate-limit\n    key: [tenant]\n    \
                    sustained: { rate: 100, window: second }\n    burst: { capacity: 500 }\n";
        assert_eq!((policy.as_str(), notes.as_str()), (want, ""), "{text}");
    }
}

#[test]
fn the_capacity_is_the_rate_unless_written() {
    let (policy, _) = imported("{ rate: 1000, window: minute, scope: global }");
    assert!(policy.contains("scope: global\n    sustained: { rate: 1000, window: minute }\n"), "{policy}");
    assert!(!policy.contains("burst"), "{policy}");
    let (policy, notes) = imported("{ tokens_per_second: 2.5 }");
    assert!(policy.contains("{ rate: 25, window: 10s }\n    burst: { capacity: 2 }"), "{policy}");
    assert!(notes.contains("the capacity becomes 2"), "{notes}");
}

#[test]
fn everything_a_limit_can_say_comes_over() {
    let (policy, notes) = imported(
        "rate_limit:
  algorithm: sliding_window
  sustained: { rate: 5, window: hour }
  burst: { capacity: 50 }
  scope: user
  cost: 3
  response_headers: false
  strategy: queue
  queue: { max_depth: 10, timeout: 2s, ordering: fifo }
",
    );
    for line in [
        "key: [user]",
        "algorithm: sliding_window",
        "sustained: { rate: 5, window: hour }",
        "cost: 3",
        "strategy: queue",
        "queue: { max_depth: 10, max_wait: \"2s\" }",
        "response_headers: false",
    ] {
        let line = line.replace("\"2s\"", "2s");
        assert!(policy.contains(&format!("    {line}\n")), "{line}\n{policy}");
    }
    assert!(!policy.contains("burst"), "{policy}");
    assert!(notes.contains("the burst is left out") && notes.contains("`ordering` is left out"), "{notes}");
}

#[test]
fn sharing_without_tenants_is_noted() {
    let (_, notes) =
        imported("rate_limit: { sharing: enforce, sustained: { rate: 5 }, budget: { total: 5 } }");
    assert_eq!(notes.matches("only tenants can share").count(), 2, "{notes}");
}

#[test]
fn children_know_their_parents() {
    let text = "
- id: system
  rate_limit: { sharing: inherit, rate: 100, budget: { mode: shared, total: 100 } }
  children:
    - id: partner
      children: [ { id: tenant, rate_limit: { tokens_per_second: 3, scope: user } } ]
- { id: guest, parent: system }
";
    let (policy, _) = imported(text);
    let tenants = "  - id: partner\n    parent: system\n  - id: tenant\n    parent: partner\n    rate_limit:\n      \
                   scope: user\n      sustained: { rate: 3, window: second }\n  - id: guest\n    parent: system\n";
    assert!(policy.ends_with(tenants), "{policy}");
    assert!(policy.contains("      budget: { mode: shared, total: 100 }\n"), "{policy}");
}

/// A budget that cannot be allotted as written still caps all children together.
#[test]
fn a_budget_that_is_promised_too_often_becomes_a_pool() {
    let text = "
tenants:
  - id: partner
    rate_limit: { sharing: enforce, rate: 100, budget: { mode: allocated, total: 100 } }
    children: [ { id: a, rate_limit: { rate: 80 } }, { id: b, rate_limit: { rate: 40 } } ]
";
    let (policy, notes) = imported(text);
    assert!(policy.contains("      budget: { mode: shared, total: 100 }\n"), "{policy}");
    assert_eq!(policy.matches("rate_limit:").count(), 3, "{policy}");
    assert!(notes.contains("the budget of the tenant `partner` becomes `shared`"), "{notes}");
    assert!(notes.contains("add up to 120"), "{notes}");
}

/// The same if nothing is left for a child without a rate, for all requests or for one upstream.
#[test]
fn a_budget_with_nothing_left_becomes_a_pool() {
    let limit = "rate_limit: { sharing: enforce, rate: 100, budget: { mode: allocated, total: 100 } }";
    let child = "rate_limit: { rate: 100 }";
    for (parent, first) in [
        (limit.to_owned(), child.to_owned()),
        (format!("upstreams: {{ a.b: {{ {limit} }} }}"), format!("upstreams: {{ a.b: {{ {child} }} }}")),
    ] {
        let children = format!("children: [ {{ id: a, {first} }}, {{ id: c }} ]");
        let (policy, notes) = imported(&format!("tenants: [ {{ id: partner, {parent}, {children} }} ]"));
        assert!(policy.contains("budget: { mode: shared, total: 100 }\n"), "{policy}");
        assert_eq!(policy.matches("rate_limit:").count(), 2, "{policy}");
        assert!(notes.contains("the budget of the tenant `partner` becomes `shared`"), "{notes}");
        assert!(notes.contains("`c` has no rate of its own"), "{notes}");
    }
}

#[test]
fn tenants_that_make_no_tree_lose_a_parent() {
    let text = "
- { id: a, parent: b, rate_limit: { rate: 5 } }
- { id: b, parent: a, rate_limit: { rate: 6 } }
";
    let (policy, notes) = imported(text);
    assert!(policy.matches("parent:").count() < 2 && policy.matches("rate_limit:").count() == 2, "{policy}");
    assert!(notes.contains("the parent of `") && notes.contains("is left out"), "{notes}");
}

#[test]
fn guarantees_have_no_counterpart() {
    let text = "
tenants:
  - id: partner
    rate_limit: { rate: 5000, budget: { total: 5000, guaranteed: { a: 1000 }, shared_pool: 3500 } }
";
    let (policy, notes) = imported(text);
    assert!(policy.contains("budget: { mode: shared, total: 5000 }"), "{policy}");
    for name in ["guaranteed", "shared_pool"] {
        assert!(notes.contains(&format!("`{name}` is left out")), "{notes}");
    }
}

#[test]
fn upstreams_and_routes_are_told_apart() {
    let text = "
upstreams:
  - { id: search, host: search.example.com, rate_limit: { rate: 10 } }
  - { id: mail, protocol: http, rate_limit: { rate: 5 } }
routes:
  - { path: /v1/*, methods: [POST], rate_limit: { cost: 10 } }
  - { id: slow, match: { http: { path: /slow, methods: [GET] } }, rate_limit: { rate: 1, scope: ip } }
  - { path: /free }
";
    let (policy, notes) = imported(text);
    let upstreams = "upstreams:\n  - { name: search, hosts: [search.example.com] }\n  - { name: mail }\n";
    assert!(policy.contains(upstreams), "{policy}");
    assert!(policy.contains("match: { upstream: search }"), "{policy}");
    assert!(policy.contains("match: { upstream: mail }"), "{policy}");
    assert!(
        policy.contains("name: slow\n    match: { path: /slow, methods: [GET] }\n    key: [ip]"),
        "{policy}"
    );
    assert!(policy.ends_with("routes:\n  - { path: /v1/**, methods: [POST], cost: 10 }\n"), "{policy}");
    assert!(notes.contains("`protocol` is left out"), "{notes}");
    assert!(
        notes.contains("the upstream `mail` has no host") && !notes.contains("`search` has no"),
        "{notes}"
    );
}

#[test]
fn routes_keep_their_upstream() {
    let text = "
upstreams:
  - { alias: ai, id: '17', host: ai.example.com:8443, routes: [ { path: /a, rate_limit: { cost: 2 } } ] }
  - { alias: ai2, routes: [ { path: /a, rate_limit: { rate: 3 } } ] }
routes:
  - { path: /b, upstream_id: '17', rate_limit: { cost: 4 } }
  - { path: /c, upstream: elsewhere, rate_limit: { rate: 5 } }
  - { path: /d, rate_limit: { cost: 6 } }
";
    let (policy, notes) = imported(text);
    let end = "routes:\n  - { path: /a, upstream: ai, cost: 2 }\n  - { path: /b, upstream: ai, cost: 4 }\n  \
               - { path: /d, cost: 6 }\n";
    assert!(policy.ends_with(end), "{policy}");
    assert!(policy.contains("name: ai2/a\n    match: { upstream: ai2, path: /a }"), "{policy}");
    assert!(policy.contains("match: { upstream: elsewhere, path: /c }"), "{policy}");
    for what in ["port 8443 is left out", "`id` of an upstream is left out", "`elsewhere` has no host"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
}

#[test]
fn an_upstream_is_one_wherever_it_stands() {
    for text in [
        "upstreams: [ { alias: ai, host: ai.example.com, rate_limit: { rate: 5 } } ]",
        "upstreams: { ai: { host: ai.example.com, rate_limit: { rate: 5 } } }",
        "upstream: { alias: ai, server: { endpoints: [ { host: ai.example.com } ] }, rate_limit: { rate: 5 } }",
        "[ { alias: ai, host: ai.example.com, rate_limit: { rate: 5 } } ]",
        "{ alias: ai, hosts: [ai.example.com], rate_limit: { rate: 5 } }",
    ] {
        let (policy, notes) = imported(text);
        let want = "version: 1\nlimits:\n  - name: ai\n    match: { upstream: ai }\n    key: [tenant]\n    \
                    sustained: { rate: 5, window: second }\nupstreams:\n  \
                    - { name: ai, hosts: [ai.example.com] }\n";
        assert_eq!((policy.as_str(), notes.as_str()), (want, ""), "{text}");
    }
    let beside =
        "{ upstream: { alias: ai, host: ai.example.com }, route: { path: /a, rate_limit: { cost: 2 } } }";
    assert!(imported(beside).0.ends_with("  - { path: /a, upstream: ai, cost: 2 }\n"));
}

#[test]
fn tenants_have_limits_for_upstreams() {
    let limit = "      ai:\n        rate_limit:\n          sustained: { rate: 5, window: minute }\n";
    for text in [
        "tenants: [ { id: a, upstreams: { ai: { host: ai.example.com, rate_limit: { rate: 5, window: minute } } } } ]",
        "tenants: [ { id: a, upstreams: [ { alias: ai, rate_limit: { rate: 5, window: minute } } ] } ]",
        "{ tenants: [ { id: a } ], upstreams: [ { alias: ai, tenant_id: a, rate_limit: { rate: 5, window: minute } } ] }",
        "upstreams: [ { alias: ai, tenant: a, rate_limit: { rate: 5, window: minute } } ]",
    ] {
        let (policy, notes) = imported(text);
        assert!(policy.ends_with(&format!("  - id: a\n    upstreams:\n{limit}")), "{policy}");
        assert!(policy.contains("limits: []\nupstreams:\n  - { name: ai"), "{policy}");
        assert_eq!(notes.contains("the tenant `a` is added"), !text.contains("id: a"), "{notes}");
    }
    let twice = "upstreams: [ { alias: ai, tenant: a, rate_limit: { rate: 5 } }, { alias: ai, tenant: a, rate_limit: { rate: 6 } } ]";
    assert!(imported(twice).1.contains("has two limits for the upstream `ai`"));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for (text, says) in [
        ("rate_limit: { sustained: { window: minute } }", "`rate` is missing"),
        ("{ rate: 0 }", "not a number above zero"),
        ("{ rate: 5, window: fortnight }", "window is not known"),
        ("{ rate: 5, tokens_per_second: 5 }", "more than one rate"),
        ("{ rate: 5, scope: galaxy }", "scope is not known"),
        ("{ rate: 5, algorithm: leaky_bucket }", "algorithm is not known"),
        ("{ rate: 5, budget: { overcommit_ratio: 2.5 } }", "out of range"),
        ("{ rate: 5000000000 }", "per"),
        ("rate_limit: { cost: 5 }", "there is no rate"),
        ("routes: [ { rate_limit: { cost: 5 } } ]", "`path` is missing"),
        ("tenants: [ { rate_limit: { rate: 5 } } ]", "`id` is missing"),
        ("tenants: [ { id: a }, { id: a } ]", "appears twice"),
        ("tenants: [ { id: 'a b' } ]", "not a valid tenant id"),
    ] {
        let problems = refused(text);
        assert!(problems.contains(says), "{text}: {problems}");
    }
}

#[test]
fn one_upstream_or_route_is_like_a_list_of_one() {
    for (one, many) in [
        (
            "upstream: { host: a.example.com, rate_limit: { rate: 5 } }",
            "upstreams: [ { host: a.example.com, rate_limit: { rate: 5 } } ]",
        ),
        ("route: { path: /a, rate_limit: { cost: 5 } }", "routes: [ { path: /a, rate_limit: { cost: 5 } } ]"),
        ("route: { path: /a, rate_limit: { rate: 5 } }", "[ { path: /a, rate_limit: { rate: 5 } } ]"),
        ("{ path: /a, rate_limit: { rate: 5 } }", "[ { path: /a, rate_limit: { rate: 5 } } ]"),
        ("tenant: { id: a, rate_limit: { rate: 5 } }", "tenants: [ { id: a, rate_limit: { rate: 5 } } ]"),
    ] {
        assert_eq!(imported(one).0, imported(many).0, "{one}");
    }
    for (name, reach) in [("upstream", "applies to all requests"), ("route", "applies to every path")] {
        let text =
            format!(r#"{{"{name}": {{"rate_limit": {{"sustained": {{"rate": 5, "window": "minute"}}}}}}}}"#);
        let (policy, notes) = imported(&text);
        assert!(policy.contains("key: [tenant]\n    sustained: { rate: 5, window: minute }\n"), "{policy}");
        assert!(!policy.contains("match") && notes.contains(reach), "{policy}{notes}");
    }
}

#[test]
fn one_bad_item_leaves_the_others() {
    let text = "
upstreams:
  - { id: a, rate_limit: { rate: 5, algorithm: leaky }, routes: [ { path: /a, rate_limit: { cost: 2 } } ] }
  - { id: b, rate_limit: { rate: 5, scope: galaxy } }
  - { id: c, rate_limit: { rate: 5 } }
routes:
  - { rate_limit: { cost: 5 } }
  - { path: /c, rate_limit: { cost: 3 } }
";
    let (policy, notes) = imported(text);
    assert!(policy.contains("name: c\n") && !policy.contains("name: a\n"), "{policy}");
    let routes = "routes:\n  - { path: /a, upstream: a, cost: 2 }\n  - { path: /c, cost: 3 }\n";
    assert!(policy.ends_with(routes), "{policy}");
    for item in ["upstreams[0].rate_limit", "upstreams[1].rate_limit", "routes[0]"] {
        assert!(notes.contains(&format!("`{item}` is not imported")), "{item}: {notes}");
    }
}

#[test]
fn a_tenant_that_is_left_out_does_not_take_the_tree_with_it() {
    let text = "
tenants:
  - { id: root, rate_limit: { rate: 5, scope: galaxy }, children: [ { id: leaf, rate_limit: { rate: 3 } } ] }
  - { id: 'a b', children: [ { id: orphan, rate_limit: { rate: 2 } } ] }
";
    let (policy, notes) = imported(text);
    assert!(policy.contains("  - id: root\n  - id: leaf\n    parent: root\n"), "{policy}");
    assert!(policy.contains("  - id: orphan\n    rate_limit:\n"), "{policy}");
    assert!(notes.contains("`tenants[0].rate_limit` is not imported"), "{notes}");
    assert!(notes.contains("the parent of `orphan` is left out"), "{notes}");
}

#[test]
fn sliding_windows_count_whole_requests() {
    let of = |rate: &str| imported(&format!("{{ tokens_per_second: {rate}, algorithm: sliding_window }}"));
    for (rate, sustained) in [
        ("2.75", "{ rate: 2, window: second }"),
        ("0.5", "{ rate: 1, window: 2s }"),
        ("0.3333333333", "{ rate: 1, window: 3001ms }"),
    ] {
        let (policy, notes) = of(rate);
        assert!(policy.contains(sustained), "{rate}: {policy}");
        assert!(notes.contains("counts whole requests"), "{notes}");
    }
}
