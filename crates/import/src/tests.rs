//! Tests of all formats together, and of rule tables and endpoints.

use super::*;

/// The policy, and all notes in one text.
pub(crate) fn imported(from: ImportFormat, text: &str) -> (String, String) {
    let Imported { policy, notes } = import(from, "file", text).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(|problem| format!("{problem}\n")).collect::<String>())
    });
    tidegate_document::parse(&policy).unwrap();
    (policy, notes.iter().map(|note| format!("{note}\n")).collect())
}

/// The problems of a document, one per line.
pub(crate) fn refused(from: ImportFormat, text: &str) -> String {
    let problems = import(from, "file", text).expect_err("it cannot be understood");
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn formats_have_names() {
    for (name, format, sentence) in ImportFormat::NAMES {
        assert_eq!(ImportFormat::from_name(name), Some(*format));
        assert_eq!(format.name(), *name);
        assert!(sentence.len() > 20);
    }
    assert_eq!(ImportFormat::from_name("nginx"), None);
}

#[test]
fn a_document_of_another_kind_is_refused() {
    for (name, format, _) in ImportFormat::NAMES {
        for text in ["", "42", "{}", "[]", "[1, 2]", "{a: b}"] {
            match import(*format, "file.yaml", text) {
                Ok(imported) => {
                    assert_eq!(
                        (text, imported.policy.as_str()),
                        ("[]", "version: 1\nlimits: []\n"),
                        "{name}"
                    );
                    assert!(imported.notes[0].what.contains("is empty"), "{name}");
                }
                Err(problems) => assert!(problems.iter().all(|problem| !problem.want.is_empty()), "{name}"),
            }
        }
    }
}

#[test]
fn a_document_that_is_too_large_is_refused() {
    let text = " ".repeat(DOCUMENT_BYTES_MAX + 1);
    assert!(refused(ImportFormat::Envoy, &text).contains("too large"));
}

#[test]
fn problems_say_where() {
    let text = "- namespace: a\n  max_value: many\n  seconds: 60\n";
    let problems = import(ImportFormat::Limitador, "limits.yaml", text).unwrap_err();
    assert_eq!((problems[0].at.line, problems[0].path.as_str()), (2, "[0].max_value"));
    assert_eq!(problems[0].saw, "`many`");
}

#[test]
fn rows_may_be_json() {
    let text = r#"{"rules": [{"rule_id": 1, "key_pattern": "user:{user_id}", "scope": "user",
        "rate_per_second": 0.25, "burst_capacity": 3, "plan": null, "is_active": false}]}"#;
    let (policy, _) = imported(ImportFormat::Rules, text);
    assert!(policy.contains("name: user\n    enabled: false\n    key: [user]\n"), "{policy}");
    assert!(policy.contains("sustained: { rate: 25, window: 100s }"), "{policy}");
}

#[test]
fn patterns_say_what_is_counted() {
    let header = "key_pattern,scope,rate_per_second,burst_capacity\n";
    let of = |row: &str| imported(ImportFormat::Rules, &format!("{header}{row},1,1\n"));
    assert!(of("user:42,user").0.contains("match: { user: \"42\" }\n    key: [user]"));
    assert!(of("endpoint:/api/*,endpoint").0.contains("match: { path: /api/** }\n    key: [route]"));
    assert!(of("endpoint,endpoint").0.contains("key: [route]"));
    assert!(of("ip,ip").0.contains("key: [ip]"));
    let (policy, notes) = of("global,user");
    assert!(policy.contains("scope: global") && notes.contains("the scope `user`"), "{notes}");
    for row in ["team:{team},user", "user:{a}:{b},user", "endpoint:search,endpoint"] {
        refused(ImportFormat::Rules, &format!("{header}{row},1,1\n"));
    }
}

#[test]
fn a_table_names_every_bad_row() {
    let text = "key_pattern,rate_per_second,burst_capacity\nuser,0,5\nip,fast,5\nglobal,1,0.5\n";
    let problems = refused(ImportFormat::Rules, text);
    assert_eq!(problems.lines().count(), 3, "{problems}");
    assert!(problems.contains("line 3, column 4: [1].rate_per_second"), "{problems}");
}

