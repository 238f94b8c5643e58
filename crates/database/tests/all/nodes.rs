//! Which node runs which version.

use tidegate_database::{HistoryRecord, NodeReport, PageRequest};

use crate::support::{TestDatabase, at};

on_both!(nodes_report_themselves, nodes_are_forgotten_after_a_day, an_hour_of_figures_is_kept);

fn report(id: &str, seen: i64) -> NodeReport {
    NodeReport {
        id: id.into(),
        version: Some(3),
        since: at(1),
        seen: at(seen),
        error: Some("version 4 is not valid".into()),
        address: Some("127.0.0.1:9090".into()),
        figures: Some(r#"{"allowed":3}"#.into()),
    }
}

async fn nodes_report_themselves(test: &TestDatabase) {
    for id in ["b", "c", "a"] {
        test.db.report(&report(id, 10)).await.unwrap();
    }
    let recovered = NodeReport { version: None, error: None, ..report("c", 20) };
    test.db.report(&recovered).await.unwrap();
    let all = test.db.nodes(at(0), &PageRequest::default()).await.unwrap();
    assert_eq!(all.items, [report("a", 10), report("b", 10), recovered.clone()]);
    assert_eq!(test.db.nodes(at(10), &PageRequest::default()).await.unwrap().items, [recovered]);
    let first = test.db.nodes(at(0), &PageRequest { limit: 2, cursor: None }).await.unwrap();
    let second = test.db.nodes(at(0), &PageRequest { limit: 2, cursor: first.next }).await.unwrap();
    assert_eq!((first.items.len(), second.items[0].id.as_str(), second.next), (2, "c", None));
}

async fn nodes_are_forgotten_after_a_day(test: &TestDatabase) {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    test.db.report(&report("old", 0)).await.unwrap();
    test.db.report(&report("new", DAY)).await.unwrap();
    assert_eq!(test.db.nodes(at(-1), &PageRequest::default()).await.unwrap().items.len(), 2);
    test.db.report(&report("new", DAY + 1)).await.unwrap();
    assert_eq!(test.db.nodes(at(-1), &PageRequest::default()).await.unwrap().items, [report("new", DAY + 1)]);
}

async fn an_hour_of_figures_is_kept(test: &TestDatabase) {
    let record =
        |node: &str, step| HistoryRecord { node: node.into(), step, figures: format!("{node}{step}") };
    for step in 100_u64..=110 {
        for node in ["b", "a"] {
            test.db.keep_history(&record(node, step), step - 5).await.unwrap();
        }
    }
    let again = HistoryRecord { figures: "again".into(), ..record("a", 110) };
    test.db.keep_history(&again, 105).await.unwrap();
    let kept = test.db.history_since(0).await.unwrap();
    assert_eq!(kept.len(), 12, "what is older is forgotten");
    assert_eq!(kept[..3], [again, record("b", 110), record("a", 109)]);
    assert_eq!(test.db.history_since(110).await.unwrap().len(), 2);
}
