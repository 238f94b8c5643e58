//! What is known about users: sequences, bounds, what is forgotten, and what is erased.

use std::collections::BTreeMap;

use tidegate_database::{
    HistoryFilter, LiveHead, NewAnswer, PageRequest, TrustChange, TrustChangeOutcome, TrustEdit,
};

use crate::support::{TestDatabase, TestFolder, at, entry, sequence, version};

on_both!(
    changes_are_read_in_their_order,
    a_change_is_made_as_a_whole_or_not_at_all,
    rows_are_bounded_and_those_that_ended_make_room,
    what_is_taken_back_makes_room_at_once,
    writers_at_once_lose_nothing,
    an_erased_user_is_gone_and_everything_is_read_anew,
    whether_a_tenant_is_known_is_found_by_indexes,
    a_database_that_has_gone_back_is_noticed,
);

const HOUR: i64 = 60 * 60 * 1_000;

fn change(users: &[&str], now: i64) -> TrustChange {
    let users = users.iter().map(ToString::to_string).collect();
    TrustChange { users, most: 4, now: at(now), ..TrustChange::default() }
}

/// Sets the body of every user.
async fn set(test: &TestDatabase, change: TrustChange, body: Option<&str>) -> TrustChangeOutcome {
    let edit = |_: &str, _: Option<&str>| TrustEdit { body: body.map(str::to_owned), ends_at: None };
    test.db.change_trust(change, edit).await.unwrap()
}

/// What is new after a sequence: each user and its body.
async fn after(test: &TestDatabase, last: u64) -> Vec<(String, Option<String>)> {
    let epoch = test.db.trust_page(LiveHead::default(), 0, 1).await.unwrap().head.epoch;
    let page = test.db.trust_page(LiveHead { epoch, sequence: 0 }, last, 10).await.unwrap();
    page.rows.into_iter().map(|row| (row.user, row.body)).collect()
}

fn row(user: &str, body: Option<&str>) -> (String, Option<String>) {
    (user.to_owned(), body.map(str::to_owned))
}

async fn changes_are_read_in_their_order(test: &TestDatabase) {
    assert_eq!(
        set(test, change(&["b", "a"], 1), Some("{}")).await,
        TrustChangeOutcome::Changed(sequence(1, 1))
    );
    assert_eq!(set(test, change(&["b"], 2), Some("[1]")).await, TrustChangeOutcome::Changed(sequence(2, 0)));
    assert_eq!(after(test, 0).await, [row("a", Some("{}")), row("b", Some("[1]"))]);
    assert_eq!(after(test, sequence(1, 1)).await, [row("b", Some("[1]"))]);
    assert_eq!(
        set(test, change(&["b", "nobody"], 3), None).await,
        TrustChangeOutcome::Changed(sequence(3, 0))
    );
    assert_eq!(after(test, sequence(1, 1)).await, [row("b", None)], "nobody was never known");
    let head = test.db.trust_page(LiveHead::default(), 0, 1).await.unwrap().head;
    assert_eq!(test.db.trust_page(head, head.sequence, 10).await.unwrap().rows, []);
    // What has ended is told for an hour.
    set(test, change(&["a"], 3 + HOUR), Some("{}")).await;
    assert_eq!(after(test, 0).await.len(), 2);
    set(test, change(&["a"], 4 + HOUR), Some("{}")).await;
    assert_eq!(after(test, 0).await, [row("a", Some("{}"))]);
}

async fn a_change_is_made_as_a_whole_or_not_at_all(test: &TestDatabase) {
    set(test, change(&["a", "b"], 1), Some("1")).await;
    let too_many = TrustChange { audit: vec![entry(1)], ..change(&["a", "c", "d", "e"], 2) };
    assert_eq!(set(test, too_many, Some("2")).await, TrustChangeOutcome::Full);
    assert_eq!(after(test, 0).await, [row("a", Some("1")), row("b", Some("1"))]);
    let answer = || NewAnswer {
        key_hash: [1; 32],
        request_hash: [2; 32],
        status: 200,
        body: Box::new(|_| "{}".into()),
    };
    let once = || TrustChange { audit: vec![entry(2)], answer: Some(answer()), ..change(&["a"], 3) };
    let add = |_: &str, body: Option<&str>| TrustEdit {
        body: Some(format!("{}+", body.unwrap_or_default())),
        ends_at: None,
    };
    assert_eq!(test.db.change_trust(once(), add).await.unwrap(), TrustChangeOutcome::Changed(sequence(3, 0)));
    assert_eq!(test.db.change_trust(once(), add).await.unwrap(), TrustChangeOutcome::Repeated);
    assert_eq!(after(test, sequence(1, 1)).await, [row("a", Some("1+"))]);
    let audit = test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(audit.items.len(), 1, "what was not done is not in the audit");
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
}

async fn rows_are_bounded_and_those_that_ended_make_room(test: &TestDatabase) {
    let ending = |_: &str, _: Option<&str>| TrustEdit { body: Some("1".into()), ends_at: Some(at(9)) };
    test.db.change_trust(change(&["a", "b", "c"], 1), ending).await.unwrap();
    set(test, change(&["d"], 1), Some("1")).await;
    assert_eq!(set(test, change(&["e"], 9 + HOUR), Some("1")).await, TrustChangeOutcome::Full);
    assert_ne!(set(test, change(&["d"], 9 + HOUR), Some("2")).await, TrustChangeOutcome::Full);
    assert_ne!(set(test, change(&["e"], 10 + HOUR), Some("1")).await, TrustChangeOutcome::Full);
    assert_eq!(after(test, 0).await, [row("d", Some("2")), row("e", Some("1"))]);
}

