use crate::ImportFormat;
use crate::source::DocumentNode;
use crate::tests;
use tidegate_document::parse;

fn imported(text: &str) -> (String, String) {
    tests::imported(ImportFormat::Fairvisor, text)
}

fn rule(name: &str, rest: &str) -> String {
    format!(
        "{{ name: {name}, limit_keys: ['jwt:org'], algorithm: token_bucket, \
         algorithm_config: {{ rps: 10, burst: 20 }}{rest} }}"
    )
}

#[test]
fn rules_that_count_alike_are_one_group_in_order() {
    let text = format!("[ {}, {} ]", rule("paid", ", match: { 'jwt:plan': paid }"), rule("rest", ""));
    let (policy, notes) = imported(&text);
    assert_eq!(policy.matches("group: \"jwt:org\"").count(), 2, "{policy}");
    assert!(policy.find("paid").unwrap() < policy.find("rest").unwrap());
    assert!(notes.contains("form a group") && !notes.contains("always match first"), "{notes}");
}

/// The name and the group of each limit.
fn groups(policy: &str) -> Vec<(String, Option<String>)> {
    let policy = parse(policy).unwrap();
    let text =
        |limit: &DocumentNode, name: &str| limit.get(name).and_then(|node| node.scalar()).map(str::to_owned);
    let limits = policy.get("limits").unwrap().items().iter();
    limits.map(|limit| (text(limit, "name").unwrap(), text(limit, "group"))).collect()
}

#[test]
fn no_rule_is_hidden_by_one_before_it() {
    let paid = ", match: { 'jwt:plan': paid }";
    let (policy, notes) = imported(&format!("[ {}, {} ]", rule("rest", ""), rule("paid", paid)));
    let alone = |name: &str| (name.to_owned(), None);
    assert_eq!(groups(&policy), [alone("rest"), alone("paid")]);
    assert!(notes.contains("`paid` is not in the group of `rest`"), "{notes}");

    let rules = [("a", paid), ("b", ""), ("c", paid), ("d", ""), ("e", "")];
    let rules: Vec<String> = rules.iter().map(|(name, rest)| rule(name, rest)).collect();
    let (policy, _) = imported(&format!("[ {} ]", rules.join(", ")));
    let member = |name: &str, group: &str| (name.to_owned(), Some(group.to_owned()));
    let want = [
        member("a", "jwt:org"),
        member("b", "jwt:org"),
        member("c", "jwt:org-2"),
        member("d", "jwt:org-2"),
        alone("e"),
    ];
    assert_eq!(groups(&policy), want);
}

#[test]
fn two_rules_for_the_same_callers_both_apply() {
    let either = ", match: { 'jwt:plan': [paid, trial] }";
    let trial = ", match: { 'jwt:plan': trial, 'header:x-region': eu }";
    let rules = [rule("second", either), rule("minute", trial), rule("rest", "")].join(", ");
    let (policy, _) = imported(&format!("[ {rules} ]"));
    let group = Some("jwt:org".to_owned());
    let want =
        [("second".to_owned(), None), ("minute".to_owned(), group.clone()), ("rest".to_owned(), group)];
    assert_eq!(groups(&policy), want);
}

#[test]
fn policies_without_an_id_have_groups_of_their_own() {
    let paid = rule("paid", ", match: { 'jwt:plan': paid }");
    let spec = format!("{{ spec: {{ rules: [ {paid}, {} ] }} }}", rule("rest", ""));
    let (policy, _) = imported(&format!("policies: [ {spec}, {spec} ]"));
    assert_eq!(policy.matches("group: \"jwt:org\"\n").count(), 2, "{policy}");
    assert_eq!(policy.matches("group: \"jwt:org-2\"\n").count(), 2, "{policy}");
}

#[test]
fn without_keys_there_is_one_limit_for_all() {
    let bare = r#"{"algorithm":"token_bucket","algorithm_config":{"tokens_per_second":10,"burst":20}}"#;
    let listed = format!("[{bare}]");
    for text in [bare, &listed] {
        let (policy, notes) = imported(text);
        let want = "limits:\n  - name: limit\n    scope: global\n    \
                    sustained: { rate: 10, window: second }\n    burst: { capacity: 20 }\n";
        assert!(policy.ends_with(want), "{policy}");
        assert!(notes.contains("all callers share one bucket"), "{notes}");
    }
}

