//! Which node runs which version, and what nodes decided in the last hour.

use tidegate_database::{DatabaseKind, HistoryRecord, KeptSteps, NodeReport, PageRequest, UnixMillis};

use crate::support::{TestDatabase, at};

on_both!(
    nodes_report_themselves,
    only_the_clock_of_the_database_says_who_was_seen,
    nodes_are_forgotten_after_a_day,
    an_hour_of_figures_is_kept,
    a_node_whose_clock_is_wrong_removes_nothing_of_others,
);

/// Longer than a test runs.
const HOUR: i64 = 60 * 60 * 1_000;

fn report(id: &str) -> NodeReport {
    NodeReport {
        id: id.into(),
        version: Some(3),
        since: at(1),
        seen: UnixMillis::default(),
        error: Some("version 4 is not valid".into()),
        address: Some("127.0.0.1:9090".into()),
        figures: Some(r#"{"allowed":3}"#.into()),
    }
}

/// The same without the time, which the database sets.
fn untimed(nodes: &[NodeReport]) -> Vec<NodeReport> {
    nodes.iter().map(|node| NodeReport { seen: UnixMillis::default(), ..node.clone() }).collect()
}

/// The nodes that were seen within an hour.
async fn nodes(test: &TestDatabase) -> Vec<NodeReport> {
    test.db.nodes(HOUR, &PageRequest::default()).await.unwrap().items
}

impl TestDatabase {
    /// Makes it so long ago that a node was seen.
    async fn age(&self, id: &str, hours: u32) {
        let seen = match self.db.kind() {
            DatabaseKind::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{hours} hours')"),
            DatabaseKind::Postgres => format!("clock_timestamp() - interval '{hours} hours'"),
        };
        let sql = format!("UPDATE nodes SET seen = {seen} WHERE id = '{id}'");
        assert_eq!(self.raw(&sql).await, 1);
    }
}

async fn nodes_report_themselves(test: &TestDatabase) {
    for id in ["b", "c", "a"] {
        test.db.report(&report(id)).await.unwrap();
    }
    let recovered = NodeReport { version: None, error: None, ..report("c") };
    test.db.report(&recovered).await.unwrap();
    let all = nodes(test).await;
    assert_eq!(untimed(&all), [report("a"), report("b"), recovered]);
    let first = test.db.nodes(HOUR, &PageRequest { limit: 2, cursor: None }).await.unwrap();
    let second = test.db.nodes(HOUR, &PageRequest { limit: 2, cursor: first.next }).await.unwrap();
    assert_eq!((first.items.len(), second.items[0].id.as_str(), second.next), (2, "c", None));
}

async fn only_the_clock_of_the_database_says_who_was_seen(test: &TestDatabase) {
    let (behind, ahead) = (UnixMillis::new(0), UnixMillis::new(i64::MAX));
    test.db.report(&NodeReport { seen: behind, ..report("behind") }).await.unwrap();
    test.db.report(&NodeReport { seen: ahead, ..report("ahead") }).await.unwrap();
    test.db.report(&report("gone")).await.unwrap();
    test.age("gone", 2).await;
    let seen = nodes(test).await;
    assert_eq!(untimed(&seen), [report("ahead"), report("behind")]);
    let apart = seen[0].seen.get().abs_diff(seen[1].seen.get());
    assert!(seen.iter().all(|node| node.seen > at(0)) && apart < HOUR.unsigned_abs(), "{seen:?}");
    assert_eq!(test.db.nodes(3 * HOUR, &PageRequest::default()).await.unwrap().items.len(), 3);
}

async fn nodes_are_forgotten_after_a_day(test: &TestDatabase) {
    const ALL: i64 = 1_000 * HOUR;
    for id in ["old", "older", "new"] {
        test.db.report(&report(id)).await.unwrap();
    }
    test.age("old", 23).await;
    test.age("older", 25).await;
    test.db.report(&report("new")).await.unwrap();
    let left = test.db.nodes(ALL, &PageRequest::default()).await.unwrap();
    assert_eq!(untimed(&left.items), [report("new"), report("old")]);
}

/// Steps so long that the one that goes on does not end while a test runs; it is number 0.
const KEPT: KeptSteps = KeptSteps { step_millis: u64::MAX, count: 5 };

fn record(node: &str, step: u64) -> HistoryRecord {
    HistoryRecord { node: node.into(), step, figures: format!("{node}{step}") }
}

async fn an_hour_of_figures_is_kept(test: &TestDatabase) {
    for step in 0_u64..=7 {
        for node in ["b", "a"] {
            test.db.keep_history(&record(node, step), KEPT).await.unwrap();
        }
    }
    let again = HistoryRecord { figures: "again".into(), ..record("a", 5) };
    test.db.keep_history(&again, KEPT).await.unwrap();
    test.db.keep_history(&record("c", 5), KEPT).await.unwrap();
    let kept = test.db.history_between(0, u64::MAX).await.unwrap();
    assert_eq!(kept.len(), 13, "what is too far ahead is not kept");
    assert_eq!(kept[..4], [again, record("b", 5), record("c", 5), record("a", 4)]);
    assert_eq!(test.db.history_between(2, 3).await.unwrap().len(), 4);
    let counts: Vec<(u64, u64)> = test.db.history_counts(KEPT).await.unwrap().into_iter().collect();
    assert_eq!(counts, [(0, 2), (1, 2), (2, 2), (3, 2), (4, 2), (5, 3)]);
}

async fn a_node_whose_clock_is_wrong_removes_nothing_of_others(test: &TestDatabase) {
    const STEP_MILLIS: u64 = 30_000;
    let kept = KeptSteps { step_millis: STEP_MILLIS, count: 120 };
    test.db.report(&report("a")).await.unwrap();
    let now = u64::try_from(nodes(test).await[0].seen.get()).unwrap() / STEP_MILLIS;
    test.db.keep_history(&record("right", now - 60), kept).await.unwrap();
    for (node, step) in [("ahead", now + 90), ("far ahead", now + 10_000), ("behind", now - 10_000)] {
        test.db.keep_history(&record(node, step), kept).await.unwrap();
    }
    let left = test.db.history_between(0, u64::MAX).await.unwrap();
    assert_eq!(left, [record("ahead", now + 90), record("right", now - 60)]);
    assert_eq!(test.db.history_counts(kept).await.unwrap().len(), 2);
}
