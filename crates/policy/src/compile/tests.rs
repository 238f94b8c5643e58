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
        (format!("name: l, key: [user], {within}"), "any number of requests"),
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
