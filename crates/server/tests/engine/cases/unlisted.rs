//! Tenants that are not listed, and requests that name none.

use serde_json::{Value, json};

use super::{allowed, decide, limits, listed, members, refused, tenants, times};

/// A root of ten a minute for all, and three a minute for each tenant that is not listed.
fn policy() -> Value {
    tenants(json!([
        {"id": "root", "rate_limit": {"sharing": "enforce", "sustained": {"rate": 10, "window": "minute"},
                                      "budget": {"mode": "shared"}}},
        {"id": "known", "parent": "root", "rate_limit": {"sustained": {"rate": 5, "window": "minute"}}},
        {"id": "*", "parent": "root", "rate_limit": {"sustained": {"rate": 3, "window": "minute"}}},
    ]))
}

fn of(tenant: &str, count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": tenant}))
}

#[test]
fn every_unlisted_tenant_has_a_bucket_and_all_share_what_is_above() {
    let decisions = decide(&policy(), [of("x", 4), of("y", 4), of("known", 2), of("z", 4)].concat());
    assert_eq!(allowed(&decisions[..4]), 3);
    assert_eq!(allowed(&decisions[4..8]), 3);
    assert_eq!(allowed(&decisions[10..]), 2, "what the root has left");
    assert_eq!(listed(&decisions[0]), ["tenant:root", "tenant:*"]);
    assert_eq!(decisions[3]["violated_rule"], "tenant:*", "not the client's word");
    assert_eq!(decisions[13]["violated_rule"], "tenant:root");
    assert_eq!(listed(&decisions[8]), ["tenant:root", "tenant:known"]);
}

#[test]
fn with_such_an_entry_no_tenant_is_unknown() {
    let mut policy = policy();
    policy["defaults"] = json!({"unknown_tenant": "deny"});
    assert_eq!(decide(&policy, of("x", 1))[0]["reason"], "ok");
    policy["tenants"].as_array_mut().unwrap().pop();
    assert_eq!(decide(&policy, of("x", 1))[0]["reason"], "unknown_tenant");
}

/// Ids are what clients write, so the buckets must differ whatever they write.
#[test]
fn a_scope_divides_the_bucket_of_each_unlisted_tenant() {
    let mut policy = policy();
    policy["tenants"][2] =
        json!({"id": "*", "rate_limit": {"scope": "user", "sustained": {"rate": 1, "window": "minute"}}});
    let by = |tenant: &str, user: Option<&str>| {
        let mut request = json!({"at_ms": 0, "tenant": tenant});
        if let Some(user) = user {
            request["user"] = json!(user);
        }
        request
    };
    let trace = vec![
        by("x", Some("1")),
        by("x", Some("2")),
        by("x", None),
        by("y", Some("1")),
        by("x\u{1f}", Some("1")),
        by("x", Some("\u{1f}1")),
        by("x\u{1f}\u{1f}1", None),
        by("x", Some("1")),
    ];
    let decisions = decide(&policy, trace);
    assert_eq!(allowed(&decisions), 7, "only the last one is a second request");
    assert_eq!(decisions[7]["allowed"], false);
}

#[test]
fn a_request_without_a_tenant_belongs_to_the_default() {
    let mut policy = policy();
    policy["defaults"] = json!({"tenant": "known"});
    policy["limits"] = json!([{"name": "by-tenant", "key": ["tenant"], "match": {"tenant": "known"},
                               "sustained": {"rate": 4, "window": "minute"}}]);
    let decisions = decide(&policy, times(5, json!({"at_ms": 0})));
    assert_eq!(allowed(&decisions), 4);
    assert_eq!(listed(&decisions[0]), ["by-tenant", "tenant:root", "tenant:known"]);
    assert_eq!(decide(&policy, of("known", 5))[4]["violated_rule"], "by-tenant", "the same bucket");
    policy["defaults"] = json!({"tenant": "someone"});
    assert_eq!(listed(&decide(&policy, times(1, json!({"at_ms": 0})))[0]), ["tenant:root", "tenant:*"]);
}

#[test]
fn a_default_tenant_must_be_known() {
    let mut policy = policy();
    policy["tenants"].as_array_mut().unwrap().pop();
    policy["defaults"] = json!({"tenant": "knwon"});
    let problems = refused(policy);
    assert!(problems.contains("did you mean `known`?"), "{problems}");
    let mut without = limits(json!([{"name": "by-tenant", "key": ["tenant"], "sustained": {"rate": 1}}]));
    without["defaults"] = json!({"tenant": "anybody"});
    let decisions = decide(&without, times(2, json!({"at_ms": 0})));
    assert_eq!(members(&decisions[1], ["allowed", "violated_rule"]), json!([false, "by-tenant"]));
}

#[test]
fn the_entry_for_unlisted_tenants_has_neither_budget_nor_children() {
    let mut policy = policy();
    policy["tenants"][2]["rate_limit"]["budget"] = json!({"mode": "shared"});
    assert!(refused(policy.clone()).contains("the entry `*` cannot have a budget"));
    policy["tenants"][2]["rate_limit"].as_object_mut().unwrap().remove("budget");
    policy["tenants"][1]["parent"] = json!("*");
    assert!(refused(policy).contains("`*`"));
}
