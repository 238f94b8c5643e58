//! What is old goes, and the rest verifies.

use tidegate_database::{HistoryFilter, PageRequest, UnixMillis};

use crate::support::{TestDatabase, at, entry, violation};

on_both!(
    old_entries_go_and_the_rest_verifies,
    too_much_goes_from_the_beginning,
    violations_go_by_age_and_by_number,
);

const ALL: UnixMillis = UnixMillis::new(0);

async fn old_entries_go_and_the_rest_verifies(test: &TestDatabase) {
    test.db.append((1..=2_500).map(entry).collect()).await.unwrap();
    assert_eq!(test.db.trim(ALL, u64::MAX, at(5_000)).await.unwrap(), 0);
    assert_eq!(test.db.trim(at(2_101), u64::MAX, at(5_000)).await.unwrap(), 2_100);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    // One note for each thousand that was removed.
    assert_eq!((report.entries, report.first_kept, report.last, report.broken), (403, 2_101, 2_503, None));
    let notes = HistoryFilter { kind: Some("audit_trimmed".into()), ..HistoryFilter::default() };
    let notes = test.db.audit(&notes, &PageRequest::default()).await.unwrap().items;
    assert_eq!(notes.iter().map(|row| row.entry.count).collect::<Vec<_>>(), [100, 1_000, 1_000]);
    test.db.append(vec![entry(1)]).await.unwrap();
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
    // A change of what is kept is still found.
    test.raw("UPDATE audit_entries SET reason = 'x' WHERE seq = 2101").await;
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken.unwrap().seq, 2_101);
}

async fn too_much_goes_from_the_beginning(test: &TestDatabase) {
    test.db.append((1..=100).map(entry).collect()).await.unwrap();
    let bytes: u64 =
        test.raw_texts("SELECT CAST(bytes AS TEXT) FROM audit_head").await[0].parse().expect("a number");
    let removed = test.db.trim(ALL, bytes / 2, at(5_000)).await.unwrap();
    assert!((45..=55).contains(&removed), "{removed} of 100 for half of the room");
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.first_kept, report.broken), (101 - removed, removed + 1, None));
    // Everything but the note about it.
    assert_eq!(test.db.trim(ALL, 0, at(5_000)).await.unwrap(), 101 - removed);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.broken), (1, None));
}

async fn violations_go_by_age_and_by_number(test: &TestDatabase) {
    test.record_violations((1..=1_200).map(violation).collect()).await;
    assert_eq!(test.db.trim_violations(ALL, 1_200).await.unwrap(), 0);
    assert_eq!(test.db.trim_violations(at(101), 1_200).await.unwrap(), 100);
    assert_eq!(test.db.trim_violations(at(101), 50).await.unwrap(), 1_050);
    let left = test.db.violations(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    let left: Vec<u64> = left.items.iter().map(|row| row.violation.count).collect();
    assert_eq!(left, (1_152..=1_201).rev().collect::<Vec<_>>());
    assert_eq!(test.db.trim_violations(ALL, 0).await.unwrap(), 50);
}
