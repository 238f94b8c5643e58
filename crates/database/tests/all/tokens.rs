//! Tokens and sessions.

use tidegate_database::{BrowserSession, HistoryFilter, NewToken, PageRequest};

use crate::support::{TestDatabase, at, entry};

on_both!(
    tokens_come_back_as_created,
    a_name_or_a_hash_is_used_once,
    revoked_tokens_stay_and_their_sessions_end,
    uses_only_move_forward,
    admins_are_those_who_can_do_everything,
    of_many_first_tokens_one_is_created,
    sessions_end,
);

fn token(number: u8) -> NewToken {
    NewToken {
        id: format!("token-{number}"),
        sha256: [number; 32],
        role: "admin".into(),
        tenant: None,
        description: Some("for the tests".into()),
        created_at: at(number.into()),
        created_by: "ada".into(),
        expires_at: None,
    }
}

async fn tokens_come_back_as_created(test: &TestDatabase) {
    for number in 1..=5 {
        let limited = NewToken { tenant: Some("t".into()), expires_at: Some(at(1_000)), ..token(number) };
        test.db.create_token(limited, entry(number.into())).await.unwrap();
    }
    let found = test.db.token_by_hash(&[3; 32]).await.unwrap().unwrap();
    assert_eq!(
        (found.id.as_str(), found.role.as_str(), found.tenant.as_deref()),
        ("token-3", "admin", Some("t"))
    );
    assert_eq!((found.created_at, found.expires_at, found.revoked_at), (at(3), Some(at(1_000)), None));
    assert_eq!((found.created_by.as_str(), found.last_used_at), ("ada", None));
    assert_eq!(test.db.token("token-3").await.unwrap(), Some(found));
    assert_eq!(test.db.token_by_hash(&[9; 32]).await.unwrap(), None);

    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let page = test.db.tokens(&PageRequest { limit: 2, cursor }).await.unwrap();
        names.extend(page.items.into_iter().map(|token| token.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["token-5", "token-4", "token-3", "token-2", "token-1"]);
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().entries, 5);
}

async fn a_name_or_a_hash_is_used_once(test: &TestDatabase) {
    test.db.create_token(token(1), entry(1)).await.unwrap();
    test.db.create_token(NewToken { id: "other".into(), ..token(1) }, entry(2)).await.unwrap_err();
    test.db.create_token(NewToken { sha256: [9; 32], ..token(1) }, entry(3)).await.unwrap_err();
    // Nothing of what failed is left.
    assert_eq!(test.db.tokens(&PageRequest::default()).await.unwrap().items.len(), 1);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.broken), (1, None));
}

fn session(hash: u8, token: &str) -> BrowserSession {
    BrowserSession { hash: [hash; 32], token_id: token.into(), created_at: at(10), expires_at: at(100) }
}

async fn revoked_tokens_stay_and_their_sessions_end(test: &TestDatabase) {
    for number in 1..=2 {
        test.db.create_token(token(number), entry(number.into())).await.unwrap();
        test.db.create_session(session(number, &token(number).id)).await.unwrap();
    }
    assert!(test.db.revoke_token("token-1", at(20), entry(3)).await.unwrap());
    assert!(!test.db.revoke_token("token-1", at(30), entry(4)).await.unwrap());
    assert!(!test.db.revoke_token("nobody", at(30), entry(5)).await.unwrap());
    assert_eq!(test.db.token("token-1").await.unwrap().unwrap().revoked_at, Some(at(20)));
    assert_eq!(test.db.session_token(&[1; 32], at(21)).await.unwrap(), None);
    assert_eq!(test.db.session_token(&[2; 32], at(21)).await.unwrap().unwrap().id, "token-2");
    assert_eq!(
        test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len(),
        3
    );
}

async fn uses_only_move_forward(test: &TestDatabase) {
    test.db.create_token(token(1), entry(1)).await.unwrap();
    for (used, expected) in [(50, 50), (40, 50), (60, 60)] {
        test.db.touch_tokens(vec![("token-1".into(), at(used)), ("gone".into(), at(used))]).await.unwrap();
        let stored = test.db.token("token-1").await.unwrap().unwrap();
        assert_eq!(stored.last_used_at, Some(at(expected)));
    }
}

async fn admins_are_those_who_can_do_everything(test: &TestDatabase) {
    assert_eq!(test.db.count_admins(at(0)).await.unwrap(), 0);
    test.db.create_token(token(1), entry(1)).await.unwrap();
    let viewer = NewToken { role: "viewer".into(), ..token(2) };
    let of_tenant = NewToken { tenant: Some("t".into()), ..token(3) };
    let short = NewToken { expires_at: Some(at(100)), ..token(4) };
    for (number, token) in (2..).zip([viewer, of_tenant, short]) {
        test.db.create_token(token, entry(number)).await.unwrap();
    }
    assert_eq!(test.db.count_admins(at(99)).await.unwrap(), 2);
    assert_eq!(test.db.count_admins(at(100)).await.unwrap(), 1);
    test.db.revoke_token("token-1", at(50), entry(5)).await.unwrap();
    assert_eq!(test.db.count_admins(at(100)).await.unwrap(), 0);
}

async fn of_many_first_tokens_one_is_created(test: &TestDatabase) {
    let mut nodes = Vec::new();
    for number in 1..=8 {
        let db = test.db.clone();
        nodes.push(tokio::spawn(async move {
            db.create_first_token(token(number), entry(number.into())).await.unwrap()
        }));
    }
    let mut created = 0;
    for node in nodes {
        created += u32::from(node.await.unwrap());
    }
    assert_eq!(created, 1);
    // A revoked one is one too.
    let first = test.db.tokens(&PageRequest::default()).await.unwrap().items.remove(0);
    test.db.revoke_token(&first.id, at(20), entry(20)).await.unwrap();
    assert!(!test.db.create_first_token(token(9), entry(9)).await.unwrap());
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().entries, 2);
}

async fn sessions_end(test: &TestDatabase) {
    test.db.create_token(token(1), entry(1)).await.unwrap();
    for number in 1..=3 {
        test.db.create_session(session(number, "token-1")).await.unwrap();
    }
    assert_eq!(test.db.session_token(&[1; 32], at(99)).await.unwrap().unwrap().id, "token-1");
    assert_eq!(test.db.session_token(&[1; 32], at(100)).await.unwrap(), None);
    assert!(test.db.delete_session(&[1; 32]).await.unwrap());
    assert!(!test.db.delete_session(&[1; 32]).await.unwrap());
    assert_eq!(test.db.session_token(&[1; 32], at(11)).await.unwrap(), None);
    assert_eq!(test.db.delete_sessions_of("token-1").await.unwrap(), 2);
    // Those that have ended are removed when another one begins.
    test.db.create_session(session(4, "token-1")).await.unwrap();
    let later = BrowserSession { created_at: at(200), expires_at: at(300), ..session(5, "token-1") };
    test.db.create_session(later).await.unwrap();
    assert_eq!(test.raw("DELETE FROM sessions").await, 1);
}