async fn what_is_taken_back_makes_room_at_once(test: &TestDatabase) {
    set(test, change(&["a", "b", "c", "d"], 1), Some("1")).await;
    assert_eq!(set(test, change(&["e"], 2), Some("1")).await, TrustChangeOutcome::Full);
    set(test, change(&["a", "b", "c", "d"], 3), None).await;
    assert_ne!(set(test, change(&["e", "f", "g", "h"], 4), Some("1")).await, TrustChangeOutcome::Full);
    // Those of whom nothing is known any more are bounded too, and come back only if there is room.
    assert_eq!(set(test, change(&["a"], 5), Some("1")).await, TrustChangeOutcome::Full);
    set(test, change(&["e"], 6), None).await;
    assert_eq!(set(test, change(&["i"], 7), Some("1")).await, TrustChangeOutcome::Full);
    assert_ne!(set(test, change(&["a"], 8), Some("1")).await, TrustChangeOutcome::Full);
    assert_eq!(after(test, 0).await.len(), 8);
}

async fn writers_at_once_lose_nothing(test: &TestDatabase) {
    let names: Vec<String> = (0..250).map(|number| format!("user-{number:03}")).collect();
    let writers = (0..8).map(|_| {
        let (db, users) = (test.db.clone(), names.clone());
        tokio::spawn(async move {
            for _ in 0..3 {
                let change =
                    TrustChange { users: users.clone(), most: 250, now: at(1), ..TrustChange::default() };
                let count = |_: &str, body: Option<&str>| {
                    let before: u64 = body.map_or(0, |body| body.parse().unwrap());
                    TrustEdit { body: Some((before + 1).to_string()), ends_at: None }
                };
                assert!(matches!(db.change_trust(change, count).await, Ok(TrustChangeOutcome::Changed(_))));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = test.db.trust_page(LiveHead::default(), 0, 1_000).await.unwrap();
    let known: BTreeMap<String, Option<String>> =
        all.rows.iter().map(|row| (row.user.clone(), row.body.clone())).collect();
    assert_eq!(known, names.iter().map(|name| row(name, Some("24"))).collect());
    assert_eq!(
        (all.head.sequence, all.rows[249].sequence),
        (sequence(1, 24 * 250 - 1), sequence(1, 24 * 250 - 1))
    );
}

async fn an_erased_user_is_gone_and_everything_is_read_anew(test: &TestDatabase) {
    set(test, change(&["mallory", "ada"], 1), Some("{}")).await;
    let before = test.db.trust_page(LiveHead::default(), 0, 10).await.unwrap().head;
    assert_eq!(test.db.erase("mallory", "root", at(2)).await.unwrap(), 1);
    let page = test.db.trust_page(before, before.sequence, 10).await.unwrap();
    assert_eq!((page.head.epoch, page.rows.len()), (before.epoch + 1, 1), "from the first on");
    assert_eq!(page.rows[0].user, "ada");
    assert_eq!(test.db.erase("mallory", "root", at(3)).await.unwrap(), 0);
    assert_eq!(test.db.trust_page(page.head, page.head.sequence, 10).await.unwrap().rows, []);
}

async fn whether_a_tenant_is_known_is_found_by_indexes(test: &TestDatabase) {
    for (table, index) in [
        ("tokens", "idx_tokens_tenant"),
        ("rate_limit_violations", "idx_violation_tenant"),
        ("audit_entries", "idx_audit_tenant"),
    ] {
        let indexes = if test.url.starts_with("sqlite") {
            test.query_plan(&format!("EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE tenant = 'x'")).await
        } else {
            // With so few rows PostgreSQL would rather read all of them.
            let sql = format!("SELECT indexdef FROM pg_indexes WHERE indexname = '{index}'");
            test.raw_texts(&sql).await.join("; ")
        };
        assert!(indexes.contains(index), "{indexes}");
    }
}

#[tokio::test]
async fn after_a_restore_everything_is_read_anew() {
    let (test, folder) = (TestDatabase::sqlite().await, TestFolder::new());
    test.db.publish(version(1)).await.unwrap();
    set(&test, change(&["a"], 1), Some("1")).await;
    let backup = folder.join("backup.db");
    test.db.backup_to(&backup).await.unwrap();
    set(&test, change(&["a", "b"], 2), Some("2")).await;
    let seen = test.db.trust_page(LiveHead::default(), 0, 10).await.unwrap().head;
    test.db.restore_from(&backup, "ada", at(9)).await.unwrap();
    let page = test.db.trust_page(seen, seen.sequence, 10).await.unwrap();
    assert_eq!((page.head.epoch, page.head.sequence), (seen.epoch + 1, sequence(1, 0)));
    assert_eq!(after(&test, 0).await, [row("a", Some("1"))]);
}

async fn a_database_that_has_gone_back_is_noticed(test: &TestDatabase) {
    set(test, change(&["a"], 1), Some("1")).await;
    set(test, change(&["b"], 2), Some("1")).await;
    let seen = test.db.trust_page(LiveHead::default(), 0, 10).await.unwrap().head;
    test.raw("DELETE FROM trust_accounts WHERE user_id = 'b'").await;
    let before = sequence(1, 0);
    test.raw(&format!("UPDATE trust_head SET sequence = {before}")).await;
    test.raw(&format!("DELETE FROM past_heads WHERE sequence >= {before}")).await;
    set(test, change(&["c"], 3), Some("1")).await;
    let page = test.db.trust_page(seen, seen.sequence, 10).await.unwrap();
    let users: Vec<String> = page.rows.into_iter().map(|row| row.user).collect();
    assert_eq!((page.is_anew, users), (true, vec!["a".to_owned(), "c".to_owned()]));
}
