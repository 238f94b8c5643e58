//! Whoever changes the audit with access to the database is found out.

use tidegate_database::{BrokenChain, DatabaseKind};

use crate::support::{TestDatabase, at, entry};

on_both!(
    a_change_of_any_column_is_found,
    removed_inserted_and_swapped_entries_are_found,
    a_cut_tail_is_found,
    a_changed_head_is_found,
    erased_data_cannot_be_invented,
);

const ENTRIES: u64 = 20;

async fn fill(test: &TestDatabase) {
    test.db.append((1..=ENTRIES).map(entry).collect()).await.unwrap();
}

async fn broken_at(test: &TestDatabase) -> Option<u64> {
    test.db.verify(|_, _| {}).await.unwrap().broken.map(|broken: BrokenChain| broken.seq)
}

/// Each column with another value for it, in the SQL of both databases.
fn other_values(kind: DatabaseKind) -> Vec<(&'static str, &'static str)> {
    let bytes = match kind {
        DatabaseKind::Sqlite => "x'00112233445566778899aabbccddeeff'",
        DatabaseKind::Postgres => r"'\x00112233445566778899aabbccddeeff'",
    };
    let mut columns = Vec::new();
    for column in [
        "event",
        "severity",
        "node",
        "actor",
        "limit_name",
        "kind",
        "endpoint",
        "trace_id",
        "reason",
        "user_id",
        "client",
        "ip",
        "tenant",
        "bucket_key",
        "detail",
    ] {
        columns.push((column, "'x'"));
        if !["event", "severity"].contains(&column) {
            columns.push((column, "NULL"));
        }
    }
    for column in ["time", "first_at", "last_at"] {
        columns.push((column, "'2020-01-01T00:00:00.000Z'"));
    }
    columns.push(("erased_at", "'2020-01-01T00:00:00.000Z'"));
    for column in ["policy_version", "count", "remaining", "retry_after_ms", "bytes"] {
        columns.push((column, "77777"));
    }
    for column in ["person_salt", "person_hash", "hash"] {
        columns.push((column, bytes));
    }
    columns.push(("person_salt", "NULL"));
    columns
}

async fn a_change_of_any_column_is_found(test: &TestDatabase) {
    fill(test).await;
    let columns = other_values(test.db.kind());
    let names = match test.db.kind() {
        DatabaseKind::Sqlite => "SELECT name FROM pragma_table_info('audit_entries') WHERE name <> 'seq'",
        DatabaseKind::Postgres => {
            "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
             WHERE table_name = 'audit_entries' AND column_name <> 'seq'"
        }
    };
    for name in test.raw_texts(names).await {
        assert!(columns.iter().any(|(column, _)| *column == name), "the test does not change {name}");
    }
    test.raw("CREATE TABLE kept AS SELECT * FROM audit_entries").await;
    for (seq, (column, value)) in (1..=ENTRIES).cycle().zip(columns) {
        assert_eq!(
            test.raw(&format!("UPDATE audit_entries SET {column} = {value} WHERE seq = {seq}")).await,
            1
        );
        assert_eq!(broken_at(test).await, Some(seq), "{column} = {value}");
        test.raw(&format!(
            "UPDATE audit_entries SET {column} = (SELECT {column} FROM kept WHERE seq = {seq}) WHERE seq = {seq}"
        ))
        .await;
        assert_eq!(broken_at(test).await, None, "{column}");
    }
}

async fn removed_inserted_and_swapped_entries_are_found(test: &TestDatabase) {
    fill(test).await;
    test.raw("CREATE TABLE kept AS SELECT * FROM audit_entries").await;
    let restore = "DELETE FROM audit_entries; INSERT INTO audit_entries SELECT * FROM kept";
    for (change, seq) in [
        ("DELETE FROM audit_entries WHERE seq = 1", 1),
        ("DELETE FROM audit_entries WHERE seq = 7", 7),
        // The rest is moved up, so that no number is missing.
        ("DELETE FROM audit_entries WHERE seq = 7; UPDATE audit_entries SET seq = 7 WHERE seq = 20", 7),
        // Two entries change places.
        (
            "UPDATE audit_entries SET seq = 99 WHERE seq = 4; UPDATE audit_entries SET seq = 4 WHERE seq = 5; \
             UPDATE audit_entries SET seq = 5 WHERE seq = 99",
            4,
        ),
        ("UPDATE audit_entries SET seq = 0 WHERE seq = 1", 1),
        // A copy after the end.
        (
            "CREATE TABLE one AS SELECT * FROM kept WHERE seq = 20; UPDATE one SET seq = 21; \
             INSERT INTO audit_entries SELECT * FROM one; DROP TABLE one",
            21,
        ),
        ("DELETE FROM audit_entries", 1),
    ] {
        test.raw(change).await;
        assert_eq!(broken_at(test).await, Some(seq), "{change}");
        test.raw(restore).await;
        assert_eq!(broken_at(test).await, None, "{change}");
    }
}

async fn a_cut_tail_is_found(test: &TestDatabase) {
    fill(test).await;
    test.raw("DELETE FROM audit_entries WHERE seq >= 18").await;
    assert_eq!(broken_at(test).await, Some(18));
    // The chain goes on from the head, so later entries do not hide it.
    test.db.append(vec![entry(21)]).await.unwrap();
    assert_eq!(broken_at(test).await, Some(18));
}

async fn a_changed_head_is_found(test: &TestDatabase) {
    fill(test).await;
    test.raw("UPDATE audit_head SET seq = 18").await;
    assert!(broken_at(test).await.is_some());
    test.raw("UPDATE audit_head SET seq = 20, anchor_seq = 3").await;
    assert_eq!(broken_at(test).await, Some(4));
}

async fn erased_data_cannot_be_invented(test: &TestDatabase) {
    fill(test).await;
    assert_eq!(test.db.erase("user-5", "root", at(100)).await.unwrap(), 1);
    assert_eq!(broken_at(test).await, None);
    test.raw("UPDATE audit_entries SET user_id = 'somebody-else' WHERE seq = 5").await;
    assert_eq!(broken_at(test).await, Some(5));
}
