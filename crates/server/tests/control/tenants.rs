//! Tenants: what their budgets allow, and the numbers that apply to them.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::names;
use super::place::on_both;
use super::policy_client::PolicyServer;
use crate::support::server::{run, tidegate};

on_both!(
    creating_a_tenant_tells_what_its_parent_has_allotted,
    a_dry_run_answers_what_the_change_would_and_writes_nothing,
    effective_numbers_tell_their_origin_and_live_use
);

const TEXT: &str = "\
version: 1
tenants:
- { id: root, rate_limit: { sustained: { rate: 5000 }, burst: { capacity: 90000 }, sharing: inherit, budget: { mode: allocated, total: 5000, overcommit_ratio: 1.5 } } }
- { id: a, parent: root, rate_limit: { sustained: { rate: 2000 }, burst: { capacity: 2000 }, sharing: inherit } }
- { id: b, parent: root, rate_limit: { sustained: { rate: 1000 }, burst: { capacity: 1000 } } }
";

fn tenant(id: &str, parent: &str, rate: u32) -> Value {
    json!({ "id": id, "parent": parent, "rate_limit": { "sustained": { "rate": rate }, "burst": { "capacity": rate } } })
}

fn creating_a_tenant_tells_what_its_parent_has_allotted(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let allowed = api.post("/tenants", &tenant("c", "root", 1000)).expect(201).json();
    let numbers =
        json!({ "parent": "root", "sum": 4000, "total": 5000, "overcommit_ratio": 1.5, "left": 3500 });
    assert_eq!((&allowed["allocation"], &allowed["warnings"]), (&numbers, &json!([])));
    let warned = api.put("/tenants/c", &tenant("c", "root", 3000)).expect(200).json();
    let numbers =
        json!({ "parent": "root", "sum": 6000, "total": 5000, "overcommit_ratio": 1.5, "left": 1500 });
    assert_eq!((&warned["allocation"], warned["warnings"].as_array().map(Vec::len)), (&numbers, Some(1)));
    let patch = json!({ "rate_limit": { "sustained": { "rate": 4501 } } });
    let refused = api.patch("/tenants/c", &patch).expect(422).json();
    let numbers = json!({ "parent": "root", "sum": 7501, "total": 5000, "overcommit_ratio": 1.5, "left": 0 });
    assert_eq!(refused["allocation"], numbers);
    assert!(refused["problems"].as_array().is_some_and(|problems| !problems.is_empty()), "{refused}");
    assert_eq!(
        api.post("/tenants", &tenant("d", "root", 5000)).expect(422).json()["allocation"]["sum"],
        11_000
    );
    // The budget itself is lowered below what is allotted.
    let lowered = json!({ "rate_limit": { "budget": { "total": 1000 } } });
    assert_eq!(api.patch("/tenants/root", &lowered).expect(422).json()["allocation"]["total"], 1000);
    assert_eq!(api.post("/tenants", &json!({ "id": "free" })).expect(201).json()["allocation"], Value::Null);
    assert_eq!(api.delete("/tenants/root").status, 422, "others are below it");
    assert_eq!(names(&api.read("/tenants?parent=root"), "id"), ["a", "b", "c"]);
}

fn a_dry_run_answers_what_the_change_would_and_writes_nothing(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let state = || (api.read("/tenants"), api.read("/versions"), api.read("/audit"));
    let before = state();
    let tried = api.post("/tenants?dry_run=true", &tenant("c", "root", 3000)).expect(200);
    assert_eq!((tried.header("location"), tried.header("etag")), (None, Some("\"2\"")));
    let tried = tried.json();
    let refused = api.post("/tenants?dry_run=true", &tenant("c", "root", 5000)).expect(422).json();
    assert_eq!((&refused["allocation"]["sum"], &refused["allocation"]["left"]), (&json!(8000), &json!(0)));
    api.post("/tenants?dry_run=true", &tenant("a", "root", 1)).expect(409);
    api.post("/tenants?dry_run=1", &tenant("c", "root", 1)).expect(400);
    let lowered = json!({ "rate_limit": { "sustained": { "rate": 1 } } });
    assert_eq!(api.patch("/tenants/a?dry_run=true", &lowered).expect(200).json()["allocation"]["sum"], 1001);
    assert_eq!(api.delete("/tenants/b?dry_run=true").expect(200).json()["version"], 2);
    assert_eq!(state(), before);
    let mut done = api.post("/tenants?dry_run=false", &tenant("c", "root", 3000)).expect(201).json();
    assert_eq!((&done["version"], &tried["version"]), (&json!(3), &json!(2)));
    done["version"] = json!(2);
    assert_eq!(done, tried);
}

fn effective_numbers_tell_their_origin_and_live_use(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(kind, TEXT);
    let api = &controlled.api;
    api.post("/tenants", &json!({ "id": "low", "parent": "a" })).expect(201);
    let bucket = |answer: &Value, name: &str| {
        let buckets = answer["buckets"].as_array().expect("buckets").clone();
        buckets.into_iter().find(|bucket| bucket["name"] == name).unwrap_or_else(|| panic!("{answer}"))
    };
    let before = api.get("/tenants/low/effective").expect(200);
    assert_eq!(before.header("etag"), Some("\"3\""));
    let before = before.json();
    assert_eq!(before["chain"], json!(["root", "a", "low"]));
    let limit = &before["limits"][0];
    assert_eq!((&limit["own"], &limit["upstream"]), (&Value::Null, &Value::Null));
    assert_eq!(limit["effective"], json!({ "rate": 2000, "window_ms": 1000, "burst": 2000 }));
    assert_eq!(limit["origin"], json!({ "rate": "a", "burst": "a" }));
    assert_eq!(bucket(&before, "tenant:root")["remaining"], 90_000);
    let server = controlled.server.told("http");
    let request = ["check", "--server", &server, "tenant=a", "cost=7"];
    let checked = run(tidegate(&request));
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let after = api.read("/tenants/a/effective");
    let own = bucket(&after, "tenant:a");
    assert_eq!(own["limit"], 2000);
    assert!(own["remaining"].as_u64().is_some_and(|left| (1993..=2000).contains(&left)), "{own}");
    assert!(bucket(&after, "tenant:root")["remaining"].as_u64().is_some(), "{after}");
    assert_eq!(api.get("/tenants/nobody/effective").status, 404);
}
