//! Live entries: sequences, bounds, and what is forgotten.

use tidegate_database::{HistoryFilter, LiveChange, LiveChangeOutcome, LiveHead, LiveRow, PageRequest};

use crate::support::{TestDatabase, at, entry, sequence};

on_both!(
    additions_and_removals_are_read_in_their_order,
    a_change_is_made_as_a_whole_or_not_at_all,
    there_is_room_for_so_many_of_a_kind,
    what_has_ended_is_forgotten_after_an_hour,
    brief_entries_are_forgotten_without_another_change,
    writers_at_once_leave_no_gap,
    the_latest_use_of_an_entry_counts,
    a_database_that_has_gone_back_is_noticed,
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

async fn ids_after(test: &TestDatabase, last: u64) -> Vec<(String, bool)> {
    let page = test.db.live_page(LiveHead { epoch: 1, sequence: 0 }, last, 100).await.unwrap();
    page.entries.into_iter().map(|row| (row.id, row.removed_at.is_some())).collect()
}

async fn audited(test: &TestDatabase) -> usize {
    test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len()
}

async fn additions_and_removals_are_read_in_their_order(test: &TestDatabase) {
    let nothing = test.db.live_page(LiveHead::default(), 0, 10).await.unwrap();
    assert_eq!((nothing.head, nothing.entries.len()), (LiveHead { epoch: 1, sequence: 0 }, 0));
    let first = adding(vec![row("a", "block", Some(500)), row("b", "block", None)], 2);
    assert_eq!(test.db.change_live(first).await.unwrap(), LiveChangeOutcome::Changed(sequence(2, 1)));
    assert_eq!(
        test.db.change_live(removing(&["a"], 3)).await.unwrap(),
        LiveChangeOutcome::Changed(sequence(3, 0))
    );
    let all = test.db.live_page(LiveHead::default(), 0, 10).await.unwrap();
    assert_eq!(all.head, LiveHead { epoch: 1, sequence: sequence(3, 0) });
    let expected = [
        LiveRow { sequence: sequence(2, 1), ..row("b", "block", None) },
        LiveRow { sequence: sequence(3, 0), removed_at: Some(at(3)), ..row("a", "block", Some(500)) },
    ];
    assert_eq!(all.entries, expected);
    assert_eq!(ids_after(test, sequence(2, 1)).await, [("a".to_owned(), true)]);
    assert_eq!(ids_after(test, sequence(3, 0)).await, []);
    assert_eq!(test.db.live_page(LiveHead::default(), 0, 1).await.unwrap().entries, expected[..1]);
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
    assert_eq!(test.db.change_live(replaced).await.unwrap(), LiveChangeOutcome::Changed(sequence(13, 1)));
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
    let all = test.db.live_page(LiveHead::default(), 0, 100).await.unwrap();
    let sequences: Vec<u64> = all.entries.iter().map(|row| row.sequence).collect();
    assert_eq!(sequences, (0..24).map(|more| sequence(2, more)).collect::<Vec<u64>>());
}

async fn the_latest_use_of_an_entry_counts(test: &TestDatabase) {
    let rows = vec![row("a", "override", None), row("b", "override", None), row("c", "block", None)];
    test.db.change_live(adding(rows, 2)).await.unwrap();
    let head = test.db.live_page(LiveHead::default(), 0, 10).await.unwrap().head;
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
        test.db.live_page(LiveHead::default(), 0, 10).await.unwrap().head,
        head,
        "nobody has to learn of it"
    );
    test.db.change_live(removing(&["a"], 9)).await.unwrap();
    assert_eq!(test.db.live_uses("override").await.unwrap(), [("b".to_owned(), at(6))]);
}

