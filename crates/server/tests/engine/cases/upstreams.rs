//! Upstreams: named by the request or found by its host.

use serde_json::{Value, json};

use super::{allowed, decide, members, times};

fn policy() -> Value {
    json!({"version": 1,
        "upstreams": [
            {"name": "openai", "hosts": ["api.openai.com"]},
            {"name": "ours", "hosts": ["*.example.com"]},
            {"name": "api", "hosts": ["api.example.com"]},
            {"name": "closed", "hosts": ["closed.test"], "enabled": false},
        ],
        "routes": [
            {"path": "/v1/chat", "upstream": "openai", "cost": 5},
            {"path": "/v1/chat", "cost": 2},
        ],
        "limits": [
            {"name": "openai", "match": {"upstream": "openai"}, "key": [], "sustained": {"rate": 10, "window": "minute"}},
            {"name": "each", "key": ["upstream"], "sustained": {"rate": 20, "window": "minute"}},
        ],
    })
}

fn told(request: Value) -> Value {
    let decision = decide(&policy(), vec![request]).remove(0);
    decision["limits"].as_array().unwrap().iter().map(|limit| limit["remaining"].clone()).collect()
}

#[test]
fn the_host_finds_the_first_upstream() {
    assert_eq!(told(json!({"at_ms": 0, "host": "API.OpenAI.com:443"})), json!([9, 19]));
    assert_eq!(told(json!({"at_ms": 0, "host": "api.openai.com.evil.test"})), json!([]));
    assert_eq!(told(json!({"at_ms": 0, "host": "example.com"})), json!([]), "the apex is not below itself");
    assert_eq!(told(json!({"at_ms": 0, "host": "closed.test"})), json!([]), "an entry that is switched off");
    // `api.example.com` belongs to `ours`, which comes first: both hosts draw on one bucket.
    let of = |host: &str| json!({"at_ms": 0, "host": host});
    let decisions = decide(&policy(), vec![of("api.example.com"), of("deep.down.example.com")]);
    assert_eq!(members(&decisions[1], ["limit", "remaining"]), json!([20, 18]));
}

#[test]
fn a_request_names_its_upstream_whatever_its_host() {
    assert_eq!(told(json!({"at_ms": 0, "upstream": "openai", "host": "a.example.com"})), json!([9, 19]));
    assert_eq!(told(json!({"at_ms": 0, "upstream": "unheard-of", "host": "api.openai.com"})), json!([19]));
}

#[test]
fn a_route_of_an_upstream_matches_requests_to_it_only() {
    assert_eq!(told(json!({"at_ms": 0, "path": "/v1/chat", "upstream": "openai"})), json!([5, 15]));
    assert_eq!(told(json!({"at_ms": 0, "path": "/v1/chat", "upstream": "ours"})), json!([18]));
    let decisions =
        decide(&policy(), times(3, json!({"at_ms": 0, "path": "/v1/chat", "host": "api.openai.com"})));
    assert_eq!(allowed(&decisions), 2);
    assert_eq!(decisions[2]["violated_rule"], "openai");
}
