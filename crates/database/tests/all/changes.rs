//! News of new versions.

use tidegate_database::{LiveChange, LiveHead, TrustChange, TrustEdit, VersionChange};

use crate::support::{TestDatabase, at, open, version};

on_both!(changes_of_other_processes_arrive, changes_before_the_first_look_are_not_missed);

async fn changes_of_other_processes_arrive(test: &TestDatabase) {
    let other = open(&test.url).await;
    let mut changes = test.db.changes();
    assert_eq!(changes.next().await, VersionChange::Unknown);
    for number in 1..=3 {
        other.publish(version(number)).await.unwrap();
        assert_eq!(changes.next().await, VersionChange::Version(number));
    }
    // The same text again is no change.
    other.publish(version(3)).await.unwrap();
    other.publish(version(4)).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Version(4));
}

async fn changes_before_the_first_look_are_not_missed(test: &TestDatabase) {
    let mut changes = test.db.changes();
    test.db.publish(version(1)).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Unknown);
    assert_eq!(test.db.active_number().await.unwrap(), Some(1));
}

#[tokio::test]
async fn postgres_tells_of_changes_beside_the_policy_too() {
    let test = TestDatabase::postgres().await;
    let other = open(&test.url).await;
    let mut changes = test.db.changes();
    assert_eq!(changes.next().await, VersionChange::Unknown);
    let trust = TrustChange { users: vec!["42".to_owned()], most: 4, ..TrustChange::default() };
    let edit = |_: &str, _: Option<&str>| TrustEdit { body: Some("{}".to_owned()), ends_at: None };
    other.change_trust(trust, edit).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Trust);
    assert_eq!(test.db.trust_page(LiveHead::default(), 0, 10).await.unwrap().rows.len(), 1);
    other.change_live(LiveChange::default()).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Live);
    other.erase("42", "root", at(2)).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Trust);
    assert_eq!(test.db.trust_page(LiveHead::default(), 0, 10).await.unwrap().rows, []);
}

/// A connection that the server ends is replaced, and what happened meanwhile is to be looked up.
#[tokio::test]
async fn a_lost_connection_to_postgres_is_replaced() {
    let test = TestDatabase::postgres().await;
    let mut changes = test.db.changes();
    assert_eq!(changes.next().await, VersionChange::Unknown);
    let others = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(!test.raw_texts(others).await.is_empty());
    assert_eq!(changes.next().await, VersionChange::Unknown);
    // The pool has lost its connections too, and replaces them.
    test.db.publish(version(1)).await.unwrap();
    assert_eq!(changes.next().await, VersionChange::Version(1));
}