async fn a_database_that_has_gone_back_is_noticed(test: &TestDatabase) {
    test.db.change_live(adding(vec![row("a", "block", None)], 2)).await.unwrap();
    let kept = test.db.live_page(LiveHead::default(), 0, 10).await.unwrap().head;
    let lost = LiveChange { remove: vec!["a".into()], ..adding(vec![row("b", "block", None)], 4) };
    test.db.change_live(lost).await.unwrap();
    let seen = test.db.live_page(kept, kept.sequence, 10).await.unwrap();
    assert_eq!((seen.entries.len(), seen.is_anew), (2, false));
    // A replica without the second change takes over.
    test.raw("DELETE FROM live_entries WHERE id = 'b'").await;
    let before = sequence(2, 0);
    test.raw(&format!("UPDATE live_entries SET removed_at = NULL, sequence = {before} WHERE id = 'a'")).await;
    test.raw(&format!("UPDATE live_head SET sequence = {before}")).await;
    test.raw(&format!("DELETE FROM past_heads WHERE sequence >= {before}")).await;
    let page = async |head: LiveHead| {
        let page = test.db.live_page(head, head.sequence, 10).await.unwrap();
        (page.is_anew, page.entries.into_iter().map(|row| row.id).collect::<Vec<_>>())
    };
    assert_eq!(page(seen.head).await, (true, vec!["a".into()]));
    assert_eq!(page(kept).await, (false, vec![]));
    // Also if it has more changes by then than it had lost, and by a clock that is behind.
    for now in [3, 5] {
        test.db.change_live(adding(vec![row(&now.to_string(), "allow", None)], now)).await.unwrap();
        assert!(page(seen.head).await.0, "{now}");
    }
    assert_eq!(page(seen.head).await, (true, vec!["a".into(), "3".into(), "5".into()]));
    assert_eq!(page(kept).await, (false, vec!["3".into(), "5".into()]));
}

#[tokio::test]
async fn heads_of_the_past_are_bounded() {
    let test = TestDatabase::sqlite().await;
    let mut heads = Vec::new();
    for number in 0..1_003_u32 {
        let kind = format!("kind-{number}");
        test.db.change_live(adding(vec![row(&number.to_string(), &kind, None)], 2)).await.unwrap();
        if [1, 2, 1_002].contains(&number) {
            heads
                .push(test.db.live_page(LiveHead { epoch: 1, sequence: 0 }, u64::MAX, 1).await.unwrap().head);
        }
    }
    let mut is_known = Vec::new();
    for head in heads {
        is_known.push(!test.db.live_page(head, head.sequence, 1).await.unwrap().is_anew);
    }
    assert_eq!(is_known, [false, true, true]);
}

async fn brief_entries_are_forgotten_without_another_change(test: &TestDatabase) {
    test.db
        .change_live(adding(vec![row("a", "keys", Some(5)), row("b", "block", Some(5))], 2))
        .await
        .unwrap();
    let head = test.db.live_page(LiveHead::default(), 0, 10).await.unwrap().head;
    test.db.purge_live(at(4), "keys").await.unwrap();
    assert_eq!(ids_after(test, 0).await.len(), 2);
    test.db.purge_live(at(5), "keys").await.unwrap();
    assert_eq!(ids_after(test, 0).await, [("b".to_owned(), false)]);
    test.db.purge_live(at(6 + HOUR), "keys").await.unwrap();
    assert_eq!(ids_after(test, 0).await, []);
    let page = test.db.live_page(head, head.sequence, 10).await.unwrap();
    assert_eq!((page.head, page.is_anew), (head, false), "nobody has to learn of it");
}

#[tokio::test]
async fn there_is_always_room_for_what_is_urgent() {
    let test = TestDatabase::sqlite().await;
    test.raw(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000) \
         INSERT INTO live_entries (id, sequence, kind, body, created_at, author) \
         SELECT 'x' || n, n, 'kind' || n, '{}', '2023-01-01T00:00:00.000Z', 'me' FROM numbers",
    )
    .await;
    let full = test.db.change_live(adding(vec![row("a", "block", None)], 2)).await.unwrap();
    assert_eq!(full, LiveChangeOutcome::Full);
    let urgent = LiveChange { is_urgent: true, ..adding(vec![row("a", "kill_switch", None)], 2) };
    assert_ne!(test.db.change_live(urgent).await.unwrap(), LiveChangeOutcome::Full);
}
