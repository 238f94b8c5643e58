//! Tokens that are restricted to a tenant: what they learn of the rest of the policy, and what they may not do to it.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::access::client::{ApiReply, ask};
use super::place::on_both;
use super::policy_client::PolicyServer;
use super::{on_database, record_violations};

const POLICY: &str = "\
version: 1
limits:
- { name: everyone, key: [tenant], unless: { 'header:x-internal': s3cret-value, tenant: rival }, sustained: { rate: 1000 } }
- { name: two, key: [tenant], match: { tenant: [low, rival] }, group: pair, sustained: { rate: 1000 } }
- { name: own, key: [tenant], match: { tenant: low }, sustained: { rate: 1000 } }
- { name: dear, key: [user], match: { plan: rival-plan }, sustained: { rate: 1000 } }
allow:
- { user: rival-boss, reason: a rival }
tenants:
- { id: t, rate_limit: { sustained: { rate: 900 } } }
- { id: low, parent: t, rate_limit: { sustained: { rate: 90 } } }
- { id: rival, rate_limit: { sustained: { rate: 900 } } }
";

on_both!(
    a_restricted_token_learns_nothing_of_others,
    a_restricted_editor_takes_no_tenant_that_somebody_else_is
);

/// A token of this role that is restricted to the tenant `t`.
fn token(server: &PolicyServer, role: &str) -> String {
    let made = server.api.post("/tokens", &json!({ "role": role, "tenant": "t" })).expect(201).json();
    made["token"].as_str().expect("it is text").to_owned()
}

fn call(server: &PolicyServer, token: &str, method: &str, path: &str, body: &Value) -> ApiReply {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(server.server.socket("admin"), method, &format!("/api/v1{path}"), &headers, &body)
}

fn a_restricted_token_learns_nothing_of_others(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, POLICY);
    for role in ["viewer", "editor"] {
        let token = token(&server, role);
        let explain = |request: Value| {
            let body = json!({ "request": request });
            call(&server, &token, "POST", "/explain", &body).expect(200).json()
        };
        let limited = explain(json!({ "tenant": "low", "user": "1" }));
        let limit = |name: &str| {
            let limits = limited["limits"].as_array().expect("a list").clone();
            limits.into_iter().find(|limit| limit["name"] == name)
        };
        assert_eq!(limit("everyone").expect("it applies")["match"], Value::Null);
        assert_eq!(limit("own").expect("it applies")["match"], json!(["tenant: low"]));
        assert_eq!(limit("dear"), None, "it does not apply");
        let exempt = explain(json!({ "tenant": "low", "user": "rival-boss" }));
        assert_eq!(exempt["gate"], json!({ "list": "allow" }));
        for answer in [limited.to_string(), exempt.to_string().replace("\"rival-boss\"", "")] {
            for hidden in ["s3cret", "rival", "pair", "x-internal"] {
                assert!(!answer.contains(hidden), "{role}, {hidden}: {answer}");
            }
        }
        // At another time the whole policy would answer, whatever the tenant.
        let timed = json!({ "request": { "tenant": "low" }, "at": "2030-01-01T00:00:00Z" });
        assert_eq!(call(&server, &token, "POST", "/explain", &timed).status, 403);
        // Of a policy that it sends itself, nothing is hidden.
        let sent = json!({ "request": { "tenant": "low" }, "policy": POLICY });
        let sent = call(&server, &token, "POST", "/explain", &sent).expect(200).json();
        assert_eq!(sent["limits"].as_array().map(Vec::len), Some(4), "{sent}");
        assert!(sent.to_string().contains("s3cret-value"), "{sent}");
    }
    let editor = token(&server, "editor");
    let wrong =
        json!({ "name": "new", "key": ["user"], "match": { "tenant": "low" }, "sustained": { "rate": 0 } });
    let refused = call(&server, &editor, "POST", "/limits", &wrong).expect(422);
    assert!(refused.body.contains("limits[4].sustained.rate"), "{}", refused.body);
    assert!(!refused.body.contains("rival") && !refused.body.contains("\"line\""), "{}", refused.body);
}

fn a_restricted_editor_takes_no_tenant_that_somebody_else_is(kind: DatabaseKind) {
    let server = PolicyServer::with_policy(kind, POLICY);
    let editor = token(&server, "editor");
    let create = |id: &str| {
        let tenant = json!({ "id": id, "parent": "t" });
        call(&server, &editor, "POST", "/tenants", &tenant).status
    };
    on_database(&server.place.url, async |database| {
        let violation = tidegate_database::Violation {
            event: "rate_limit_exceeded".into(),
            tenant: Some("initech".into()),
            count: 1,
            ..Default::default()
        };
        record_violations(database, vec![violation]).await;
    });
    assert_eq!(create("initech"), 409, "it has records");
    assert_eq!(create("new"), 201);
    let made = server.api.post("/tokens", &json!({ "role": "viewer", "tenant": "new" })).expect(201).json();
    let secret = made["token"].as_str().expect("it is text");
    let seen = call(&server, secret, "GET", "/violations", &Value::Null).expect(200).json();
    assert_eq!(seen["items"], json!([]));
    // The tokens of a tenant go with it, so that they are not those of another tenant of that name.
    assert_eq!(call(&server, &editor, "DELETE", "/tenants/new", &Value::Null).status, 200);
    let tokens = server.api.read("/tokens?q=new");
    let revoked = tokens["items"].as_array().expect("a list").iter().find(|one| one["id"] == made["id"]);
    assert!(revoked.is_none_or(|one| one["revoked"].is_string()), "{tokens}");
    assert_eq!(create("new"), 409, "there are records of its tokens");
    let audit = server.api.read("/audit?kind=token_revoked");
    assert_eq!(audit["items"][0]["reason"], "its tenant was removed from the policy");
    // Numbers that count the records of all are not for those who see a part.
    let viewer = token(&server, "viewer");
    for path in ["/events", "/audit", "/violations"] {
        let page = call(&server, &viewer, "GET", path, &Value::Null).expect(200).body;
        assert!(
            !page.contains("\"seq\"") && !page.contains("\"violation_id\"") && !page.contains("\"hash\"")
        );
    }
}
