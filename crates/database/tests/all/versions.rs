//! Versions of the policy, and the rules for people to read.

use tidegate_database::{HistoryFilter, NewVersion, PageRequest, Publication, PublishError, RuleRow};

use crate::support::{TestDatabase, at, rule, version};

on_both!(
    versions_count_from_one_and_come_back_as_written,
    the_text_of_the_active_version_is_not_a_new_version,
    a_stale_change_is_refused_and_writes_nothing,
    of_concurrent_changes_of_one_version_one_wins,
    an_old_text_can_be_published_again,
    texts_of_the_last_thousand_versions_are_kept,
    rules_keep_their_numbers_and_are_never_deleted,
    many_rules_are_projected,
);

async fn versions_count_from_one_and_come_back_as_written(test: &TestDatabase) {
    assert_eq!(test.db.active_version().await.unwrap(), None);
    assert_eq!(test.db.active_number().await.unwrap(), None);
    for number in 1..=5 {
        let publication = test.db.publish(version(number)).await.unwrap();
        assert_eq!(publication, Publication { version: number, is_new: true });
        let active = test.db.active_version().await.unwrap().unwrap();
        assert_eq!(active.text.as_deref(), Some(version(number).text.as_str()));
        assert_eq!(active.head.version, number);
        assert_eq!(active.head.parent, (number > 1).then(|| number - 1));
        assert_eq!(active.head.author, "ada");
        assert_eq!(active.head.reason.as_deref(), Some("a test"));
        assert_eq!((active.head.time, active.head.warnings.as_str()), (at(number.cast_signed()), "[]"));
        assert_eq!(test.db.active_number().await.unwrap(), Some(number));
    }
    assert_eq!(test.db.version(2).await.unwrap().unwrap().text.unwrap(), version(2).text);
    assert_eq!(test.db.version(6).await.unwrap(), None);

    let first = test.db.versions(&PageRequest { limit: 3, cursor: None }).await.unwrap();
    assert_eq!(first.items.iter().map(|head| head.version).collect::<Vec<_>>(), [5, 4, 3]);
    // What is added meanwhile does not move the next page.
    test.db.publish(version(6)).await.unwrap();
    let second = test.db.versions(&PageRequest { limit: 3, cursor: first.next }).await.unwrap();
    assert_eq!(second.items.iter().map(|head| head.version).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(second.next, None);

    let audit = test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap();
    let versions: Vec<_> = audit.items.iter().map(|row| row.entry.policy_version).collect();
    assert_eq!(versions, (1..=6).rev().map(Some).collect::<Vec<_>>());
}

async fn the_text_of_the_active_version_is_not_a_new_version(test: &TestDatabase) {
    test.db.publish(version(1)).await.unwrap();
    let again = NewVersion { author: "bob".into(), rules: vec![], ..version(1) };
    assert_eq!(test.db.publish(again).await.unwrap(), Publication { version: 1, is_new: false });
    assert_eq!(test.db.version(1).await.unwrap().unwrap().head.author, "ada");
    assert_eq!(
        test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len(),
        1
    );
    assert_eq!(active_rules(test).await, ["user:{only} 1"]);
}

async fn a_stale_change_is_refused_and_writes_nothing(test: &TestDatabase) {
    let on = |expected, number| NewVersion { expected, ..version(number) };
    assert!(matches!(test.db.publish(on(Some(1), 1)).await, Err(PublishError::Stale { active: None })));
    test.db.publish(on(None, 1)).await.unwrap();
    test.db.publish(on(Some(1), 2)).await.unwrap();
    assert!(matches!(test.db.publish(on(Some(1), 3)).await, Err(PublishError::Stale { active: Some(2) })));
    // Also when the text is that of the active version.
    assert!(matches!(test.db.publish(on(Some(1), 2)).await, Err(PublishError::Stale { active: Some(2) })));
    assert_eq!(test.db.active_number().await.unwrap(), Some(2));
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().entries, 2);
}

