//! News of new versions.

use tidegate_database::VersionChange;

use crate::support::{TestDatabase, open, version};

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
