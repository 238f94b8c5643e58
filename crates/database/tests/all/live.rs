//! Live entries: sequences, bounds, and what is forgotten.

use tidegate_database::{HistoryFilter, LiveChange, LiveChangeOutcome, LiveHead, LiveRow, PageRequest};

use crate::support::{TestDatabase, at, entry};

on_both!(
    additions_and_removals_are_read_in_their_order,
    a_change_is_made_as_a_whole_or_not_at_all,
    there_is_room_for_so_many_of_a_kind,
    what_has_ended_is_forgotten_after_an_hour,
    writers_at_once_leave_no_gap,
    the_latest_use_of_an_entry_counts,
);

const HOUR: i64 = 60 * 60 * 1_000;

fn row(id: &str, kind: &str, until: Option<i64>) -> LiveRow {
    LiveRow {
        id: id.into(),
        kind: kind.into(),
        body: "{\"who\":{\"user\":\"42\"}}".into(),
        until: until.map(at),
        created_at: at(1),
        author: "token:a".into(),
        reason: Some("why".into()),
        ..LiveRow::default()
    }
}

fn adding(rows: Vec<LiveRow>, now: i64) -> LiveChange {
    LiveChange { add: rows, most: 3, now: at(now), audit: vec![entry(1)], ..LiveChange::default() }
}

fn removing(ids: &[&str], now: i64) -> LiveChange {
    LiveChange {
        remove: ids.iter().map(ToString::to_string).collect(),
        now: at(now),
        ..LiveChange::default()
    }
}

async fn ids_after(test: &TestDatabase, sequence: u64) -> Vec<(String, bool)> {
    let seen = LiveHead { epoch: 1, sequence };
    let page = test.db.live_page(seen, 100).await.unwrap();
    page.entries.into_iter().map(|row| (row.id, row.removed_at.is_some())).collect()
}

async fn audited(test: &TestDatabase) -> usize {
    test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len()
}

async fn additions_and_removals_are_read_in_their_order(test: &TestDatabase) {
    let nothing = test.db.live_page(LiveHead::default(), 10).await.unwrap();
    assert_eq!((nothing.head, nothing.entries.len()), (LiveHead { epoch: 1, sequence: 0 }, 0));
    let first = adding(vec![row("a", "block", Some(500)), row("b", "block", None)], 2);
    assert_eq!(test.db.change_live(first).await.unwrap(), LiveChangeOutcome::Changed(2));
    assert_eq!(test.db.change_live(removing(&["a"], 3)).await.unwrap(), LiveChangeOutcome::Changed(3));
    let all = test.db.live_page(LiveHead::default(), 10).await.unwrap();
    assert_eq!(all.head, LiveHead { epoch: 1, sequence: 3 });
    let expected = [
        LiveRow { sequence: 2, ..row("b", "block", None) },
        LiveRow { sequence: 3, removed_at: Some(at(3)), ..row("a", "block", Some(500)) },
    ];
    assert_eq!(all.entries, expected);
    assert_eq!(ids_after(test, 2).await, [("a".to_owned(), true)]);
    assert_eq!(ids_after(test, 3).await, []);
    assert_eq!(test.db.live_page(LiveHead::default(), 1).await.unwrap().entries, expected[..1]);
    assert_eq!(audited(test).await, 1);
}

async fn a_change_is_made_as_a_whole_or_not_at_all(test: &TestDatabase) {
    test.db.change_live(adding(vec![row("a", "block", Some(10))], 2).clone()).await.unwrap();
    for wrong in [&["a", "nope"][..], &["nope"]] {
        let change = LiveChange { audit: vec![entry(2)], ..removing(wrong, 3) };
        assert_eq!(test.db.change_live(change).await.unwrap(), LiveChangeOutcome::Unknown);
    }
    assert_eq!(ids_after(test, 0).await, [("a".to_owned(), false)]);
    assert_eq!(audited(test).await, 1, "what was not done is not in the audit");
    let ended = test.db.change_live(removing(&["a"], 11)).await.unwrap();
    assert_eq!(ended, LiveChangeOutcome::Unknown, "it has ended by itself");
    // One goes, another comes.
    test.db.change_live(adding(vec![row("b", "kill_switch", None)], 12)).await.unwrap();
    let replaced = LiveChange { remove: vec!["b".into()], ..adding(vec![row("c", "kill_switch", None)], 13) };
    assert_eq!(test.db.change_live(replaced).await.unwrap(), LiveChangeOutcome::Changed(4));
}