async fn of_concurrent_changes_of_one_version_one_wins(test: &TestDatabase) {
    test.db.publish(version(1)).await.unwrap();
    let mut writers = Vec::new();
    for number in 2..10 {
        let db = test.db.clone();
        let change = NewVersion { expected: Some(1), ..version(number) };
        writers.push(tokio::spawn(async move { db.publish(change).await }));
    }
    let mut published = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(publication) => {
                assert_eq!(publication, Publication { version: 2, is_new: true });
                published += 1;
            }
            Err(PublishError::Stale { active }) => assert_eq!(active, Some(2)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(published, 1);
}

async fn an_old_text_can_be_published_again(test: &TestDatabase) {
    test.db.publish(version(1)).await.unwrap();
    test.db.publish(version(2)).await.unwrap();
    let restored = test.db.publish(NewVersion { time: at(3), ..version(1) }).await.unwrap();
    assert_eq!(restored, Publication { version: 3, is_new: true });
    let (first, third) =
        (test.db.version(1).await.unwrap().unwrap(), test.db.version(3).await.unwrap().unwrap());
    assert_eq!((first.text, first.head.sha256), (third.text, third.head.sha256));
    assert_eq!(third.head.parent, Some(2));
}

async fn texts_of_the_last_thousand_versions_are_kept(test: &TestDatabase) {
    for number in 1..=1_003 {
        test.db.publish(version(number)).await.unwrap();
    }
    for number in 1..=3 {
        let old = test.db.version(number).await.unwrap().unwrap();
        assert_eq!((old.text, old.head.version), (None, number));
    }
    for number in [4, 5, 1_003] {
        assert_eq!(test.db.version(number).await.unwrap().unwrap().text, Some(version(number).text));
    }
}

/// The active rules, as the pattern, the plan if there is one, and the rate.
async fn active_rules(test: &TestDatabase) -> Vec<String> {
    let sql = "SELECT key_pattern || coalesce('/' || plan, '') || ' ' || CAST(CAST(rate_per_second AS INTEGER) AS TEXT) \
               FROM rate_limit_rules WHERE is_active ORDER BY key_pattern, coalesce(plan, '')";
    test.raw_texts(sql).await
}

async fn rules_keep_their_numbers_and_are_never_deleted(test: &TestDatabase) {
    let publish = async |number: u64, rules: Vec<RuleRow>| {
        test.db.publish(NewVersion { rules, ..version(number) }).await.unwrap();
    };
    let second = RuleRow { limit_name: "second".into(), ..rule("a", None, 7.0) };
    publish(1, vec![rule("a", None, 1.0), rule("a", Some("pro"), 2.0), second, rule("b", None, 3.0)]).await;
    assert_eq!(active_rules(test).await, ["user:{a} 1", "user:{a}/pro 2", "user:{a}#second 7", "user:{b} 3"]);
    let numbers = "SELECT CAST(rule_id AS TEXT) || key_pattern || coalesce(plan, '-') || CAST(created_at AS TEXT) \
                   FROM rate_limit_rules ORDER BY rule_id";
    let before = test.raw_texts(numbers).await;
    assert_eq!(before.len(), 4);
    // Removed, changed, and nothing else.
    publish(2, vec![rule("a", None, 5.0), rule("b", None, 3.0)]).await;
    assert_eq!(active_rules(test).await, ["user:{a} 5", "user:{b} 3"]);
    assert_eq!(test.raw_texts(numbers).await, before);
    // Back again.
    publish(3, vec![rule("a", Some("pro"), 9.0)]).await;
    assert_eq!(active_rules(test).await, ["user:{a}/pro 9"]);
    assert_eq!(test.raw_texts(numbers).await, before);
}

async fn many_rules_are_projected(test: &TestDatabase) {
    let rules = |rate: f64| (0..1_250).map(|number| rule(&format!("r{number:04}"), None, rate)).collect();
    for (number, rate) in [(1, 1.0), (2, 2.0), (3, 2.0)] {
        test.db.publish(NewVersion { rules: rules(rate), ..version(number) }).await.unwrap();
        let active = active_rules(test).await;
        assert_eq!(active.len(), 1_250);
        assert!(active.iter().all(|row| row.ends_with(&format!(" {rate}"))), "{:?}", active.first());
    }
    // Text that PostgreSQL does not take as it is, and numbers that SQLite does not.
    let odd = RuleRow { rate_per_second: f64::NAN, ..rule("nul\0", Some(""), 0.0) };
    let odd = || vec![odd.clone(), RuleRow { rate_per_second: f64::INFINITY, ..rule("endless", None, 0.0) }];
    test.db.publish(NewVersion { rules: odd(), ..version(4) }).await.unwrap();
    test.db.publish(NewVersion { rules: odd(), ..version(5) }).await.unwrap();
    assert_eq!(test.raw_texts("SELECT key_pattern FROM rate_limit_rules WHERE is_active").await.len(), 2);
}
