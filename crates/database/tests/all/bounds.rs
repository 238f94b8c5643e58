//! What cannot grow without end, and what is found without reading everything.

use tidegate_database::{
    ANSWERS_MAX, DatabaseError, HistoryFilter, HistoryRow, NewAnswer, PageRequest, RecordBatch, StoredToken,
    TOKENS_MAX, VersionChange, VersionMark,
};

use crate::support::{TestDatabase, at, entry, version, violation};

on_both!(
    tokens_are_bounded_and_those_that_ended_make_room,
    the_oldest_answers_make_room,
    a_token_of_a_key_is_made_once,
    rows_are_found_by_event_and_by_kind,
    the_mark_tells_texts_of_one_number_apart,
);

fn token(number: u64) -> StoredToken {
    let mut sha256 = [7; 32];
    sha256[..8].copy_from_slice(&number.to_le_bytes());
    let (id, created_at) = (format!("token-{number}"), at(number.cast_signed()));
    StoredToken { id, sha256, role: "viewer".into(), created_at, ..StoredToken::default() }
}

fn answer(key: u8) -> NewAnswer {
    NewAnswer {
        key_hash: [key; 32],
        request_hash: [1; 32],
        status: 201,
        body: Box::new(|_| "{\"id\":\"x\"}".into()),
    }
}

/// Numbers from 1, as a table `numbers` for one statement.
fn numbers(most: u64) -> String {
    format!("WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {most})")
}

async fn count(test: &TestDatabase, table: &str) -> u64 {
    let texts = test.raw_texts(&format!("SELECT CAST(count(*) AS TEXT) FROM {table}")).await;
    texts[0].parse().unwrap()
}

async fn tokens_are_bounded_and_those_that_ended_make_room(test: &TestDatabase) {
    let (bytes, time) =
        if test.url.starts_with("sqlite") { ("BLOB", "TEXT") } else { ("BYTEA", "TIMESTAMPTZ") };
    let many = format!(
        "{} INSERT INTO tokens (id, sha256, role, created_at, created_by, revoked_at) \
         SELECT 'old-' || n, CAST('hash ' || n AS {bytes}), 'viewer', CAST('2023-01-01T00:00:00.000Z' AS {time}), \
         'test', CASE WHEN n <= 2 THEN CAST('2023-01-0' || n || 'T00:00:00.000Z' AS {time}) END FROM numbers",
        numbers(TOKENS_MAX),
    );
    assert_eq!(test.raw(&many).await, TOKENS_MAX);
    for number in [1, 2] {
        test.db.create_token(token(number), entry(number)).await.unwrap();
        assert!(test.db.token(&format!("old-{number}")).await.unwrap().is_none(), "it ended first");
    }
    let full = test.db.create_token(token(3), entry(3)).await.unwrap_err();
    assert!(matches!(&full, DatabaseError::Full(why) if why.contains("revoke some")), "{full}");
    assert_eq!(count(test, "tokens").await, TOKENS_MAX);
    assert!(test.db.token("token-3").await.unwrap().is_none());
    let kept = test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(kept.items.len(), 2, "what was refused is not in the audit");
}

async fn the_oldest_answers_make_room(test: &TestDatabase) {
    test.db.remember(answer(1), at(0)).await.unwrap();
    test.db.remember(answer(2), at(1)).await.unwrap();
    let (bytes, time) =
        if test.url.starts_with("sqlite") { ("BLOB", "TEXT") } else { ("BYTEA", "TIMESTAMPTZ") };
    let many = format!(
        "{} INSERT INTO idempotent_answers (key_hash, request_hash, status, body, created_at) \
         SELECT CAST('key ' || n AS {bytes}), CAST('request' AS {bytes}), 200, '', \
         CAST('2023-11-14T22:13:21.000Z' AS {time}) FROM numbers",
        numbers(ANSWERS_MAX - 2),
    );
    assert_eq!(test.raw(&many).await, ANSWERS_MAX - 2);
    test.db.remember(answer(3), at(5_000)).await.unwrap();
    assert_eq!(count(test, "idempotent_answers").await, ANSWERS_MAX);
    let known = async |key| test.db.remembered(&[key; 32], &[1; 32], at(6_000)).await.unwrap().is_some();
    assert_eq!((known(1).await, known(2).await, known(3).await), (false, true, true));
}

