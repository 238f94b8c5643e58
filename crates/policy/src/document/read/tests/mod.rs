use proptest::prelude::*;

use super::*;
use crate::document::*;

mod slips;

/// The example of the documentation, with every field once.
const EXAMPLE: &str = r#"version: 1
defaults: { headers: [x-ratelimit], on_store_error: local }
limits:
  - name: per-user
    group: per-user
    match: { path: /api/**, methods: [GET, POST], plan: [free, trial], "jwt:role": member }
    key: [user]
    algorithm: token_bucket
    sustained: { rate: 10, window: second }
    burst: { capacity: 50 }
    carry: as_is
    cost: { from: "header:X-Request-Weight", default: 1, max: 1000 }
    strategy: queue
    queue: { max_depth: 100, max_wait: 2s }
    mode: enforce
    headers: [x-ratelimit]
    response_headers: true
    retry_jitter: 0.25
    on_store_error: closed
routes:
  - { path: /v1/chat/completions, cost: 10 }
  - { path: /v1/models, methods: GET, cost: 1 }
tenants:
  - id: system
    rate_limit: { sharing: enforce, sustained: { rate: 10000, window: minute }, burst: { capacity: 1000 }, budget: { mode: allocated, total: 10000 } }
  - id: partner-a
    parent: system
    rate_limit: { sharing: enforce, sustained: { rate: 5000, window: minute }, burst: { capacity: 500 }, budget: { mode: allocated, total: 5000, overcommit_ratio: 1.2 } }
  - id: tenant-a1
    parent: partner-a
    rate_limit: { scope: endpoint, sustained: { rate: 1000, window: minute }, burst: { allowance: 1.5 } }
allow:
  - { ip: 10.0.0.0/8, reason: internal }
  - { "header:x-api-key": partner-key, until: 2027-01-01T00:00:00Z }
block:
  - { user: "666", reason: abuse, until: 2027-01-01T00:00:00Z }
bursts:
  - { name: burst, key: [user, route], window: 10s, threshold: 50, penalty: 300s }
adaptive: { trust: true }
"#;

/// Problems as they are printed.
pub(super) fn printed(text: &str) -> Vec<String> {
    read(text).1.iter().map(Problem::to_string).collect()
}

/// One valid limit, with `line` added.
pub(super) fn with(line: &str) -> String {
    format!("version: 1\nlimits:\n  - name: a\n    key: []\n    sustained: {{ rate: 1 }}\n    {line}\n")
}

/// The only error of a limit with this line, or its only warning if it has no errors.
pub(super) fn problem(line: &str) -> Problem {
    let (_, mut problems) = read(&with(line));
    if problems.iter().any(Problem::is_error) {
        problems.retain(Problem::is_error);
    }
    assert_eq!(problems.len(), 1, "{line}: {problems:?}");
    problems.remove(0)
}

/// A document without positions, to compare two texts that mean the same.
fn without_positions(document: &Document) -> String {
    let text = format!("{document:?}");
    let mut parts = text.split("Span {");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('}').expect("a span ends").1);
    }
    plain
}

#[test]
fn the_example_reads_without_problems() {
    let (document, problems) = read(EXAMPLE);
    assert_eq!(problems, []);
    let [limit] = &document.limits[..] else { panic!("one limit") };
    assert_eq!(limit.name.value, "per-user");
    assert_eq!((limit.name.at.line, limit.name.at.column, limit.name.at.length), (4, 11, 8));
    assert_eq!(limit.conditions.len(), 4);
    assert_eq!(limit.terms.retry_jitter, Some(Jitter(250_000)));
    assert_eq!(limit.terms.on_store_error, Some(OnStoreError::Closed));
    let sustained = limit.terms.sustained.unwrap();
    assert_eq!((sustained.rate.value, sustained.window.value), (10, tidegate_core::Nanos::SECOND));
    let Some(CostEntry::From { from, max, .. }) = &limit.terms.cost else { panic!("a cost of the request") };
    assert_eq!((from.value.to_string().as_str(), *max), ("header:x-request-weight", 1000));
    assert_eq!(document.routes[1].methods[0].value, "GET");
    let tenant = document.tenants[2].rate_limit.as_ref().unwrap();
    assert_eq!(tenant.scope.as_ref().unwrap().value, crate::Descriptor::Route);
    assert_eq!(tenant.terms.burst.unwrap().value, Burst::Allowance(1_500_000));
    let partner = document.tenants[1].rate_limit.as_ref().unwrap().budget.unwrap();
    assert_eq!(partner.overcommit.unwrap().value, 1_200_000);
    assert_eq!(document.allow[1].until.unwrap().value, tidegate_core::Nanos::from_secs(1_798_761_600));
    assert_eq!(document.bursts[0].key.len(), 2);
    assert!(document.trust);
}

#[test]
fn json_says_the_same() {
    let yaml = "version: 1\nlimits:\n- name: a\n  scope: global\n  match: {path: [/a/*, /b], ip: 10.0.0.1}\n  sustained: {rate: 5, window: 30s}\n  cost: 3\n";
    let json = "{\n\t\"version\": 1,\n\t\"limits\": [{\n\t\t\"name\": \"a\", \"scope\": \"global\",\n\t\t\"match\": {\"path\": [\"\\/a\\/*\", \"/b\"], \"ip\": \"10.0.0.1\"},\n\t\t\"sustained\": {\"rate\": 5, \"window\": \"30s\"}, \"cost\": 3\n\t}]\n}\n";
    let (from_yaml, problems) = read(yaml);
    assert_eq!(problems, []);
    let (from_json, problems) = read(json);
    assert_eq!(problems, []);
    assert_eq!(without_positions(&from_yaml), without_positions(&from_json));
    assert_eq!(from_json.limits[0].key.as_ref().map(Vec::len), Some(0));
}

#[test]
fn defaults_hold_where_nothing_is_written() {
    let (document, problems) = read(
        "version: 1\ndefaults: { unknown_tenant: deny, headers: ietf }\nlimits:\n  - { name: q, key: [ip], sustained: { rate: 1 }, strategy: queue }\n  - { name: d, key: [ip], sustained: { rate: 1 }, strategy: degrade, cost: { from: 'query:n' } }\nbursts:\n  - { name: b, scope: user }\n",
    );
    assert_eq!(problems, []);
    assert!(document.defaults.deny_unknown_tenants);
    assert_eq!(document.defaults.headers, Some(vec![HeaderFamily::Ietf]));
    let queue = StrategyEntry::Queue { max_depth: 100, max_wait: tidegate_core::Nanos::from_secs(2) };
    assert_eq!(document.limits[0].terms.strategy, queue);
    assert_eq!(document.limits[1].terms.strategy, StrategyEntry::Degrade { tag: "degraded".into() });
    let Some(CostEntry::From { default, max, .. }) = document.limits[1].terms.cost else { panic!("from") };
    assert_eq!((default, max), (1, u32::MAX));
    let burst = &document.bursts[0];
    assert_eq!(
        (burst.window.get(), burst.threshold, burst.penalty.get()),
        (10_000_000_000, 50, 300_000_000_000)
    );
}

#[test]
fn nothing_at_all_says_how_to_begin() {
    assert_eq!(
        printed(""),
        ["error: line 1, column 1: the document is empty; want a policy; hint: begin with `version: 1`"]
    );
    assert_eq!(
        printed("limits: []"),
        ["error: line 1, column 1: `version` is missing; want the number 1; hint: add `version: 1`"]
    );
    assert_eq!(
        printed("version: 2"),
        ["error: line 1, column 10: version: 2 is out of range; saw 2; want the number 1"]
    );
    assert_eq!(read("version: 1\nlimits: []\n").1, []);
    assert_eq!(read("version: 1\n").1, []);
}

#[test]
fn twenty_mistakes_are_told_at_once() {
    let text = include_str!("twenty_mistakes.yaml");
    let (document, problems) = read(text);
    let errors: Vec<&Problem> = problems.iter().filter(|problem| problem.is_error()).collect();
    // Each wrong line has a comment.
    let expected: Vec<u32> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.contains("# wrong"))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(expected.len(), 20);
    let seen: Vec<u32> = errors.iter().map(|problem| problem.at.line).collect();
    assert_eq!(seen, expected, "{problems:#?}");
    assert!(problems.iter().is_sorted_by_key(|problem| problem.at.line));
    let names: Vec<&str> = document.limits.iter().map(|limit| limit.name.value.as_str()).collect();
    assert_eq!(names, ["sound"], "entries without errors are kept");
    assert_eq!(document.routes.len(), 1);
}

#[test]
fn problems_of_the_text_and_of_the_shape_come_together() {
    let (document, problems) = read(
        "version: 1\nlimits:\n  - name: a\n    name: b\n    key: []\n    sustained: &x { rate: 0 }\n    cost: *x\n",
    );
    let seen: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        seen,
        [
            "duplicate key \"name\"",
            "anchors are not supported",
            "0 is out of range",
            "aliases are not supported"
        ]
    );
    assert_eq!(document.limits.len(), 0);
}

#[test]
fn many_warnings_do_not_hide_an_error() {
    let mut text = String::from("version: 1\nlimits:\n");
    (0..1_500).for_each(|n| text.push_str(&format!("  - {{ name: n{n}, sustained: {{ rate: 1 }} }}\n")));
    text.push_str("routes: [{ path: x }]\n");
    let (document, problems) = read(&text);
    assert_eq!(document.limits.len(), 1_500);
    assert_eq!(problems.len(), 1_001);
    assert!(problems.last().unwrap().is_error());
}

#[test]
fn a_tree_reads_like_its_text() {
    let node = tidegate_document::parse(EXAMPLE).unwrap();
    assert_eq!(format!("{:?}", read_node(&node).0), format!("{:?}", read(EXAMPLE).0));
}

#[test]
fn every_word_of_the_tables_is_read() {
    let (document, problems) = read("version: 1\nlimits: []\n");
    assert!(problems.is_empty() && document.limits.is_empty());
    let listed = |object: &str, field: &str| -> Vec<&'static str> {
        let object = crate::document::table::OBJECTS.iter().find(|known| known.name == object).unwrap();
        match object.shape_of(field).unwrap() {
            Shape::Word(words) | Shape::OneOrMore(Shape::Word(words)) => {
                words.iter().map(|word| word.name).collect()
            }
            _ => panic!("{field} takes words"),
        }
    };
    fn names<T>(words: &[(&'static str, T)]) -> Vec<&'static str> {
        words.iter().map(|(name, _)| *name).collect()
    }
    assert_eq!(listed("limit", "algorithm"), names(words::ALGORITHMS));
    assert_eq!(listed("limit", "preset"), names(words::PRESETS));
    assert_eq!(listed("limit", "carry"), names(words::CARRY));
    assert_eq!(listed("limit", "mode"), names(words::MODES));
    assert_eq!(listed("limit", "missing"), names(words::MISSING));
    assert_eq!(listed("limit", "headers"), names(words::FAMILIES));
    assert_eq!(listed("limit", "on_store_error"), names(words::STORE_ERRORS));
    assert_eq!(listed("rate_limit", "sharing"), names(words::SHARING));
    assert_eq!(listed("budget", "mode"), names(words::BUDGETS));
    for scope in listed("limit", "scope") {
        let node = tidegate_document::parse(scope).unwrap();
        assert!(fields::scope_descriptor(&node).is_some(), "{scope}");
    }
}

/// The example with random pieces replaced.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..40_usize, "[ -~\t\n]{0,6}");
    prop::collection::vec(edit, 1..6).prop_map(|edits| {
        let mut text: Vec<char> = EXAMPLE.chars().collect();
        for (index, length, insert) in edits {
            let start = index.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
            if text.is_empty() {
                break;
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn reading_never_panics(text in prop_oneof![mutated(), any::<String>()]) {
        let (_, problems) = read(&text);
        for problem in problems {
            prop_assert!(problem.at.line >= 1 && problem.at.column >= 1 && problem.at.length >= 1);
            prop_assert!(!problem.message.is_empty() && problem.message.len() < 500, "{}", problem.message);
        }
    }
}