#[test]
fn narrower_endpoints_come_first() {
    let text = "
- { endpoint: /api/*, limit_type: per_user, capacity: 10, refill_rate: 1 }
- { endpoint: /api/login, limit_type: per_user, capacity: 5, refill_rate: 1 }
- { endpoint: /api/login, limit_type: per_ip, capacity: 5, refill_rate: 1 }
";
    let (policy, notes) = imported(ImportFormat::Endpoints, text);
    let order = ["per_user:/api/login", "per_user:/api/", "per_ip:/api/login"];
    let positions: Vec<_> = order.iter().map(|name| policy.find(&format!("\"{name}\""))).collect();
    assert!(positions.is_sorted() && positions[0].is_some(), "{policy}");
    assert_eq!(policy.matches("group: per_user").count(), 2, "{policy}");
    assert!(notes.contains("is moved before"), "{notes}");
}

#[test]
fn endpoints_may_be_a_map_and_windows_may_slide() {
    let text = "/login: { limit_type: per_ip, capacity: 10, window: 60 }\n";
    let (policy, _) = imported(ImportFormat::Endpoints, text);
    assert!(
        policy.contains("algorithm: sliding_window\n    sustained: { rate: 10, window: minute }"),
        "{policy}"
    );
    let fraction = "[{ endpoint: /a, limit_type: global, capacity: 5, refill_rate: 1, burst_allowance: 1.5, owner: me }]";
    let (policy, notes) = imported(ImportFormat::Endpoints, fraction);
    assert!(policy.contains("capacity: 7") && policy.contains("key: [route]"), "{policy}");
    assert!(notes.contains("rounded down to 7") && notes.contains("`owner` is left out"), "{notes}");
}

#[test]
fn numbers_that_a_sliding_window_does_not_use_are_noted() {
    let text = "[{ endpoint: /a, limit_type: global, algorithm: sliding_window, capacity: 5.5, refill_rate: 1, \
                burst_allowance: 1.5, window: 60 }]";
    let (policy, notes) = imported(ImportFormat::Endpoints, text);
    assert!(
        policy.contains("sustained: { rate: 5, window: minute }") && !policy.contains("burst"),
        "{policy}"
    );
    for what in ["`burst_allowance` is left out", "`refill_rate` is left out", "rounded down to 5"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
    let unknown = text.replace("sliding_window", "leaky_bucket");
    assert!(refused(ImportFormat::Endpoints, &unknown).contains("this algorithm is not known"));
}

#[test]
fn rows_that_limit_the_same_are_noted_and_both_apply() {
    let header = "key_pattern,plan,rate_per_second,burst_capacity\n";
    let of = |rows: &str| imported(ImportFormat::Rules, &format!("{header}{rows}"));
    for (rows, says) in [
        ("ip:{ip},free,1,1\nip:{ip},pro,1,1\nip:{a},free,2,2\n", "the plan `free`"),
        ("global,,1,1\nip:{ip},pro,1,1\nglobal,NULL,2,2\n", "no plan"),
    ] {
        let (policy, notes) = of(rows);
        assert_eq!(policy.matches("- name: ").count(), 3, "{policy}");
        let what = format!("the rows `[0]` in line 2 and `[2]` in line 4 have the same pattern, and {says}");
        assert!(notes.contains(&what), "{notes}");
    }
    let (_, notes) = of("ip:{ip},free,1,1\nip:{ip},,1,1\nip:10.0.0.1,free,1,1\n");
    assert!(!notes.contains("the same pattern, and"), "{notes}");
}

#[test]
fn what_holds_for_many_places_is_said_once() {
    let row = "{ key_pattern: ip, rate_per_second: 1, burst_capacity: 1, rule_id: 1 }";
    for (rows, end) in [(1, ")"), (2, "), and in 1 more place"), (3, "), and in 2 more places")] {
        let text = format!("[{}]", vec![row; rows].join(", "));
        let (_, notes) = imported(ImportFormat::Rules, &text);
        let found: Vec<&str> = notes.lines().filter(|line| line.contains("`rule_id` is left out")).collect();
        assert!(found.len() == 1 && found[0].ends_with(end), "{notes}");
    }
}

#[test]
fn a_document_with_nothing_to_import_is_refused() {
    for (format, text, wanted) in [
        (ImportFormat::Oagw, "{a: b}", "`rate_limit` object"),
        (ImportFormat::Oagw, "upstreams: [ { id: a } ]\nroutes: [ { path: /free } ]", "`rate_limit` object"),
        (ImportFormat::Oagw, "rate_limit_sync: { enabled: true }", "`rate_limit` object"),
        (ImportFormat::Fairvisor, "{a: b}", "`policies`, `rules`"),
        (ImportFormat::Envoy, "domain: a\ndescriptors: [ { key: x } ]", "`descriptors`"),
        (ImportFormat::Limitador, "{a: b}", "a list of limits"),
        (ImportFormat::Rules, "{a: b}", "a list of rows"),
        (ImportFormat::Endpoints, "{a: b}", "`endpoint`"),
    ] {
        let problems = refused(format, text);
        assert!(problems.contains(wanted), "{text}: {problems}");
    }
}

#[test]
fn a_list_that_is_empty_on_purpose_is_a_policy_without_limits() {
    for (format, text) in [
        (ImportFormat::Oagw, "routes: []"),
        (ImportFormat::Fairvisor, "rules: []"),
        (ImportFormat::Fairvisor, "policies: []"),
        (ImportFormat::Envoy, "domain: a\ndescriptors: []"),
        (ImportFormat::Limitador, "limits: []"),
        (ImportFormat::Rules, "{rules: []}"),
        (ImportFormat::Endpoints, "configs: []"),
    ] {
        let (policy, notes) = imported(format, text);
        assert_eq!(policy, "version: 1\nlimits: []\n", "{text}");
        assert!(notes.contains("this list is empty"), "{text}: {notes}");
    }
}

#[test]
fn one_bad_entry_leaves_the_others() {
    let rows = "key_pattern,rate_per_second,burst_capacity\nuser:{a}:{b},1,5\nip,0,5\nglobal,1,5\n";
    let configs = "
- { endpoint: /a, limit_type: per_planet, capacity: 5, refill_rate: 1 }
- { endpoint: b, limit_type: per_ip, capacity: 5, refill_rate: 1 }
- { endpoint: /c, limit_type: per_ip, capacity: 5, refill_rate: 1 }
";
    let limits = "
- { namespace: a, max_value: many, seconds: 60 }
- { max_value: 5, seconds: 60 }
- { namespace: c, max_value: 5, seconds: 60 }
";
    let descriptors = "
domain: edge
descriptors:
  - { key: a, rate_limit: { unit: era, requests_per_unit: 1 } }
  - { value: x, rate_limit: { unit: second, requests_per_unit: 1 } }
  - key: a
    value: x
    rate_limit: { unit: second }
    descriptors: [ { key: b, rate_limit: { unit: second, requests_per_unit: 1 } } ]
";
    for (format, text, bad) in [
        (ImportFormat::Rules, rows, ["`[0]`", "`[1]`"]),
        (ImportFormat::Endpoints, configs, ["`[0]`", "`[1]`"]),
        (ImportFormat::Limitador, limits, ["`[0]`", "`[1]`"]),
        (ImportFormat::Envoy, descriptors, ["`descriptors[1]`", "`descriptors[2].rate_limit`"]),
    ] {
        let (policy, notes) = imported(format, text);
        assert_eq!(policy.matches("- name: ").count(), 1, "{policy}");
        for item in bad {
            assert!(notes.contains(&format!("{item} is not imported")), "{item}: {notes}");
        }
    }
}

#[test]
fn an_entry_that_no_policy_takes_leaves_the_others() {
    let long = "x".repeat(2_000);
    let text = format!(
        "[ {{ namespace: {long}, name: long, max_value: 5, seconds: 60 }}, {{ namespace: a, max_value: 5, seconds: 60 }} ]"
    );
    let (policy, notes) = imported(ImportFormat::Limitador, &text);
    assert!(policy.contains("name: a/limit") && !policy.contains("name: long"), "{policy}");
    assert!(notes.contains("the limit `long` is not imported"), "{notes}");
}

#[test]
fn rates_with_many_decimals_are_cut_and_noted() {
    let of = |rate: &str| {
        let header = "key_pattern,scope,rate_per_second,burst_capacity";
        imported(ImportFormat::Rules, &format!("{header}\nip,ip,{rate},10\n"))
    };
    for (rate, sustained, is_cut) in [
        ("0.083", "{ rate: 83, window: 1000s }", false),
        ("0.33333333", "{ rate: 33333333, window: 100000000s }", false),
        ("0.3333333333", "{ rate: 333333333, window: 1000000000s }", true),
        ("0.0166666666666667", "{ rate: 16666666, window: 1000000000s }", true),
    ] {
        let (policy, notes) = of(rate);
        assert!(policy.contains(sustained), "{rate}: {policy}");
        assert_eq!(notes.contains("the rate is rounded down to"), is_cut, "{rate}: {notes}");
        tidegate_policy::Policy::parse(&policy).unwrap();
    }
}
