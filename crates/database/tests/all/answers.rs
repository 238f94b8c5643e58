//! Answers that are remembered.

use tidegate_database::{NewAnswer, NewVersion, PublishError, Remembered, RememberedAnswer};

use crate::support::{TestDatabase, at, version};

on_both!(
    an_answer_is_remembered_with_the_version_that_it_is_about,
    answers_are_forgotten_after_a_day,
    a_refused_change_leaves_no_answer,
);

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn answer(key: u8, request: u8) -> NewAnswer {
    NewAnswer {
        key_hash: [key; 32],
        request_hash: [request; 32],
        status: 201,
        body: Box::new(|version| format!("{{\"version\":{version}}}")),
    }
}

fn remembered(body: &str) -> Option<Remembered> {
    Some(Remembered::Answer(RememberedAnswer { status: 201, body: body.into() }))
}

async fn an_answer_is_remembered_with_the_version_that_it_is_about(test: &TestDatabase) {
    assert_eq!(test.db.remembered(&[1; 32], &[2; 32], at(5)).await.unwrap(), None);
    test.db.publish(version(1)).await.unwrap();
    test.db.publish(NewVersion { answer: Some(answer(1, 2)), ..version(2) }).await.unwrap();
    let expected = remembered("{\"version\":2}");
    assert_eq!(test.db.remembered(&[1; 32], &[2; 32], at(5)).await.unwrap(), expected);
    assert_eq!(test.db.remembered(&[1; 32], &[3; 32], at(5)).await.unwrap(), Some(Remembered::Conflict));
    // The first answer stays.
    test.db.remember(answer(1, 2), at(6)).await.unwrap();
    assert_eq!(test.db.remembered(&[1; 32], &[2; 32], at(7)).await.unwrap(), expected);
}

async fn answers_are_forgotten_after_a_day(test: &TestDatabase) {
    test.db.remember(answer(1, 2), at(0)).await.unwrap();
    assert!(test.db.remembered(&[1; 32], &[2; 32], at(DAY - 1)).await.unwrap().is_some());
    assert_eq!(test.db.remembered(&[1; 32], &[2; 32], at(DAY)).await.unwrap(), None);
    test.db.remember(answer(1, 3), at(DAY)).await.unwrap();
    assert_eq!(test.db.remembered(&[1; 32], &[3; 32], at(DAY)).await.unwrap(), remembered("{\"version\":0}"));
}

async fn a_refused_change_leaves_no_answer(test: &TestDatabase) {
    let stale = NewVersion { expected: Some(7), answer: Some(answer(1, 2)), ..version(1) };
    assert!(matches!(test.db.publish(stale).await, Err(PublishError::Stale { active: None })));
    assert_eq!(test.db.remembered(&[1; 32], &[2; 32], at(1)).await.unwrap(), None);
}
