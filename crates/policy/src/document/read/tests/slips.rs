//! Mistakes, and the messages and hints that they lead to.

use super::*;

#[test]
fn slips_are_answered_with_what_was_meant() {
    let cases = [
        ("burts: { capacity: 5 }", "unknown field `burts`", "did you mean `burst`?"),
        ("burst: 50", "a number does not belong here", "write `burst: { capacity: 50 }`"),
        ("queue: { max_wait: 10 sec }", "\"10 sec\" is not a duration", "write it as `10s`"),
        ("queue: { max_wait: 1.5s }", "\"1.5s\" is not a duration", "write it as `1500ms`"),
        ("queue: { max_wait: 2h }", "\"2h\" is too long", ""),
        ("queue: { max_wait: 0s }", "the duration is zero", ""),
        ("match: { methods: get }", "\"get\" is not a method", "write it in upper case: `GET`"),
        (
            "match: { path: api/v1 }",
            "\"api/v1\" is not a path: a path begins with `/`",
            "write it as `/api/v1`",
        ),
        ("match: /api", "text does not belong here", "write `match: { path: /api }`"),
        ("match: { user_id: 5 }", "unknown field `user_id`", "did you mean `user`?"),
        ("match: { 'heder:x': 5 }", "unknown field `heder:x`", "did you mean `header:x`?"),
        (
            "match: { ip: 10.0.0.1/8 }",
            "\"10.0.0.1/8\" has bits beyond its prefix",
            "write `10.0.0.0/8` for the network",
        ),
        ("match: { ip: 10.1.* }", "\"10.1.*\" is not an address or a network", "write it as `10.1.0.0/16`"),
        ("match: { plan: [] }", "an empty list matches nothing", "leave the field out"),
        ("path: /api", "unknown field `path`", "conditions belong inside `match`"),
        ("rate: 5", "unknown field `rate`", "`rate` belongs inside `sustained`"),
        ("algorithm: gcra", "\"gcra\" is not a valid choice", "did you mean `token_bucket`?"),
        ("mode: dry_run", "\"dry_run\" is not a valid choice", "did you mean `shadow`?"),
        ("response_headers: yes", "\"yes\" is not true or false", "write `true`"),
        ("retry_jitter: 0.6", "0.6 is out of range", ""),
        ("retry_jitter: 0.1234567", "0.1234567 has more than six decimals", ""),
        ("retry_jitter: 1e-1", "1e-1 is not a plain decimal number", "plain digits"),
        ("cost: '5'", "\"5\" is not a whole number", "write it as a plain number: `5`"),
        ("cost: 'header:x'", "text does not belong here", "write `cost: { from: \"header:x\" }`"),
        ("cost: 0", "0 is out of range", ""),
        (
            "cost: { from: 'header:x', default: 5, max: 2 }",
            "the default 5 is above the maximum 2",
            "raise `max`",
        ),
        (
            "burst: { capacity: 5, allowance: 2 }",
            "`capacity` and `allowance` exclude each other",
            "remove one",
        ),
        ("preset: llm_tools", "`preset: llm_tools` needs `cost.from`", "add `cost: { from:"),
        ("scope: user", "`scope` and `key` exclude each other", "remove it"),
        ("description: [a]", "a list is not text", ""),
        (
            "headers: [ietf, x-ratelimit, ratelimit-07]",
            "`ietf` and `ratelimit-07` write the same headers in different ways",
            "remove one",
        ),
        ("headers: [x-rate-limit]", "\"x-rate-limit\" is not a valid choice", "did you mean `x-ratelimit`?"),
    ];
    for (line, message, hint) in cases {
        assert_answered(line, message, hint);
    }
}

fn assert_answered(line: &str, message: &str, hint: &str) {
    let problem = problem(line);
    assert_eq!(problem.message, message, "{line}");
    assert!(problem.is_error());
    let found = problem.hint.unwrap_or_default();
    assert!(found.contains(hint) && found.is_empty() == hint.is_empty(), "{line}: {found:?}");
    assert_eq!(problem.at.line, 6);
}

