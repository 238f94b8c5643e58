//! Which node runs which version.

use tidegate_database::{NodeReport, PageRequest};

use crate::support::{TestDatabase, at};

on_both!(nodes_report_themselves, nodes_are_forgotten_after_a_day);

fn report(id: &str, seen: i64) -> NodeReport {
    NodeReport {
        id: id.into(),
        version: Some(3),
        since: at(1),
        seen: at(seen),
        error: Some("version 4 is not valid".into()),
        address: Some("127.0.0.1:9090".into()),
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