#[test]
fn one_bad_rule_leaves_the_others() {
    for (from, to, says) in [
        ("jwt:org", "geo:country", "descriptor is not known"),
        ("token_bucket", "leaky", "algorithm is not known"),
        ("burst: 20", "burst: 0.5", "capacity is out of range"),
    ] {
        let bad = rule("bad", "").replacen(from, to, 1);
        let (policy, notes) = imported(&format!("rules: [ {bad}, {} ]", rule("good", "")));
        assert_eq!(groups(&policy), [("good".to_owned(), None)], "{to}");
        assert!(notes.contains("`rules[0]` is not imported") && notes.contains(says), "{to}: {notes}");
    }
}

#[test]
fn one_bad_switch_or_policy_leaves_the_others() {
    let text = format!(
        "
policies:
  - {{ id: a, spec: {{ mode: sometimes, rules: [ {0} ] }} }}
  - {{ id: b, spec: {{ rules: [ {0} ] }} }}
kill_switches: [ {{ scope_key: 'geo:x', scope_value: y }}, {{ scope_key: 'jwt:x', scope_value: y, expires_at: soon }} ]
",
        rule("per-org", "")
    );
    let (policy, notes) = imported(&text);
    assert_eq!(groups(&policy), [("per-org".to_owned(), None)]);
    assert!(!policy.contains("block"), "{policy}");
    for what in
        ["`policies[0]` is not", "`kill_switches[0]` is not", "the block of { \"jwt:x\": \"y\" } is not"]
    {
        assert!(notes.contains(what), "{what}: {notes}");
    }
}

#[test]
fn rules_that_count_otherwise_are_independent() {
    let by_address = rule("address", "").replace("jwt:org", "ip:address");
    let (policy, notes) = imported(&format!("rules: [ {}, {by_address} ]", rule("org", "")));
    assert!(!policy.contains("group"), "{policy}");
    assert_eq!(notes.lines().count(), 1, "only Fairvisor's habits: {notes}");
}

#[test]
fn a_fallback_closes_the_group_or_comes_disabled() {
    let paid = rule("paid", ", match: { 'jwt:plan': paid }");
    let (policy, _) = imported(&format!("rules: [ {paid} ]\nfallback_limit: {}", rule("rest", "")));
    assert_eq!(policy.matches("group:").count(), 2, "{policy}");
    assert!(!policy.contains("enabled: false"), "{policy}");

    let other = rule("address", "").replace("jwt:org", "ip:address");
    let text = format!("rules: [ {paid}, {other} ]\nfallback_limit: {}", rule("rest", ""));
    let (policy, notes) = imported(&text);
    assert!(policy.contains("name: rest\n    enabled: false\n"), "{policy}");
    assert!(notes.contains("`fallback_limit` cannot be imported"), "{notes}");
}

#[test]
fn costs_come_from_where_they_came() {
    let of = |config: &str| {
        let config = format!("{{ tokens_per_second: 0.5, burst: 20{config} }}");
        imported(&rule("a", "").replace("{ rps: 10, burst: 20 }", &config))
    };
    assert!(of(", cost_source: fixed, fixed_cost: 3").0.contains("    cost: { fixed: 3 }\n"));
    assert!(!of(", cost_source: fixed, fixed_cost: 1, default_cost: 1").0.contains("cost"));
    let (policy, _) = of(", cost_source: 'query:weight', default_cost: 4");
    assert!(policy.contains("cost: { from: \"query:weight\", default: 4 }"), "{policy}");
    assert!(policy.contains("sustained: { rate: 5, window: 10s }"), "{policy}");
    let (policy, notes) = of(", fixed_cost: 2.5");
    assert!(policy.contains("cost: { fixed: 3 }") && notes.contains("rounded up to 3"), "{policy}{notes}");
}

#[test]
fn tokens_of_language_models_are_two_limits() {
    let text = "
name: tokens
limit_keys: ['header:x-api-key']
algorithm: token_bucket_llm
algorithm_config:
  tokens_per_minute: 60000
  tokens_per_day: 2000000
  burst_tokens: 120000
  max_prompt_tokens: 8000
  token_source: { estimator: header_hint }
";
    let (policy, notes) = imported(text);
    assert!(policy.contains("name: tokens\n") && policy.contains("name: tokens/day\n"), "{policy}");
    assert!(policy.contains("{ rate: 60000, window: minute }\n    burst: { capacity: 120000 }"), "{policy}");
    assert!(policy.contains("from: \"header:x-token-estimate\", default: 1000"), "{policy}");
    // A fixed window cannot count to two million.
    assert!(
        policy.contains("{ rate: 2000000, window: day }") && !policy.contains("fixed_window"),
        "{policy}"
    );
    assert!(notes.contains("`max_prompt_tokens` is left out"), "{notes}");
}