#[test]
fn slips_about_who_is_counted_and_how() {
    const BRACES: &str =
        "`{name}` matches a whole segment and has letters, digits, `-` and `_` between its braces";
    for (path, hint) in [
        ("/users/{id", "use `{name}` for one whole segment"),
        ("/users/x{id}", "use `{name}` for one whole segment"),
        ("/users/{}", "use `{name}` for one whole segment"),
        ("/files/{rest...}", "write it as `/files/**`"),
        ("/a/{*rest}", "write it as `/a/**`"),
        ("/a/{id:[0-9]+}/b", "write it as `/a/{id}/b`"),
    ] {
        let line = format!("match: {{ path: '{path}' }}");
        assert_answered(&line, &format!("\"{path}\" is not a path: {BRACES}"), hint);
    }
    let cases = [
        (
            "match: { path: '/users/:id/x' }",
            "\"/users/:id/x\" is not a path: a segment does not begin with `:`: any one segment is `*` or `{name}`",
            "write it as `/users/{id}/x`",
        ),
        ("unless: {}", "`unless` names no descriptor, so it would hold for every request", "or remove it"),
        ("unless: { usr: 5 }", "unknown field `usr`", "did you mean `user`?"),
        ("missing: pool", "\"pool\" is not a valid choice", "did you mean `shared`?"),
        ("cost: {}", "`cost` has neither `from` nor `fixed`", "write `fixed: 1` to count calls"),
        ("cost: { fixed: 1, max: 5 }", "`default` and `max` need `from`", "add `from`"),
        ("cost: { fixed: 1, from: 'header:x' }", "`from` and `fixed` exclude each other", "remove one"),
    ];
    for (line, message, hint) in cases {
        assert_answered(line, message, hint);
    }
}

#[test]
fn two_lines_that_do_not_go_together() {
    let burst_and_preset = problem("burst: { capacity: 5 }\n    preset: batch");
    assert_eq!(
        (burst_and_preset.message.as_str(), burst_and_preset.at.line),
        ("`preset` does nothing beside `burst`", 7)
    );
    let window = problem("algorithm: sliding_log\n    burst: { capacity: 5 }");
    assert!(window.message.starts_with("`burst` does not apply to a window algorithm"), "{window:?}");
    assert_eq!(window.path, "limits[0].burst");
    assert!(window.hint.unwrap().contains("algorithm: token_bucket"));
    let window = problem("algorithm: fixed_window\n    preset: strict");
    assert!(window.message.starts_with("`preset` does not apply to a window algorithm"), "{window:?}");
    let twice = problem("match: { 'header:X': a, 'header:x': b }");
    assert_eq!(twice.message, "a second condition on `header:x`");
}

#[test]
fn warnings_keep_the_entry() {
    for (text, message) in [
        (with("queue: { max_depth: 5 }"), "`queue` does nothing with `strategy: reject`"),
        (
            with("degrade: { tag: slow }\n    strategy: queue"),
            "`degrade` does nothing with `strategy: queue`",
        ),
        (with("missing: deny"), "`missing` does nothing: the limit has no key to be missing"),
        (with("").replace("key: []", "group: g"), "without `key` or `scope` all requests share one bucket"),
    ] {
        let (document, problems) = read(&text);
        assert_eq!(document.limits.len(), 1);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].message, message);
        assert!(!problems[0].is_error());
    }
}