async fn there_is_room_for_so_many_of_a_kind(test: &TestDatabase) {
    let add = |id: &'static str, kind: &'static str, now: i64| async move {
        test.db.change_live(adding(vec![row(id, kind, Some(100))], now)).await.unwrap()
    };
    for id in ["a", "b", "c"] {
        assert_ne!(add(id, "block", 2).await, LiveChangeOutcome::Full);
    }
    assert_eq!(add("d", "block", 2).await, LiveChangeOutcome::Full);
    assert_ne!(add("d", "allow", 2).await, LiveChangeOutcome::Full, "other kinds have room of their own");
    assert_ne!(add("e", "block", 101).await, LiveChangeOutcome::Full, "the others have ended");
}

async fn what_has_ended_is_forgotten_after_an_hour(test: &TestDatabase) {
    let rows = vec![row("a", "block", None), row("b", "block", Some(5)), row("c", "block", None)];
    test.db.change_live(adding(rows, 2)).await.unwrap();
    test.db.change_live(removing(&["a"], 6)).await.unwrap();
    test.db.change_live(removing(&["c"], HOUR)).await.unwrap();
    assert_eq!(ids_after(test, 0).await.len(), 3);
    test.db.change_live(adding(vec![row("d", "allow", None)], HOUR + 7)).await.unwrap();
    assert_eq!(ids_after(test, 0).await, [("c".to_owned(), true), ("d".to_owned(), false)]);
}

async fn writers_at_once_leave_no_gap(test: &TestDatabase) {
    let writers = (0..8).map(|number| {
        let db = test.db.clone();
        tokio::spawn(async move {
            let kind = format!("kind-{number}");
            for id in 0..3 {
                let change = adding(vec![row(&format!("{number}-{id}"), &kind, None)], 2);
                assert!(matches!(db.change_live(change).await, Ok(LiveChangeOutcome::Changed(_))));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = test.db.live_page(LiveHead::default(), 100).await.unwrap();
    let sequences: Vec<u64> = all.entries.iter().map(|row| row.sequence).collect();
    assert_eq!(sequences, (1..=24).collect::<Vec<u64>>());
}

async fn the_latest_use_of_an_entry_counts(test: &TestDatabase) {
    let rows = vec![row("a", "override", None), row("b", "override", None), row("c", "block", None)];
    test.db.change_live(adding(rows, 2)).await.unwrap();
    let head = test.db.live_page(LiveHead::default(), 10).await.unwrap().head;
    let note = async |id: &str, millis| test.db.note_live_uses(&[(id.to_owned(), at(millis))]).await.unwrap();
    note("a", 7).await;
    note("a", 5).await;
    note("c", 9).await;
    note("gone", 9).await;
    assert_eq!(test.db.live_uses("override").await.unwrap(), [("a".to_owned(), at(7))]);
    test.db.note_live_uses(&[("a".to_owned(), at(8)), ("b".to_owned(), at(6))]).await.unwrap();
    let mut uses = test.db.live_uses("override").await.unwrap();
    uses.sort();
    assert_eq!(uses, [("a".to_owned(), at(8)), ("b".to_owned(), at(6))]);
    assert_eq!(
        test.db.live_page(LiveHead::default(), 10).await.unwrap().head,
        head,
        "nobody has to learn of it"
    );
    test.db.change_live(removing(&["a"], 9)).await.unwrap();
    assert_eq!(test.db.live_uses("override").await.unwrap(), [("b".to_owned(), at(6))]);
}
