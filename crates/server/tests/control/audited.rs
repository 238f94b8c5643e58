//! What the audit keeps of changes.

use serde_json::{Value, json};
use tidegate_database::{AuditRow, DatabaseKind, HistoryFilter, PageRequest};

use super::on_database;
use super::place::on_both;
use super::policy_client::PolicyServer;

on_both!(a_change_is_kept_with_who_why_and_what_but_without_secrets);

/// The entries of the audit, newest first.
fn audit(controlled: &PolicyServer) -> Vec<AuditRow> {
    let rows = on_database(&controlled.place.url, async |database| {
        database.audit(&HistoryFilter::default(), &PageRequest::default()).await.expect("it answers").items
    });
    let is_change =
        |row: &AuditRow| row.entry.event == "rate_limit_config_updated" && row.entry.actor.is_some();
    rows.into_iter().filter(is_change).collect()
}

fn a_change_is_kept_with_who_why_and_what_but_without_secrets(kind: DatabaseKind) {
    let controlled = PolicyServer::with_policy(
        kind,
        "version: 1\nallow: [{ \"header:x-api-key\": secret-of-a-partner }]\n",
    );
    let api = &controlled.api;
    let created = api
        .post("/allow?reason=partner+two", &json!({ "header:x-api-key": "secret-of-another" }))
        .expect(201);
    let id = created.header("location").and_then(|path| path.rsplit('/').next()).expect("an id").to_owned();
    assert_eq!(api.post("/allow", &json!({ "no such": 1 })).status, 422, "what is refused is not kept");
    let rows = audit(&controlled);
    let [newest, put, first] = &rows[..] else { panic!("{rows:#?}") };
    assert_eq!((newest.entry.policy_version, newest.entry.actor.as_deref()), (Some(3), Some("admin token")));
    assert_eq!(newest.entry.reason.as_deref(), Some("partner two"));
    assert_eq!((put.entry.policy_version, first.entry.policy_version), (Some(2), Some(1)));
    let detail = newest.entry.personal.detail.as_deref().expect("what differs");
    let changes: Value = serde_json::from_str(detail).expect("it is JSON");
    let change = &changes["changes"][0];
    assert_eq!(
        (&change["field"], &change["name"], &change["change"]),
        (&json!("allow"), &json!(id), &json!("added"))
    );
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(1), "{changes}");
    let all: String = rows.iter().filter_map(|row| row.entry.personal.detail.clone()).collect();
    assert!(!all.contains("secret-") && all.contains("secr…#"), "{all}");
    // Who may edit sees them whole.
    assert_eq!(api.read(&format!("/allow/{id}"))["header:x-api-key"], "secret-of-another");
}