#[test]
fn sustained_has_its_own_slips() {
    let of = |sustained: &str| {
        let text = with("").replace("{ rate: 1 }", sustained);
        let (_, mut problems) = read(&text);
        assert_eq!(problems.len(), 1, "{sustained}: {problems:?}");
        let problem = problems.remove(0);
        (problem.message, problem.hint.unwrap_or_default())
    };
    let cases = [
        ("{ rate: 1, per: second }", "unknown field `per`", "did you mean `window`?"),
        ("{ rate: '10' }", "\"10\" is not a whole number", "write it as a plain number: `10`"),
        ("{ rate: 10/s }", "\"10/s\" is not a whole number", "write the number alone: `10`"),
        (
            "{ rate: 1.5 }",
            "1.5 is not a whole number",
            "write it in decimal digits, without a fraction or an exponent",
        ),
        ("{ rate: -1 }", "-1 is not a whole number", "it cannot be negative"),
        ("{ rate: 0 }", "0 is out of range", ""),
        ("{ rate: 1000000000000000001 }", "1000000000000000001 is out of range", ""),
        ("{ rate: 1, window: 1 }", "1 is not a duration", "write it as `1s`"),
        ("{ rate: 1, window: seconds }", "\"seconds\" is not a window", "write it as `second`"),
        ("{ rate: 1, window: per minute }", "\"per minute\" is not a window", "write it as `minute`"),
        ("{ rate: 1, window: secnod }", "\"secnod\" is not a window", "did you mean `second`?"),
        ("{ rate: 1, window: 73051d }", "\"73051d\" is too long", ""),
        ("10", "a number does not belong here", "write `sustained: { rate: 10 }`"),
    ];
    for (sustained, message, hint) in cases {
        assert_eq!(of(sustained), (message.to_owned(), hint.to_owned()), "{sustained}");
    }
    let (_, problems) = read("version: 1\nlimits:\n  - { name: a, key: [] }\n");
    assert_eq!(
        problems[0].to_string(),
        "error: line 3, column 5: limits[0]: `sustained` is missing; want a map (rate, window); hint: add `sustained: { rate: 10, window: second }`"
    );
}

#[test]
fn other_entries_have_their_own_slips() {
    let cases = [
        (
            "allow: [{ reason: x }]",
            "allow[0]",
            "the entry names no descriptor, so it would match every request",
        ),
        (
            "block: [{ user: a, until: 2030-01-01 }]",
            "block[0].until",
            "\"2030-01-01\" is not a point in time",
        ),
        (
            "block: [{ user: a, until: 1960-01-01T00:00:00Z }]",
            "block[0].until",
            "\"1960-01-01T00:00:00Z\" is before 1970",
        ),
        ("bursts: [{ name: b }]", "bursts[0]", "`key` or `scope` is missing"),
        ("bursts: [{ name: 'tenant:b', key: [] }]", "bursts[0].name", "the name \"tenant:b\" is reserved"),
        (
            "bursts: [{ name: b, key: [user, ip, 'ip:address'] }]",
            "bursts[0].key[2]",
            "`ip` is in the key twice",
        ),
        ("bursts: [{ name: b, key: user }]", "bursts[0].key", "text does not belong here"),
        ("tenants: [{ id: 'a b' }]", "tenants[0].id", "\"a b\" is not a name"),
        (
            "tenants: [{ id: a, rate_limit: { key: [user] } }]",
            "tenants[0].rate_limit.key",
            "unknown field `key`",
        ),
        (
            "tenants: [{ id: a, rate_limit: { budget: { overcommit_ratio: 2.1 } } }]",
            "tenants[0].rate_limit.budget.overcommit_ratio",
            "2.1 is out of range",
        ),
        (
            "routes: [{ path: /a, cost: { from: 'header:x' } }]",
            "routes[0].cost",
            "a map is not a whole number",
        ),
        (
            "routes: [{ path: /a, unless: { route: /b } }]",
            "routes[0].unless.route",
            "a route cannot depend on the route of the request",
        ),
        ("adaptive: true", "adaptive", "true or false does not belong here"),
        ("limits: { name: a }", "limits", "a map does not belong here"),
        ("rules: []", "rules", "unknown field `rules`"),
        ("limits: [~]", "limits[0]", "the value is missing"),
    ];
    for (line, path, message) in cases {
        let (_, problems) = read(&format!("version: 1\n{line}\n"));
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
        assert_eq!((problems[0].path.as_str(), problems[0].message.as_str()), (path, message), "{line}");
        assert_eq!(problems[0].at.line, 2);
    }
}
