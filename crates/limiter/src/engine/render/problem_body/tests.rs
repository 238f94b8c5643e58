use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const DENIED: RefusalBody<'static> = RefusalBody {
    status: 429,
    reason: "token_bucket_exceeded",
    retry_after_secs: Some(1),
    retry_after_ms: Some(100),
    violated_rule: Some("per-user"),
    violated_tier: Some("user"),
    console: None,
};

fn parsed(refusal: &RefusalBody<'_>) -> Value {
    serde_json::from_str(&body(refusal)).unwrap()
}

#[test]
fn the_members_come_in_the_promised_order() {
    let detail = "This request is more than the limit per-user admits right now. Retry after 1 second.";
    let expected = format!(
        "{}{detail}{}{detail}{}{}",
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":""#,
        r#"","message":""#,
        r#"","error":"rate_limit_exceeded","error_description":"Too many requests. Please retry after 1 seconds.","retry_after":1,"retry_after_ms":100,"#,
        r#""violated-policies":["per-user"],"violated_rule":"per-user","violated_tier":"user"}"#,
    );
    assert_eq!(body(&DENIED), expected);
    let linked = RefusalBody { console: Some("https://gate.example/console/key?user=4\"2"), ..DENIED };
    let link = r#","console":"https://gate.example/console/key?user=4\"2"}"#;
    assert_eq!(body(&linked), expected.replace('}', link));
}

#[test]
fn never_has_no_time_to_retry() {
    let never = RefusalBody {
        reason: "cost_exceeds_capacity",
        retry_after_secs: None,
        retry_after_ms: None,
        ..DENIED
    };
    let body = parsed(&never);
    assert_eq!((&body["retry_after"], &body["retry_after_ms"]), (&Value::Null, &Value::Null));
    assert_eq!(
        body["detail"],
        "This request costs more than the limit per-user can ever admit. Retrying will not help."
    );
    assert_eq!(body["error_description"], "The request costs more than its limit can ever admit.");
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
}

#[test]
fn credentials_that_do_not_hold_are_told_apart() {
    let token = RefusalBody {
        status: 401,
        reason: "invalid_credentials",
        retry_after_secs: None,
        retry_after_ms: None,
        violated_rule: Some("invalid_credentials"),
        violated_tier: Some("custom"),
        ..DENIED
    };
    let key = RefusalBody { reason: "unknown_key", violated_rule: Some("unknown_key"), ..token };
    let (token, key) = (parsed(&token), parsed(&key));
    assert_eq!((&token["error"], &key["error"]), (&json!("invalid_token"), &json!("unknown_key")));
    assert_eq!((&key["title"], &key["type"]), (&json!("Unauthorized"), &json!("about:blank")));
    assert_eq!(
        key["detail"],
        "The API key of this request is not known, has expired or is disabled. Retry with another, or with none."
    );
}

#[test]
fn an_identity_that_cannot_be_used_is_named() {
    let fault = IdentityFault { source: "jwt:a\"b".to_owned(), why: "must be UTF-8 text" };
    let body: Value = serde_json::from_str(&identity_body(&fault)).unwrap();
    assert_eq!((&body["status"], &body["field"]), (&json!(400), &json!("jwt:a\"b")));
    assert_eq!(body["detail"], "`jwt:a\"b` must be UTF-8 text");
}

#[test]
fn abuse_is_named_as_such() {
    let blocked = RefusalBody {
        reason: "blocked",
        retry_after_secs: None,
        retry_after_ms: None,
        violated_rule: Some("block"),
        violated_tier: None,
        ..DENIED
    };
    let bursting = RefusalBody {
        reason: "burst_blocked",
        retry_after_secs: Some(600),
        violated_rule: Some("burst"),
        ..DENIED
    };
    for refusal in [blocked, bursting] {
        let body = parsed(&refusal);
        assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#abnormal-usage-detected");
        assert_eq!((&body["title"], &body["status"]), (&json!("Too Many Requests"), &json!(429)));
    }
    assert_eq!(parsed(&blocked)["violated_tier"], Value::Null);
    assert_eq!(parsed(&blocked)["violated-policies"], json!(["block"]));
    assert_eq!(parsed(&blocked)["error_description"], "The request is blocked.");
    let said = parsed(&bursting);
    assert_eq!(said["error_description"], "Too many requests. Please retry after 600 seconds.");
    assert!(said["detail"].as_str().unwrap().ends_with("Retry after 600 seconds."), "{said}");
}

#[test]
fn what_is_not_the_clients_fault_says_so() {
    for reason in ["queue_full", "queue_timeout", "store_unavailable"] {
        let body = parsed(&RefusalBody { status: 503, reason, retry_after_secs: Some(2), ..DENIED });
        assert_eq!(
            body["type"],
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
        );
        assert_eq!((&body["title"], &body["status"]), (&json!("Service Unavailable"), &json!(503)));
        assert_eq!(
            body["error_description"],
            "Service temporarily unavailable. Please retry after 2 seconds."
        );
        assert_eq!(body["message"], body["detail"]);
        assert!(body["detail"].as_str().unwrap().contains("the limit per-user"), "{reason}");
    }
}

#[test]
fn without_a_rule_nothing_is_violated() {
    let unknown = RefusalBody {
        reason: "unknown_tenant",
        retry_after_secs: None,
        retry_after_ms: None,
        violated_rule: None,
        violated_tier: None,
        ..DENIED
    };
    let body = parsed(&unknown);
    assert_eq!((&body["violated-policies"], &body["violated_rule"]), (&json!([]), &Value::Null));
    assert_eq!(body["error_description"], "The tenant is not known.");
}

#[test]
fn the_status_is_the_one_that_is_sent() {
    assert_eq!(parsed(&RefusalBody { status: 403, ..DENIED })["status"], 403, "a proxy may need another");
}

proptest! {
    #[test]
    fn any_text_stays_text(rule: String, tier: String, reason: String, link: String) {
        let (violated_rule, violated_tier) = (Some(&*rule), Some(&*tier));
        let odd = RefusalBody { reason: &reason, violated_rule, violated_tier, console: Some(&link), ..DENIED };
        let body = parsed(&odd);
        prop_assert_eq!(body["violated_rule"].as_str(), Some(rule.as_str()));
        prop_assert_eq!(body["violated-policies"][0].as_str(), Some(rule.as_str()));
        prop_assert_eq!(body["violated_tier"].as_str(), Some(tier.as_str()));
        prop_assert_eq!(body["console"].as_str(), Some(link.as_str()));
    }
}