#[test]
fn bundles_bring_selectors_switches_and_shadows() {
    let text = format!(
        "
policies:
  - id: api
    spec:
      selector: {{ pathExact: /status, pathPrefix: /api/, hosts: [a.example.com, b.example.com] }}
      mode: shadow
      rules: [ {0} ]
      loop_detection: {{ enabled: true }}
  - id: all
    spec: {{ selector: {{ pathPrefix: / }}, rules: [ {0} ] }}
global_shadow: {{ enabled: true, reason: test, expires_at: 2030-01-01T00:00:00Z }}
kill_switches:
  - {{ scope_key: 'ip:country', scope_value: 'no', route: /pay, reason: fraud }}
",
        rule("per-org", "")
    );
    let (policy, notes) = imported(&text);
    assert!(policy.contains("\ndefaults: { mode: shadow, headers: "), "{policy}");
    let conditions = "match: { path: [/status, /api/**], host: [a.example.com, b.example.com] }";
    assert!(policy.contains(conditions) && policy.contains("mode: shadow"), "{policy}");
    assert!(policy.contains("name: all/per-org\n    key: [\"jwt:org\"]"), "{policy}");
    let block = "block:\n  - { \"descriptor:ip:country\": \"no\", path: /pay, reason: fraud }\n";
    assert!(policy.ends_with(block), "{policy}");
    for what in ["loop_detection", "expires_at", "descriptor:ip:country"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
}

#[test]
fn the_habits_of_fairvisor_are_written_out() {
    let (policy, notes) = imported(&rule("a", ""));
    let defaults = "defaults: { headers: [ratelimit-03, ietf], retry_jitter: 0.5, on_store_error: open }\n";
    assert!(policy.contains(defaults), "{policy}");
    assert!(notes.contains("X-Fairvisor-Reason of a denial becomes X-RateLimit-Reason"), "{notes}");
}

#[test]
fn a_burst_below_the_rate_is_noted() {
    for (burst, is_below) in [("9.5", true), ("4", true), ("10", false), ("20", false)] {
        let (policy, notes) = imported(&rule("a", "").replace("burst: 20", &format!("burst: {burst}")));
        assert_eq!(notes.contains("the burst is below the rate"), is_below, "{burst}: {notes}");
        assert!(policy.contains("burst: { capacity:"), "{policy}");
    }
}

#[test]
fn a_path_that_would_become_a_wildcard_is_refused() {
    let of = |selector: &str, route: &str| {
        format!(
            "{{ policies: [ {{ id: a, spec: {{ selector: {{ {selector} }}, rules: [ {} ] }} }} ], kill_switches: [ {{ \
             scope_key: 'jwt:org', scope_value: x, route: '{route}' }} ] }}",
            rule("r", "")
        )
    };
    let (policy, _) = imported(&of("pathExact: /users, pathPrefix: /api", "/pay"));
    assert!(policy.contains("path: [/users, /api/**]") && policy.contains("path: /pay"), "{policy}");
    for (selector, route) in [
        ("pathExact: '/users/{id}'", "/pay"),
        ("pathExact: '/users/*'", "/pay"),
        ("pathPrefix: '/users/{id}'", "/pay"),
        ("pathPrefix: '/*/x'", "/pay"),
        ("pathExact: /users", "/pay/{id}"),
    ] {
        let (policy, notes) = imported(&of(selector, route));
        assert!(notes.contains("cannot contain `*`, `{` or `}`"), "{selector}: {notes}");
        assert!(!policy.contains("{id}") && !policy.contains("/*"), "{policy}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for (from, to, says) in [
        ("token_bucket", "leaky", "algorithm is not known"),
        ("rps: 10, ", "", "`tokens_per_second` is missing"),
        (", burst: 20", "", "`burst` is missing"),
        ("rps: 10", "rps: -1", "not a number above zero"),
        ("jwt:org", "cookie:a", "descriptor is not known"),
    ] {
        let problems = tests::refused(ImportFormat::Fairvisor, &rule("a", "").replacen(from, to, 1));
        assert!(problems.contains(says), "{to}: {problems}");
    }
}
