//! `tidegate explain`

use super::{document, snapshot, tidegate, tidegate_given, tidegate_in_colour};
use crate::support::home::Home;

/// A fixed time, so that the output does not depend on the day.
fn explain(policy: &str, request: &str, more: &[&str]) -> String {
    let mut args = vec!["explain", "--policy", policy, "--request", request, "--at-ms", "1800000000000"];
    args.extend_from_slice(more);
    let ran = tidegate(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

#[test]
fn a_denial_tells_who_and_how_long() {
    let request =
        r#"{"user":"42","plan":"free","method":"GET","path":"//api/%76ideos?q=cats","ip":"203.0.113.7"}"#;
    snapshot("explain-denied.txt", &explain(&document("explained.yaml"), request, &["--after", "50"]));
    snapshot(
        "explain-denied.json",
        &explain(&document("explained.yaml"), request, &["--after", "50", "--format", "json"]),
    );
}

#[test]
fn an_admission_tells_what_did_not_apply() {
    let request = r#"{"user":"42","plan":"pro","method":"POST","path":"/api/exports","headers":{"X-Weight":"7"},"trust":0.5}"#;
    snapshot("explain-allowed.txt", &explain(&document("explained.yaml"), request, &[]));
}

#[test]
fn a_tenant_is_told_with_its_chain() {
    let policy = "examples/tenant-hierarchy/policy.yaml";
    snapshot("explain-tenant.txt", &explain(policy, r#"{"tenant":"tenant-a1"}"#, &["--after", "100"]));
}

#[test]
fn an_upstreams_budget_is_told_with_who_refuses() {
    let policy = "examples/tenant-upstreams/policy.yaml";
    let request = r#"{"tenant":"newcomer","host":"api.openai.com"}"#;
    snapshot("explain-upstream.txt", &explain(policy, request, &["--after", "5"]));
    snapshot("explain-upstream.json", &explain(policy, request, &["--format", "json"]));
    let own = explain(policy, request, &["--after", "10"]);
    assert!(own.starts_with("DENIED by tenant:*: token_bucket_exceeded"), "{own}");
    assert!(!own.contains("not by the tenant's own"), "{own}");
}

#[test]
fn a_limit_that_a_child_would_loosen_is_told_as_its_ancestors() {
    let policy = "examples/unlisted-tenants/policy.yaml";
    snapshot("explain-enforced.txt", &explain(policy, r#"{"tenant":"shop"}"#, &["--after", "5"]));
    let nobody = explain(policy, "{}", &[]);
    assert!(nobody.contains("the default tenant: the request names none, charged"), "{nobody}");
}

#[test]
fn where_a_limit_lets_requests_wait_their_priority_is_told() {
    let home = Home::new();
    let policy = home.write(
        "policy.yaml",
        "version: 1
defaults: { priority: { from: 'header:x-priority' } }
limits:
  - { name: line, match: { path: /line }, key: [], sustained: { rate: 1 }, strategy: queue, queue: { max_depth: 9, max_wait: 9s } }
",
    );
    let of = |request: &str| {
        let text = explain(&policy, request, &[]);
        let line = text.lines().find(|line| line.starts_with("  priority")).map(str::to_owned);
        let json: serde_json::Value =
            serde_json::from_str(&explain(&policy, request, &["--format", "json"])).unwrap();
        (line, json["request"]["priority"].as_u64())
    };
    let told =
        |priority: u64| (Some(format!("  priority  {priority}, where it has to wait")), Some(priority));
    assert_eq!(of(r#"{"path":"/line"}"#), told(50));
    assert_eq!(of(r#"{"path":"/line","headers":{"x-priority":"90"}}"#), told(90));
    assert_eq!(of(r#"{"path":"/line","headers":{"x-priority":"90"},"priority":10}"#), told(10));
    assert_eq!(of(r#"{"path":"/other","priority":10}"#), (None, None), "no limit lets it wait");
}

#[test]
fn gaps_are_told() {
    let policy = "examples/no-gaps/policy.yaml";
    snapshot("explain-missing-key.txt", &explain(policy, r#"{"path":"/api/items"}"#, &[]));
    let shared = explain(policy, r#"{"path":"/about"}"#, &[]);
    assert!(shared.contains("the bucket of all requests without user (`missing: shared`)"), "{shared}");
    let excepted = explain(policy, r#"{"path":"/api/health","method":"GET"}"#, &[]);
    assert!(
        excepted.contains("does not apply: its `unless` holds: path: /api/health, methods: GET"),
        "{excepted}"
    );
    let fixed = r#"{"path":"/api/reports/7","method":"POST","headers":{"x-api-key":"k"}}"#;
    let fixed = explain(policy, fixed, &[]);
    assert!(fixed.contains("costs 1 (1 for every request, whatever its route)"), "{fixed}");
    let upstream = explain("examples/upstreams/policy.yaml", r#"{"host":"API.openai.com:443"}"#, &[]);
    assert!(upstream.contains("  upstream  openai\n"), "{upstream}");
}

#[test]
fn gates_come_first() {
    let blocked = explain(&document("explained.yaml"), r#"{"user":"666"}"#, &[]);
    assert!(blocked.starts_with("DENIED by block: blocked; retry after"), "{blocked}");
    snapshot("explain-blocked.txt", &blocked);
    let allowed = explain(&document("explained.yaml"), r#"{"ip":"10.1.2.3"}"#, &[]);
    assert!(allowed.starts_with("ALLOWED: allowlisted"), "{allowed}");
    snapshot("explain-allowlisted.txt", &allowed);
    assert!(allowed.contains("takes nothing from any limit"), "{allowed}");
    assert!(!allowed.contains("leaves"), "no bucket is shown as charged: {allowed}");
}

#[test]
fn what_is_taken_is_told_to_machines() {
    let takes = |request: &str| {
        let told = explain(&document("explained.yaml"), request, &["--format", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
        let limits = told["limits"].as_array().expect("a list").clone();
        limits.into_iter().find(|limit| limit["name"] == "per-address").expect("a limit")["bucket"]["takes"]
            .clone()
    };
    assert_eq!(takes(r#"{"ip":"203.0.113.7","cost":2}"#), 2);
    assert_eq!(takes(r#"{"ip":"203.0.113.7","cost":2000}"#), 0, "it is refused");
    assert_eq!(takes(r#"{"ip":"10.1.2.3"}"#), 0, "it is on the allow list");
}

#[test]
fn a_cost_above_a_capacity_is_told_as_such() {
    let told =
        explain(&document("explained.yaml"), r#"{"user":"1","plan":"free","path":"/api/x","cost":51}"#, &[]);
    assert!(told.contains("cost_exceeds_capacity; retrying will not help"), "{told}");
    assert!(told.contains("can never hold 51"), "{told}");
}

#[test]
fn a_request_comes_from_a_file_or_standard_input() {
    let args = ["explain", "--policy", "examples/quick-start/policy.yaml", "--request", "-"];
    let ran = tidegate_given(&args, r#"{"user":"42"}"#);
    assert_eq!((ran.code, ran.out.starts_with("ALLOWED: ok")), (0, true), "{}{}", ran.out, ran.err);
}

#[test]
fn what_is_no_request_is_told() {
    for (request, said) in [
        (r#"{"usr":"42"}"#, "unknown member `usr`"),
        (r#"{"user":4.2}"#, "`user`"),
        (r#"{"cost":-1}"#, "`cost`: -1 is not an integer from 0 to 4294967295"),
        (r#"{"cost":1.5}"#, "`cost`: 1.5 is not an integer"),
        (r#"{"ip":"nowhere"}"#, "`ip`: `nowhere` is not an IP address"),
        (r#"{"trust":2}"#, "`trust`: 2 is not a number from 0 to 1"),
        (r#"{"user":"a","user":"b"}"#, "`user` is there twice"),
        ("no-such-file.json", "neither a JSON object nor an existing file"),
    ] {
        let ran =
            tidegate(&["explain", "--policy", "examples/quick-start/policy.yaml", "--request", request]);
        assert_eq!(ran.code, 2, "{request}");
        assert!(ran.err.contains(said), "{request}: {}", ran.err);
    }
}

#[test]
fn an_invalid_policy_is_reported() {
    let ran = tidegate(&["explain", "--policy", &document("mistakes.yaml")]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("unknown field"), "{}", ran.err);
}

#[test]
fn colours_are_for_terminals() {
    let args = ["explain", "--policy", "examples/quick-start/policy.yaml", "--request", "{\"user\":\"1\"}"];
    assert!(tidegate_in_colour(&args).contains("\x1b[32;1mALLOWED"));
}

#[test]
fn with_settings_it_says_where_each_member_came_from() {
    let home = Home::new();
    let key = tidegate(&["key", "create", "--file", &home.arg("keys.yaml"), "--client", "app-1"]).out;
    let settings = home.write(
        "settings.yaml",
        "jwt: { key: k, algorithm: HS256 }\n\
         identity: { tenant: [header:x-tenant, 'host:{tenant}.example.com'], client: api_key, trust: query:trust }\n\
         api_keys: { file: keys.yaml }\n",
    );
    let request = |trust: &str| {
        format!(
            r#"{{"host":"acme.example.com","path":"/?trust={trust}","plan":"free","jwt":{{"sub":"42"}},"headers":{{"x-api-key":"{}"}}}}"#,
            key.trim()
        )
    };
    let policy = document("explained.yaml");
    let told = explain(&policy, &request("0.5"), &["--config", &settings]);
    let (_, identity) = told.split_once("\nidentity\n").expect("a section of its own");
    let expected = "  plan      free  from request\n  tenant    acme  from host:{tenant}.example.com\n  client    app-1  from api_key\n  trust     0.5  from query:trust\n  user      42  from jwt:sub\n";
    assert_eq!(identity, expected);
    let json = explain(&policy, &request("0.5"), &["--config", &settings, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["identity"]["tenant"]["source"], "host:{tenant}.example.com");
    assert_eq!(json["identity"]["user"]["value"], "42");
    let args = ["explain", "--policy", &policy, "--config", &settings, "--request", &request("much")];
    let ran = tidegate(&args);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("`query:trust` must be a number from 0 to 1"), "{}", ran.err);
}

#[test]
fn a_trust_score_is_told_with_its_terms() {
    let home = Home::new();
    let policy = home.write(
        "policy.yaml",
        "version: 1\nadaptive: { trust: true }\nlimits: [{ name: a, key: [user], sustained: { rate: 10 } }]\n",
    );
    let accounts = "users: [{ user: 42, created: 2026-11-03T08:00:00Z, email_verified: true }]\n";
    home.write("trust.yaml", accounts);
    let settings = home.write("settings.yaml", "trust: { file: trust.yaml, claims: { success_rate: ok } }\n");
    let request = r#"{"user":"42","jwt":{"ok":"0.9"}}"#;
    let told = explain(&policy, request, &["--config", &settings]);
    let score = "trust score\n  account age    +0.200000\n  verified email +0.200000\n  success rate   +0.450000\n  \
                 violations     -0.000000\n  trust           0.850000\n";
    assert!(told.contains("scaled by trust 0.85") && told.ends_with(score), "{told}");
    let json = explain(&policy, request, &["--config", &settings, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(
        (&json["trust"]["trust"], &json["trust"]["inputs"]["account_age_days"]),
        (&0.85.into(), &73.into())
    );
    let stranger = explain(&policy, r#"{"user":"43"}"#, &["--config", &settings]);
    assert!(stranger.contains("nothing is known about the account"), "{stranger}");
    home.write("trust.yaml", "users: [{ user: 42, verified: true }]\n");
    let refused = tidegate(&["explain", "--policy", &policy, "--request", request, "--config", &settings]);
    assert!(refused.code == 2 || refused.code == 1, "{}", refused.code);
    assert!(refused.err.contains("email_verified"), "{}", refused.err);
}
