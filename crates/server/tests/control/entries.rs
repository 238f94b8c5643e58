//! Entries of collections, one by one.

use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::place::on_both;
use super::policy_client::PolicyServer;
use super::{limit, names};

on_both!(
    comments_and_order_survive_edits,
    every_status_of_the_contract,
    entries_without_a_name_get_an_id,
    lists_come_in_pages_and_are_searched
);

const TEXT: &str = "\
# Ours; keep this.
version: 1
limits:
# for people
- { name: a, key: [user], sustained: { rate: 5 } } # five

- name: b   # second
  key: [ip] # by address
  sustained: { rate: 1, window: hour }
routes:
- { path: /chat/**, cost: 10 } # dear
allow:
- { ip: 10.0.0.0/8, reason: inside }
";

fn comments_and_order_survive_edits(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    assert_eq!(api.post("/limits?before=b", &limit("between", 3)).expect(201).version(), 3);
    api.patch("/limits/b", &json!({ "sustained": { "rate": 2 } })).expect(200);
    api.put("/limits/a", &json!({ "key": ["user"], "sustained": { "rate": 6 } })).expect(200);
    let expected = "\
# Ours; keep this.
version: 1
limits:
# for people
- { name: a, key: [user], sustained: { rate: 6 } } # five

- name: between
  key: [user]
  sustained: { rate: 3 }
- name: b   # second
  key: [ip] # by address
  sustained: { rate: 2, window: hour }
routes:
- { path: /chat/**, cost: 10 } # dear
allow:
- { ip: 10.0.0.0/8, reason: inside }
";
    let policy = api.policy();
    let without_new = |text: &str| {
        text.lines().filter(|line| !line.contains("between")).map(str::to_owned).collect::<Vec<_>>()
    };
    for line in without_new(expected).iter().filter(|line| line.contains('#')) {
        assert!(policy.contains(line.as_str()), "{line}\n{policy}");
    }
    assert_eq!(names(&api.read("/limits"), "name"), ["a", "between", "b"]);
    api.delete("/limits/between").expect(200);
    let kept = TEXT.replace("rate: 5", "rate: 6").replace("rate: 1,", "rate: 2,");
    assert_eq!(api.policy(), kept);
}

fn every_status_of_the_contract(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let created = api.post("/limits", &limit("c/d", 3)).expect(201);
    assert_eq!(created.header("location"), Some("/api/v1/limits/c%2Fd"));
    assert_eq!(created.version(), 3);
    assert!(created.json()["warnings"].is_array());
    let wrong = ["Content-Type: application/json", "X-Reason: sch\u{f6}n"];
    let unused = api.ask("POST", "/limits?reason=why", &wrong, &limit("e", 3).to_string());
    assert_eq!(unused.expect(400).json()["pointer"], "X-Reason", "also where the query has a reason");
    let read = api.get("/limits/c%2Fd").expect(200);
    assert_eq!((read.json(), read.header("etag")), (limit("c/d", 3), Some("\"3\"")));
    assert_eq!(api.post("/limits", &limit("a", 3)).status, 409);
    assert_eq!(
        api.post("/bursts", &json!({ "name": "a", "key": ["ip"] })).status,
        409,
        "limits have the name"
    );
    assert_eq!(api.post("/limits?before=nobody", &limit("e", 3)).status, 404);
    assert_eq!(api.put("/limits/nobody", &limit("nobody", 3)).status, 404);
    assert_eq!(api.patch("/limits/nobody", &json!({})).status, 404);
    assert_eq!(api.delete("/limits/nobody").status, 404);
    assert_eq!(api.get("/limits/nobody").status, 404);
    let renamed = api.put("/limits/a", &limit("other", 3)).expect(422).json();
    assert_eq!(renamed["pointer"], "/name");
    assert_eq!(api.patch("/limits/a", &json!({ "name": null })).status, 422);
    assert_eq!(api.post("/limits", &json!([1])).status, 400);
    assert_eq!(api.ask("POST", "/limits", &["Content-Type: application/json"], "{").status, 400);
    assert_eq!(api.ask("POST", "/limits", &[], "{}").status, 415);
    assert_eq!(api.ask("PATCH", "/limits/a", &["Content-Type: application/json"], "{}").status, 415);
    assert_eq!(api.post("/limits?other=1", &limit("e", 3)).status, 400);
    assert_eq!(
        api.post("/limits", &json!({ "key": ["user"], "sustained": { "rate": 1 } })).status,
        422,
        "no name"
    );
    assert_eq!(api.ask("DELETE", "/limits/a", &["If-Match: \"1\""], "").status, 412);
    assert_eq!(api.ask("DELETE", "/limits/a", &["If-Match: 3"], "").status, 400);
    assert_eq!(api.ask("DELETE", "/limits/a", &["If-Match: \"3\""], "").expect(200).version(), 4);
    assert_eq!(api.get("/limits/a").status, 404);
    assert_eq!(
        api.read("/versions")["items"].as_array().map(Vec::len),
        Some(4),
        "refused writes leave nothing"
    );
}

fn entries_without_a_name_get_an_id(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    let listed = api.read("/routes");
    let hash = names(&listed, "id")[0].clone();
    assert_eq!(hash.len(), 16);
    assert_eq!(api.read(&format!("/routes/{hash}"))["path"], "/chat/**");
    // Reading it and writing it back changes nothing.
    assert_eq!(api.put(&format!("/routes/{hash}"), &listed["items"][0]).expect(200).version(), 2);
    // A change writes the id, so that the address stays.
    api.patch(&format!("/routes/{hash}"), &json!({ "cost": 20 })).expect(200);
    assert_eq!(api.read(&format!("/routes/{hash}"))["cost"], 20);
    assert!(
        api.policy().contains(&format!("id: {hash}")) || api.policy().contains(&format!("id: \"{hash}\""))
    );
    let created = api.post("/allow", &json!({ "user": "42" })).expect(201);
    let location =
        created.header("location").expect("a location").strip_prefix("/api/v1").unwrap().to_owned();
    let read = api.read(&location);
    assert_eq!((read["user"].as_str(), read["id"].as_str().map(str::len)), (Some("42"), Some(16)));
    let named = api.post("/allow", &json!({ "id": "mine", "user": "43" })).expect(201);
    assert_eq!(named.header("location"), Some("/api/v1/allow/mine"));
    assert_eq!(api.post("/allow", &json!({ "id": "mine", "user": "44" })).status, 409);
}

fn lists_come_in_pages_and_are_searched(kind: DatabaseKind) {
    let limits: Vec<Value> = (0..25).map(|n| limit(&format!("l{n:02}"), n + 1)).collect();
    let text = json!({ "version": 1, "limits": limits }).to_string();
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, &text);
    let (mut seen, mut path) = (Vec::new(), "/limits?limit=10".to_owned());
    loop {
        let page = api.read(&path);
        seen.extend(names(&page, "name"));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/limits?limit=10&cursor={next}");
    }
    assert_eq!(seen, (0..25).map(|n| format!("l{n:02}")).collect::<Vec<_>>());
    // An entry that is removed between two pages neither repeats nor hides another.
    let next = api.read("/limits?limit=10")["next"].as_str().expect("a cursor").to_owned();
    for removed in ["l03", "l09"] {
        api.delete(&format!("/limits/{removed}")).expect(200);
        assert_eq!(
            names(&api.read(&format!("/limits?limit=2&cursor={next}")), "name"),
            ["l10", "l11"],
            "{removed}"
        );
        api.post("/limits?before=l10", &limit(removed, 1)).expect(201);
    }
    assert_eq!(names(&api.read("/limits?q=L1&limit=3"), "name"), ["l10", "l11", "l12"]);
    assert_eq!(names(&api.read("/limits?q=%22rate%22:7%7D"), "name"), ["l06"]);
    for wrong in ["limit=0", "limit=1001", "cursor=x", "parent=a"] {
        assert_eq!(api.get(&format!("/limits?{wrong}")).status, 400, "{wrong}");
    }
    let csv = api.ask("GET", "/limits?limit=2", &["Accept: text/csv"], "").expect(200);
    assert_eq!(csv.body.lines().count(), 3, "{}", csv.body);
}
