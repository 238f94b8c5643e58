//! Batches of records, and leases.

use tidegate_database::{Database, DatabaseError, HistoryFilter, PageRequest, RecordBatch};

use crate::support::{TestDatabase, at, entry, violation};

on_both!(a_batch_is_written_once_however_often_it_is_sent, a_lease_has_one_holder_until_it_expires);

fn batch(writer: u8, number: u64) -> RecordBatch {
    RecordBatch {
        writer: [writer; 16],
        number,
        time: at(0),
        entries: vec![entry(number), entry(number + 1)],
        violations: vec![violation(number)],
    }
}

async fn written(db: &Database) -> (usize, usize) {
    let (filter, page) = (HistoryFilter::default(), PageRequest::default());
    let entries = db.audit(&filter, &page).await.unwrap().items.len();
    (entries, db.violations(&filter, &page).await.unwrap().items.len())
}

async fn a_batch_is_written_once_however_often_it_is_sent(test: &TestDatabase) {
    assert!(test.db.record(batch(1, 1)).await.unwrap());
    assert!(!test.db.record(batch(1, 1)).await.unwrap());
    assert_eq!(written(&test.db).await, (2, 1));
    assert!(test.db.record(batch(2, 1)).await.unwrap(), "another writer has numbers of its own");
    assert!(test.db.record(RecordBatch { entries: vec![], ..batch(1, 2) }).await.unwrap());
    assert_eq!(written(&test.db).await, (4, 3));
    // Attempts at the same time: one of them writes.
    let attempts = (0..5).map(|_| {
        let db = test.db.clone();
        tokio::spawn(async move { db.record(batch(3, 7)).await.unwrap() })
    });
    let mut done = 0;
    for attempt in attempts.collect::<Vec<_>>() {
        done += usize::from(attempt.await.unwrap());
    }
    assert_eq!((done, written(&test.db).await), (1, (6, 4)));
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
    // One that fails has written nothing, and can be sent again.
    test.raw("DELETE FROM audit_head").await;
    let failed = test.db.record(batch(1, 3)).await;
    assert!(matches!(failed, Err(DatabaseError::Invalid(_))), "{failed:?}");
    assert_eq!(written(&test.db).await, (6, 4));
}

async fn a_lease_has_one_holder_until_it_expires(test: &TestDatabase) {
    let take = |holder: &'static str, now, until| async move {
        test.db.take_lease("retention", holder, at(now), at(until)).await.unwrap()
    };
    assert!(take("a", 0, 100).await);
    assert!(!take("b", 50, 150).await);
    assert!(take("a", 90, 190).await, "the holder may keep it");
    assert!(!take("b", 189, 300).await);
    assert!(take("b", 190, 300).await);
    assert!(!take("a", 200, 400).await);
}
