//! The audit: what was written comes back, and verifies.

use tidegate_database::{AuditEntry, HistoryFilter, PageRequest, PersonalData, UnixMillis};

use crate::support::{TestDatabase, at, entry, violation};

on_both!(
    entries_come_back_as_written_and_verify,
    any_text_and_any_number_can_be_written,
    entries_of_concurrent_writers_are_one_chain,
    an_erased_person_is_gone_and_the_chain_verifies,
);

async fn entries_come_back_as_written_and_verify(test: &TestDatabase) {
    let empty = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((empty.entries, empty.first_kept, empty.last, empty.broken), (0, 1, 0, None));
    let entries: Vec<AuditEntry> = (1..=250).map(entry).collect();
    test.db.append(vec![]).await.unwrap();
    test.db.append(entries.clone()).await.unwrap();
    test.db.append(vec![AuditEntry { time: at(900), ..AuditEntry::default() }]).await.unwrap();
    let rows =
        test.db.audit(&HistoryFilter::default(), &PageRequest { limit: 1_000, cursor: None }).await.unwrap();
    assert_eq!(rows.items.len(), 251);
    for (row, seq) in rows.items.iter().zip((1..=251).rev()) {
        assert_eq!(row.seq, seq);
        if let Some(entry) = entries.get(usize::try_from(seq).unwrap() - 1) {
            assert_eq!((&row.entry, row.erased_at), (entry, None));
        }
    }
    let mut steps = Vec::new();
    let report = test.db.verify(|done, all| steps.push((done, all))).await.unwrap();
    assert_eq!((report.entries, report.erased, report.first_kept, report.last), (251, 0, 1, 251));
    assert_eq!((report.broken, report.hash), (None, rows.items[0].hash));
    assert_eq!(steps, [(251, 251)]);
}

async fn any_text_and_any_number_can_be_written(test: &TestDatabase) {
    let text = Some("nul \0 quote ' \" \\ $1 emoji 🦀 rtl \u{202e}".to_owned());
    let odd = AuditEntry {
        time: UnixMillis::new(i64::MAX),
        event: String::new(),
        count: u64::MAX,
        first: UnixMillis::new(i64::MIN),
        remaining: Some(u64::MAX),
        reason: text.clone(),
        personal: PersonalData { user_id: text, ..PersonalData::default() },
        ..AuditEntry::default()
    };
    test.db.append(vec![odd]).await.unwrap();
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.broken), (1, None));
    let rows = test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(rows.items[0].entry.count, i64::MAX.unsigned_abs());
    assert_eq!(rows.items[0].entry.time, UnixMillis::new(i64::MAX));
    assert!(
        rows.items[0].entry.reason.as_deref().unwrap().starts_with("nul \u{fffd} quote ' \" \\ $1 emoji 🦀")
    );
}

async fn entries_of_concurrent_writers_are_one_chain(test: &TestDatabase) {
    let mut writers = Vec::new();
    for writer in 0..8 {
        let db = test.db.clone();
        writers.push(tokio::spawn(async move {
            for number in 0..10 {
                db.append(vec![entry(writer * 100 + number), entry(writer * 100 + 50 + number)])
                    .await
                    .unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.last, report.broken), (160, 160, None));
}

async fn an_erased_person_is_gone_and_the_chain_verifies(test: &TestDatabase) {
    let of = |user: &str, number| {
        let mut entry = entry(number);
        entry.personal.user_id = Some(user.into());
        entry
    };
    let entries = (0..1_500).map(|number| of(if number % 2 == 0 { "mallory" } else { "ada" }, number));
    test.db.append(entries.collect()).await.unwrap();
    let mut denied = violation(1);
    denied.user_id = Some("mallory".into());
    test.record_violations(vec![denied, violation(2)]).await;

    assert_eq!(test.db.erase("mallory", "root", at(2_000)).await.unwrap(), 751);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.erased, report.broken), (1_501, 750, None));

    // No column of any row says anything about the person any more.
    let mallory = HistoryFilter { user: Some("mallory".into()), ..HistoryFilter::default() };
    assert_eq!(test.db.events(&mallory, &PageRequest::default()).await.unwrap().items, []);
    let rows =
        test.db.audit(&HistoryFilter::default(), &PageRequest { limit: 1_000, cursor: None }).await.unwrap();
    let note = &rows.items[0].entry;
    assert_eq!((note.event.as_str(), note.count), ("personal_data_erased", 751));
    assert_eq!((note.actor.as_deref(), &note.personal), (Some("root"), &PersonalData::default()));
    for row in &rows.items[1..] {
        if row.entry.personal.user_id.as_deref() == Some("ada") {
            assert_eq!(row.erased_at, None);
        } else {
            assert_eq!((&row.entry.personal, row.erased_at), (&PersonalData::default(), Some(at(2_000))));
        }
    }
    let violations = test.db.violations(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    let erased = &violations.items[1].violation;
    assert_eq!((&erased.user_id, erased.ip, &erased.bucket_key, &erased.client), (&None, None, &None, &None));
    assert_eq!(erased.endpoint.as_deref(), Some("/endpoint-1"));
    // Nobody is left: that is written down too.
    assert_eq!(test.db.erase("mallory", "root", at(3_000)).await.unwrap(), 0);
}
