//! Lists of what happened: filters, pages, order.

use std::time::Duration;

use tidegate_database::{
    AuditEntry, Database, DatabaseError, DatabaseOptions, HistoryFilter, HistoryRow, NewVersion, PageRequest,
    UnixMillis, Violation,
};

use crate::support::{TestDatabase, at, entry, options, rule, version, violation};

on_both!(
    violations_come_back_as_written_with_their_rules,
    a_violation_with_nothing_known_can_be_written,
    each_filter_selects_its_rows,
    tenants_are_selected_by_a_list,
    pages_are_stable_while_rows_are_added,
    foreign_cursors_are_refused,
    a_search_has_its_own_time,
);

async fn violations_come_back_as_written_with_their_rules(test: &TestDatabase) {
    let rules = vec![rule("limit-1", None, 1.0), rule("limit-2", None, 1.0)];
    test.db.publish(NewVersion { rules, ..version(1) }).await.unwrap();
    test.record_violations(vec![]).await;
    test.record_violations((1..=250).map(violation).collect()).await;
    let rows = test
        .db
        .violations(&HistoryFilter::default(), &PageRequest { limit: 1_000, cursor: None })
        .await
        .unwrap();
    assert_eq!(rows.items.len(), 250);
    for (row, number) in rows.items.iter().zip((1..=250).rev()) {
        assert_eq!(row.violation, violation(number));
        assert_eq!(row.rule_id.is_some(), number <= 2, "limit-{number}");
    }
    assert_ne!(rows.items[248].rule_id, rows.items[249].rule_id);
}

async fn a_violation_with_nothing_known_can_be_written(test: &TestDatabase) {
    let odd = Violation {
        event: "nul\0".into(),
        tokens_at_time: Some(f64::NAN),
        count: u64::MAX,
        ..Violation::default()
    };
    test.record_violations(vec![odd]).await;
    let rows = test.db.violations(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    let row = &rows.items[0].violation;
    assert_eq!((row.event.as_str(), row.tokens_at_time, row.ip), ("nul\u{fffd}", None, None));
}

/// The times of the audit entries, and of the violations, that a filter selects.
async fn selected(db: &Database, filter: &HistoryFilter) -> (Vec<i64>, Vec<i64>) {
    let (mut entries, mut violations) = (Vec::new(), Vec::new());
    for row in db.events(filter, &PageRequest::default()).await.unwrap().items {
        match row {
            HistoryRow::Audit(row) => entries.push(row.entry.time.get() - at(0).get()),
            HistoryRow::Violation(row) => violations.push(row.violation.requested_at.get() - at(0).get()),
        }
    }
    let audit = db.audit(filter, &PageRequest::default()).await.unwrap().items;
    assert_eq!(audit.len(), entries.len());
    assert_eq!(db.violations(filter, &PageRequest::default()).await.unwrap().items.len(), violations.len());
    (entries, violations)
}

async fn each_filter_selects_its_rows(test: &TestDatabase) {
    test.db.append((1..=5).map(entry).collect()).await.unwrap();
    test.record_violations((1..=5).map(violation).collect()).await;
    let none = HistoryFilter::default();
    let both = |times: &[i64]| (times.to_vec(), times.to_vec());
    let text = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (none.clone(), both(&[5, 4, 3, 2, 1])),
        (HistoryFilter { since: Some(at(3)), ..none.clone() }, both(&[5, 4, 3])),
        (HistoryFilter { until: Some(at(3)), ..none.clone() }, both(&[2, 1])),
        (HistoryFilter { since: Some(at(2)), until: Some(at(4)), ..none.clone() }, both(&[3, 2])),
        (HistoryFilter { user: text("user-2"), ..none.clone() }, both(&[2])),
        (HistoryFilter { text: text("KEY-4"), ..none.clone() }, both(&[4])),
        (HistoryFilter { text: text("%"), ..none.clone() }, both(&[])),
        (HistoryFilter { ip: "2001:db8::3".parse().ok(), ..none.clone() }, both(&[3])),
        (HistoryFilter { limit_name: text("limit-4"), ..none.clone() }, both(&[4])),
        (HistoryFilter { kind: text("kind-5"), ..none.clone() }, both(&[5])),
        (HistoryFilter { kind: text("rate_limit_exceeded"), ..none.clone() }, (vec![], vec![5, 4, 3, 2, 1])),
        (HistoryFilter { tenants: Some(vec!["tenant-1".into()]), ..none.clone() }, both(&[1])),
        // Nobody did a denial.
        (HistoryFilter { actor: text("actor-1"), ..none.clone() }, (vec![1], vec![])),
        (HistoryFilter { user: text("user-2"), limit_name: text("limit-3"), ..none.clone() }, both(&[])),
        (HistoryFilter { user: text("x' OR '1'='1"), ..none.clone() }, both(&[])),
    ] {
        assert_eq!(selected(&test.db, &filter).await, expected, "{filter:?}");
    }
}

