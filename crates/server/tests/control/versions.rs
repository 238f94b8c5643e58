//! Versions: reading, comparing, restoring.

use serde_json::json;
use tidegate_database::DatabaseKind;

use super::limit;
use super::place::on_both;
use super::policy_client::PolicyServer;

on_both!(versions_are_listed_compared_and_restored, a_node_tells_which_version_it_runs);

const TEXT: &str = "version: 1\nlimits:\n- { name: a, key: [user], sustained: { rate: 5 } } # five\n";

fn versions_are_listed_compared_and_restored(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    api.ask(
        "PATCH",
        "/limits/a",
        &["Content-Type: application/merge-patch+json", "X-Reason: more"],
        r#"{"sustained":{"rate":6}}"#,
    )
    .expect(200);
    api.post("/limits?reason=second+limit", &limit("b", 1)).expect(201);
    let listed = api.read("/versions?limit=2");
    let newest = &listed["items"][0];
    assert_eq!((newest["version"].as_u64(), newest["parent"].as_u64()), (Some(4), Some(3)));
    assert_eq!(
        (newest["reason"].as_str(), listed["items"][1]["reason"].as_str()),
        (Some("second limit"), Some("more"))
    );
    assert_eq!(newest["sha256"].as_str().map(str::len), Some(64));
    assert!(newest.get("text").is_none(), "{newest}");
    let rest = api.read(&format!("/versions?limit=2&cursor={}", listed["next"].as_str().expect("more")));
    assert_eq!((rest["items"][1]["version"].as_u64(), &rest["next"]), (Some(1), &json!(null)));
    assert_eq!(api.read("/versions?q=SECOND")["items"].as_array().map(Vec::len), Some(1));
    let second = api.read("/versions/2");
    assert_eq!(second["text"], TEXT);
    let diff = api.read("/versions/2/diff/4");
    assert_eq!(diff["changes"][0]["members"], json!([{ "path": "sustained.rate", "before": 5, "after": 6 }]));
    assert_eq!(
        (diff["changes"][1]["name"].as_str(), diff["changes"][1]["change"].as_str()),
        (Some("b"), Some("added"))
    );
    let text = diff["text"].as_str().expect("a text");
    assert!(text.starts_with("--- 2\n+++ 4\n") && text.contains("\n-- { name: a"), "{text}");
    let restored = api.ask("POST", "/versions/2/restore?reason=back", &[], "").expect(200);
    assert_eq!((restored.version(), api.policy().as_str()), (5, TEXT));
    assert_eq!(
        api.ask("POST", "/versions/2/restore", &[], "").expect(200).version(),
        5,
        "nothing has changed"
    );
    assert_eq!(api.ask("POST", "/versions/3/restore", &["If-Match: \"4\""], "").status, 412);
    for unknown in ["/versions/9", "/versions/x", "/versions/+1", "/versions/9/diff/1", "/versions/1/diff/9"]
    {
        assert_eq!(api.get(unknown).status, 404, "{unknown}");
    }
    assert_eq!(api.ask("POST", "/versions/9/restore", &[], "").status, 404);
    assert_eq!(api.get("/versions?cursor=x").status, 400);
}

fn a_node_tells_which_version_it_runs(kind: DatabaseKind) {
    let PolicyServer { api, .. } = &PolicyServer::with_policy(kind, TEXT);
    crate::support::within(std::time::Duration::from_secs(10), "the node reports version 2", || {
        let nodes = api.read("/nodes");
        nodes["items"].as_array().is_some_and(|nodes| nodes.len() == 1 && nodes[0]["version"] == 2)
    });
    let node = &api.read("/nodes")["items"][0];
    assert!(node["id"].is_string() && node["since"].is_string() && node["seen"].is_string(), "{node}");
    assert_eq!(node["error"], json!(null));
    assert_eq!(api.read("/nodes?q=no-such-machine")["items"], json!([]));
}
