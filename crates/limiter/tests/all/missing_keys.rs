//! Requests that lack the key of a limit.

use tidegate::engine::{AdHocLimit, Joint, JointBy, Policy, Reason, Request};
use tidegate::{MemoryOptions, Nanos};

use super::policy::{Manual, limiter, user};

#[test]
fn what_keeps_limits_from_applying_is_counted() {
    let text = "version: 1\nlimits:\n\
                - { name: a, key: [user], sustained: { rate: 9 } }\n\
                - { name: b, key: [tenant, user], match: { path: /b }, sustained: { rate: 9 } }\n\
                - { name: c, key: [user], match: { path: /c }, mode: shadow, sustained: { rate: 9 } }\n\
                allow: [{ ip: 10.0.0.0/8 }]\n";
    let (limiter, _) = limiter(text);
    let counts = |limiter: &Manual| -> Vec<(String, u64)> {
        limiter
            .missing_counts()
            .into_iter()
            .map(|one| (one.missing, one.count))
            .filter(|(_, count)| *count > 0)
            .collect()
    };
    let path = |path: &'static str| Request::new().path(path);
    let _ = limiter.check(&user("1"));
    let _ = limiter.check(&path("/").ip([10, 0, 0, 1]));
    let _ = limiter.peek(&path("/"));
    assert_eq!(counts(&limiter), [], "limited, allowlisted, peeked at");
    let _ = limiter.check(&path("/"));
    let _ = limiter.check(&path("/b"));
    let _ = limiter.check(&path("/c"));
    assert_eq!(counts(&limiter), [("user".into(), 3), ("tenant".into(), 1)], "once for each descriptor");
    assert_eq!(limiter.decided(Reason::NoLimit), 3);

    // A swap keeps the counts of what it keeps; limits in shadow mode and conditions are told from descriptors.
    let text = "version: 1\nlimits:\n\
                - { name: c, key: [user], match: { path: /c }, mode: shadow, sustained: { rate: 9 } }\n";
    limiter.swap(Policy::parse(text).unwrap()).unwrap();
    let _ = limiter.check(&path("/c").user("1"));
    let _ = limiter.check(&path("/d").user("1"));
    assert_eq!(counts(&limiter), [("(none)".into(), 1), ("(shadow)".into(), 1), ("user".into(), 3)]);
}

/// A request without the key of a limit that denies such requests: nothing is charged, and every protocol says why.
#[test]
fn a_missing_key_is_denied_counted_and_told() {
    let (limiter, _) = limiter(
        "version: 1
limits:
- { name: all, key: [], sustained: { rate: 5, window: minute } }
- { name: quiet, key: [client], missing: deny, response_headers: false, sustained: { rate: 5 } }
- { name: watched, key: [user], missing: deny, mode: shadow, sustained: { rate: 5 } }
",
    );
    let peeked = limiter.peek(&Request::new());
    assert_eq!((peeked.reason(), limiter.decided(Reason::MissingKey)), (Reason::MissingKey, 0));
    let denied = limiter.check(&Request::new());
    assert_eq!((denied.status(), denied.client_status(), denied.wait()), (429, 429, None));
    assert_eq!((denied.violated_rule(), denied.limits().len()), (Some("quiet"), 0));
    assert_eq!(denied.shadow_denied().collect::<Vec<_>>(), ["watched"]);
    let mut headers = Vec::new();
    denied.headers(|name, value| headers.push(format!("{name}: {value}")));
    assert_eq!(headers, ["cache-control: no-store"], "the limit that denies has switched its headers off");
    let body: serde_json::Value = serde_json::from_str(&denied.problem_body(429)).unwrap();
    let detail = "This request lacks what the limit quiet counts by. Retrying will not help.";
    assert_eq!((&body["detail"], &body["retry_after"]), (&detail.into(), &serde_json::Value::Null));
    assert_eq!(limiter.decided(Reason::MissingKey), 1);
    let counted: Vec<(String, u64, u64)> = limiter
        .limit_counters()
        .into_iter()
        .map(|(name, counters)| (name, counters.denied, counters.shadow_denied))
        .collect();
    assert_eq!(counted, [("all".into(), 0, 0), ("quiet".into(), 1, 0), ("watched".into(), 0, 1)]);
    assert_eq!(limiter.check(&Request::new().client("c")).tightest().unwrap().decision.remaining, 4);
}

/// Numbers that come with a request replace the policy, and so what the policy does about a missing key.
#[test]
fn a_missing_key_does_not_deny_an_ad_hoc_bucket() {
    let (limiter, _) =
        limiter("version: 1\nlimits: [{ name: l, key: [user], missing: deny, sustained: { rate: 5 } }]\n");
    let options = MemoryOptions { max_keys: 100, ..MemoryOptions::default() };
    let limiter = limiter.with_ad_hoc(options).unwrap();
    let limit = AdHocLimit { capacity: 1, rate: 1, window: Nanos::MINUTE };
    let (anonymous, named) = (Request::new(), user("1"));
    let ad_hoc = Joint { request: &anonymous, by: JointBy::AdHoc(limit, b"k") };
    let by_policy = |request| Joint { request, by: JointBy::Policy };
    let refused = limiter.check_joint(&[ad_hoc, by_policy(&anonymous)]).unwrap();
    assert!(!refused.allowed);
    assert_eq!(refused.decisions[1].reason(), Reason::MissingKey);
    assert!(limiter.check_joint(&[ad_hoc, by_policy(&named)]).unwrap().allowed, "nothing was taken before");
}
