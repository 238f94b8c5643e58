use crate::ImportFormat;
use crate::tests;

fn imported(descriptors: &str) -> (String, String) {
    tests::imported(ImportFormat::Envoy, &format!("domain: edge\ndescriptors:\n{descriptors}"))
}

/// The names of the limits, in order.
fn names(policy: &str) -> Vec<&str> {
    let names = policy.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    names.map(|name| name.trim_matches('"')).collect()
}

const LIMIT: &str = "rate_limit: { unit: minute, requests_per_unit: 3 }";

#[test]
fn the_most_specific_comes_first() {
    let text = format!(
        "
  - {{ key: b, {LIMIT} }}
  - key: a
    {LIMIT}
    descriptors:
      - {{ key: b, {LIMIT} }}
      - {{ key: b, value: x, {LIMIT} }}
  - key: a
    value: v
    descriptors: [ {{ key: b, {LIMIT} }} ]
  - {{ key: a, value: w, {LIMIT} }}
"
    );
    let (policy, _) = imported(&text);
    let want = ["edge/a:v/b", "edge/a/b:x", "edge/a/b", "edge/a:w", "edge/b", "edge/a"];
    assert_eq!(names(&policy), want, "{policy}");
    assert_eq!(policy.matches("group: edge").count(), want.len());
    let exact = "match: { domain: edge, \"descriptor:a\": v }\n    key: [\"descriptor:b\"]\n    \
                 algorithm: fixed_window\n    sustained: { rate: 3, window: minute }\n";
    assert!(policy.contains(exact), "{policy}");
}

#[test]
fn a_single_limit_needs_no_group() {
    let (policy, notes) = imported(&format!("  - {{ key: a, {LIMIT} }}"));
    assert!(!policy.contains("group"), "{policy}");
    assert_eq!(notes, "");
}

#[test]
fn units_of_every_length() {
    let of = |limit: &str| imported(&format!("  - {{ key: a, rate_limit: {{ {limit} }} }}"));
    for (unit, window) in [("SECOND", "second"), ("day", "day"), ("week", "7d"), ("year", "365d")] {
        let (policy, notes) = of(&format!("unit: {unit}, requests_per_unit: 3"));
        assert!(policy.contains(&format!("window: {window} }}")), "{policy}");
        assert_eq!(notes.contains("fixed number of days"), window.len() < 5 && window != "day", "{notes}");
    }
    let (policy, _) = of("unit: minute, requests_per_unit: 20, unit_multiplier: 5");
    assert!(policy.contains("{ rate: 20, window: 5m }"), "{policy}");
    let (policy, notes) = of("unit: second, requests_per_unit: 2000000");
    assert!(!policy.contains("fixed_window") && notes.contains("become a token bucket"), "{policy}");
}

#[test]
fn wildcards_are_carried_over_where_they_can_be() {
    let of = |key: &str, value: &str, more: &str| {
        imported(&format!("  - {{ key: {key}, value: '{value}', {LIMIT}{more} }}"))
    };
    let (policy, _) = of("a", "*", "");
    assert!(policy.contains("match: { domain: edge }\n    key: [\"descriptor:a\"]"), "{policy}");
    let (policy, _) = of("path", "/api/*", "");
    assert!(policy.contains("path: /api/** }\n    key: [\"descriptor:path\"]"), "{policy}");
    let (policy, _) = of("path", "/api/*", ", share_threshold: true");
    assert!(policy.contains("path: /api/** }\n    scope: global"), "{policy}");
    for (key, value, more) in [
        ("a", "x*", ""),
        ("path", "/a*b", ""),
        ("path", "/a/*/b/*", ""),
        ("a", "*", ", share_threshold: true"),
    ] {
        let (policy, notes) = of(key, value, more);
        assert!(policy.contains("enabled: false") && policy.contains("# Disabled"), "{value}: {policy}");
        assert!(notes.contains("is disabled"), "{notes}");
    }
}

#[test]
fn nothing_is_dropped_silently() {
    let (policy, notes) = imported(
        "
  - key: a
    shadow_mode: true
    quota_mode: true
    value_to_metric: true
    rate_limit: { unit: second, requests_per_unit: 1, name: first, replaces: [ { name: other } ], sleep: 1 }
",
    );
    assert!(policy.contains("name: first") && policy.contains("mode: shadow"), "{policy}");
    for name in ["quota_mode", "value_to_metric", "replaces", "sleep"] {
        assert!(notes.contains(&format!("`{name}` is left out")), "{name}: {notes}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for (text, says) in [
        ("domain: a", "`descriptors` is missing"),
        ("descriptors: []", "`domain` is missing"),
        ("domain: a\ndescriptors: [ { value: x } ]", "`key` is missing"),
        ("domain: a\ndescriptors: [ { key: 'x y', rate_limit: { unlimited: true } } ]", "key cannot be used"),
        ("domain: a\ndescriptors: [ { key: x, rate_limit: { unit: second } } ]", "has no rate"),
        (
            "domain: a\ndescriptors: [ { key: x, rate_limit: { unit: era, requests_per_unit: 1 } } ]",
            "unit is not",
        ),
        ("domain: a\ndescriptors: [ { key: x }, { key: x } ]", "appears twice"),
    ] {
        let problems = tests::refused(ImportFormat::Envoy, text);
        assert!(problems.contains(says), "{text}: {problems}");
    }
}