async fn a_token_of_a_key_is_made_once(test: &TestDatabase) {
    assert!(test.db.create_token_once(token(1), entry(1), answer(1)).await.unwrap());
    assert!(!test.db.create_token_once(token(2), entry(2), answer(1)).await.unwrap());
    assert!(test.db.token("token-1").await.unwrap().is_some());
    assert!(test.db.token("token-2").await.unwrap().is_none());
    assert!(test.db.create_token_once(token(2), entry(2), answer(2)).await.unwrap());
}

async fn rows_are_found_by_event_and_by_kind(test: &TestDatabase) {
    let named = |number, event: &str, kind: &str| {
        let mut entry = entry(number);
        (entry.event, entry.kind, entry.time) = (event.into(), Some(kind.into()), at(number.cast_signed()));
        entry
    };
    let entries = vec![named(1, "one", "other"), named(2, "other", "one"), named(3, "one", "one")];
    let denied = |number, kind: &str| {
        let mut violation = violation(number);
        violation.kind = Some(kind.into());
        violation
    };
    let violations = vec![denied(4, "one"), denied(5, "two")];
    let batch = RecordBatch { writer: [1; 16], number: 1, time: at(9), entries, violations };
    assert!(test.db.record(batch).await.unwrap());
    let found = async |kind: &str, limit| {
        let filter = HistoryFilter { kind: Some(kind.into()), ..HistoryFilter::default() };
        let mut page = PageRequest { limit, cursor: None };
        let mut times = Vec::new();
        loop {
            let part = test.db.events(&filter, &page).await.unwrap();
            times.extend(part.items.iter().map(|row| match row {
                HistoryRow::Audit(row) => row.entry.time,
                HistoryRow::Violation(row) => row.violation.requested_at,
            }));
            page.cursor = part.next;
            if page.cursor.is_none() {
                return times;
            }
        }
    };
    for limit in [1, 2, 100] {
        assert_eq!(found("one", limit).await, [at(4), at(3), at(2), at(1)], "each once, newest first");
        assert_eq!(found("two", limit).await, [at(5)]);
        assert_eq!(found("none", limit).await, []);
    }
}

async fn the_mark_tells_texts_of_one_number_apart(test: &TestDatabase) {
    assert_eq!(test.db.active_mark().await.unwrap(), None);
    test.db.publish(version(1)).await.unwrap();
    let first = test.db.active_mark().await.unwrap().expect("a version");
    let head = test.db.active_version().await.unwrap().expect("a version").head;
    assert_eq!(first, VersionMark { version: head.version, sha256: head.sha256 });
    let mut changes = test.db.changes();
    assert_eq!(changes.next().await, VersionChange::Unknown);
    // A backup was restored: the same number, another text.
    let other =
        if test.url.starts_with("sqlite") { "zeroblob(32)" } else { "decode(repeat('00', 32), 'hex')" };
    test.raw(&format!("UPDATE policy_versions SET sha256 = {other}")).await;
    assert_ne!(test.db.active_mark().await.unwrap(), Some(first));
    if test.url.starts_with("sqlite") {
        assert_eq!(changes.next().await, VersionChange::Version(1));
    }
}

/// Each filter of a list has an index of its own, in the order of the list.
#[tokio::test]
async fn lists_by_limit_event_kind_and_tenant_use_an_index() {
    let test = TestDatabase::sqlite().await;
    for (table, time, id, name) in [
        ("rate_limit_violations", "requested_at", "violation_id", "violation"),
        ("audit_entries", "time", "seq", "audit"),
    ] {
        for (column, index) in
            [("limit_name", "limit"), ("event", "event"), ("kind", "kind"), ("tenant", "tenant")]
        {
            let plan = format!(
                "EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {column} = 'x' AND ({time}, {id}) < ('y', 5) \
                 ORDER BY {time} DESC, {id} DESC LIMIT 10"
            );
            let details = test.query_plan(&plan).await;
            let expected = format!("USING INDEX idx_{name}_{index} ({column}=?");
            assert!(details.contains(&expected) && !details.contains("TEMP B-TREE"), "{details}");
        }
    }
}
