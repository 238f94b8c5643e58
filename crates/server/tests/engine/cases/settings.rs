//! Every setting of a tenant's rate limit is enforced.

use serde_json::{Value, json};

use super::{allowed, decide, members, tenants, times};

/// One tenant of two per minute, with another setting.
fn tenant_with(member: &str, value: Value) -> Value {
    let mut limit = json!({"sustained": {"rate": 2, "window": "minute"}});
    limit[member] = value;
    tenants(json!([{"id": "acme", "rate_limit": limit}]))
}

fn by(user: &str) -> Value {
    json!({"at_ms": 0, "tenant": "acme", "user": user})
}

#[test]
fn numbers_are_those_of_the_policy() {
    for rate in [1, 5, 9] {
        let policy =
            tenants(json!([{"id": "acme", "rate_limit": {"sustained": {"rate": rate, "window": "minute"}}}]));
        assert_eq!(allowed(&decide(&policy, times(10, by("1")))), rate);
    }
}

#[test]
fn scope_divides_the_tenants_bucket() {
    let one_bucket =
        decide(&tenant_with("scope", json!("tenant")), [times(3, by("1")), times(3, by("2"))].concat());
    assert_eq!(allowed(&one_bucket), 2);
    let nobody = json!({"at_ms": 0, "tenant": "acme"});
    let trace = [times(3, by("1")), times(3, by("2")), times(3, nobody)].concat();
    let decisions = decide(&tenant_with("scope", json!("user")), trace);
    assert_eq!(allowed(&decisions), 6, "two users, and one bucket for requests without a user");
    assert_eq!(members(&decisions[2], ["violated_rule", "violated_tier"]), json!(["tenant:acme", "tenant"]));
}

#[test]
fn algorithm_and_mode_are_the_tenants() {
    let fixed = decide(&tenant_with("algorithm", json!("fixed_window")), times(3, by("1")));
    assert_eq!(members(&fixed[2], ["reason", "retry_after_ms"]), json!(["fixed_window_exceeded", 60_000]));
    let shadow = decide(&tenant_with("mode", json!("shadow")), times(3, by("1")));
    assert_eq!(members(&shadow[2], ["allowed", "shadow_denied"]), json!([true, ["tenant:acme"]]));
}

#[test]
fn strategies_are_the_tenants() {
    let degraded = decide(&tenant_with("strategy", json!("degrade")), times(3, by("1")));
    assert_eq!(members(&degraded[2], ["allowed", "degraded", "reason"]), json!([true, true, "ok"]));
    let mut policy = tenant_with("strategy", json!("queue"));
    policy["tenants"][0]["rate_limit"]["queue"] = json!({"max_depth": 5, "max_wait": "60s"});
    let queued = decide(&policy, times(5, by("1")));
    assert_eq!(queued[2]["queued_ms"], 30_000);
    assert_eq!(queued[3]["queued_ms"], 60_000);
    assert_eq!(members(&queued[4], ["allowed", "reason"]), json!([false, "queue_timeout"]));
}

#[test]
fn unknown_tenants_are_let_by_or_refused() {
    let mut policy = tenant_with("scope", json!("tenant"));
    let ghost = || vec![json!({"at_ms": 0, "tenant": "ghost"})];
    assert_eq!(decide(&policy, ghost())[0]["reason"], "no_limit");
    policy["defaults"] = json!({"unknown_tenant": "deny"});
    let names =
        ["allowed", "reason", "violated_rule", "violated_tier", "retry_after", "retry_after_ms", "limits"];
    let expected = json!([false, "unknown_tenant", "unknown_tenant", "tenant", null, null, []]);
    assert_eq!(members(&decide(&policy, ghost())[0], names), expected);
    policy["defaults"]["mode"] = json!("shadow");
    assert_eq!(
        members(&decide(&policy, ghost())[0], ["reason", "shadow_denied"]),
        json!(["no_limit", ["unknown_tenant"]])
    );
}