async fn tenants_are_selected_by_a_list(test: &TestDatabase) {
    test.db.append((1..=5).map(entry).collect()).await.unwrap();
    let of = |tenants: Vec<String>| HistoryFilter { tenants: Some(tenants), ..HistoryFilter::default() };
    assert_eq!(selected(&test.db, &of(vec![])).await, (vec![], vec![]));
    // More tenants than a statement can have values.
    let many = (0..70_000).filter(|number| *number != 3).map(|number| format!("tenant-{number}")).collect();
    assert_eq!(selected(&test.db, &of(many)).await.0, [5, 4, 2, 1]);
}

async fn pages_are_stable_while_rows_are_added(test: &TestDatabase) {
    // Many rows of one instant, in both tables.
    let entries =
        |count: u64| (0..count).map(|_| AuditEntry { time: at(0), ..AuditEntry::default() }).collect();
    let violations =
        |count: u64| (0..count).map(|_| Violation { requested_at: at(0), ..Violation::default() }).collect();
    test.db.append(entries(7)).await.unwrap();
    test.record_violations(violations(8)).await;
    let all = test.db.events(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!((all.items.len(), &all.next), (15, &None));

    let mut paged = Vec::new();
    let mut cursor = None;
    loop {
        let page =
            test.db.events(&HistoryFilter::default(), &PageRequest { limit: 2, cursor }).await.unwrap();
        paged.extend(page.items);
        // Newer rows come before what was read.
        test.db.append(vec![AuditEntry { time: at(10), ..AuditEntry::default() }]).await.unwrap();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, all.items);
}

async fn foreign_cursors_are_refused(test: &TestDatabase) {
    for cursor in ["", "x", "1", "1.a", "1.x.1", "1.a.1.1", "1.a.99999999999999999999", "é.a.1"] {
        let page = PageRequest { limit: 1, cursor: Some(cursor.into()) };
        let refused = test.db.events(&HistoryFilter::default(), &page).await;
        assert!(matches!(refused, Err(DatabaseError::Cursor)), "{cursor}");
    }
    let page = PageRequest { limit: 1, cursor: Some("x".into()) };
    assert!(matches!(test.db.versions(&page).await, Err(DatabaseError::Cursor)));
    assert!(matches!(test.db.tokens(&page).await, Err(DatabaseError::Cursor)));
    // A limit of nothing or of everything is the nearest that is allowed.
    test.db.append((1..=3).map(entry).collect()).await.unwrap();
    for (limit, expected) in [(0, 1), (u32::MAX, 3)] {
        let rows =
            test.db.audit(&HistoryFilter::default(), &PageRequest { limit, cursor: None }).await.unwrap();
        assert_eq!(rows.items.len(), expected);
    }
    let ancient = HistoryFilter { until: Some(UnixMillis::new(i64::MIN)), ..HistoryFilter::default() };
    assert_eq!(selected(&test.db, &ancient).await, (vec![], vec![]));
}

/// A search that takes too long is told so, and the next one has a connection.
async fn a_search_has_its_own_time(test: &TestDatabase) {
    // So many that no machine has searched them when the time is up, which a timer notices after a millisecond.
    for begin in (1..4_000).step_by(500) {
        test.db.append((begin..begin + 500).map(entry).collect()).await.unwrap();
    }
    let hurried = DatabaseOptions { search_time: Duration::ZERO, connections: 1, ..options() };
    let db = Database::open(&test.url, hurried).await.unwrap();
    let search = HistoryFilter { text: Some("user-1234".into()), ..HistoryFilter::default() };
    for _ in 0..5 {
        let refused = db.events(&search, &PageRequest::default()).await.unwrap_err();
        assert!(matches!(refused, DatabaseError::SearchTooLong(_)), "{refused}");
        assert!(refused.to_string().contains("`since` and `until`"), "{refused}");
    }
    let page = PageRequest { limit: 30, cursor: None };
    let whole = db.events(&HistoryFilter::default(), &page).await.unwrap();
    assert_eq!(whole.items.len(), 30);
    assert_eq!(test.db.events(&search, &PageRequest::default()).await.unwrap().items.len(), 1);
    db.close().await;
}
