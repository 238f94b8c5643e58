//! Tokens and sessions.

use tidegate_database::{
    AuditEntry, BrowserSession, HistoryFilter, NewVersion, PageRequest, StoredToken, TokenRevocation,
};

use crate::support::{TestDatabase, at, entry, version, violation};

on_both!(
    tokens_come_back_as_created,
    a_name_or_a_hash_is_used_once,
    revoked_tokens_stay_and_their_sessions_end,
    uses_only_move_forward,
    admins_are_those_who_can_do_everything,
    of_many_first_tokens_one_is_created,
    of_admins_that_revoke_each_other_one_stays,
    only_wanted_tokens_are_listed,
    sessions_end,
    sessions_in_use_end_later_and_are_few,
    tokens_go_with_their_tenant,
);

fn token(number: u8) -> StoredToken {
    StoredToken {
        id: format!("token-{number}"),
        sha256: [number; 32],
        role: "admin".into(),
        tenant: None,
        description: Some("for the tests".into()),
        created_at: at(number.into()),
        created_by: "ada".into(),
        ..StoredToken::default()
    }
}

async fn tokens_come_back_as_created(test: &TestDatabase) {
    for number in 1..=5 {
        let limited = StoredToken { tenant: Some("t".into()), expires_at: Some(at(1_000)), ..token(number) };
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
    test.db.create_token(StoredToken { id: "other".into(), ..token(1) }, entry(2)).await.unwrap_err();
    test.db.create_token(StoredToken { sha256: [9; 32], ..token(1) }, entry(3)).await.unwrap_err();
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
    let revoke =
        async |id: &str, time, number| test.db.revoke_token(id, at(time), entry(number)).await.unwrap();
    assert_eq!(revoke("token-1", 20, 3).await, TokenRevocation::Revoked);
    assert_eq!(revoke("token-1", 30, 4).await, TokenRevocation::Unknown);
    assert_eq!(revoke("nobody", 30, 5).await, TokenRevocation::Unknown);
    assert_eq!(test.db.token("token-1").await.unwrap().unwrap().revoked_at, Some(at(20)));
    assert_eq!(test.db.session(&[1; 32], at(21)).await.unwrap(), None);
    assert_eq!(test.db.session(&[2; 32], at(21)).await.unwrap().unwrap().1.id, "token-2");
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
    test.db.create_token(token(1), entry(1)).await.unwrap();
    let viewer = StoredToken { role: "viewer".into(), ..token(2) };
    let of_tenant = StoredToken { tenant: Some("t".into()), ..token(3) };
    let short = StoredToken { expires_at: Some(at(100)), ..token(4) };
    for (number, token) in (2..).zip([viewer, of_tenant, short]) {
        test.db.create_token(token, entry(number)).await.unwrap();
    }
    // Once the short one has ended, the other is the last, and stays.
    let revoked = test.db.revoke_token("token-1", at(100), entry(5)).await.unwrap();
    assert_eq!((revoked, admins(test).await), (TokenRevocation::LastAdmin, 2));
    let revoked = test.db.revoke_token("token-1", at(50), entry(5)).await.unwrap();
    assert_eq!((revoked, admins(test).await), (TokenRevocation::Revoked, 1));
}

/// How many tokens can do everything, those that have ended by themselves included.
async fn admins(test: &TestDatabase) -> usize {
    let sql = "SELECT id FROM tokens WHERE role = 'admin' AND tenant IS NULL AND revoked_at IS NULL";
    test.raw_texts(sql).await.len()
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
    let viewer = StoredToken { role: "viewer".into(), ..token(20) };
    test.db
        .create_token(StoredToken { id: "short".into(), expires_at: Some(at(30)), ..token(21) }, entry(21))
        .await
        .unwrap();
    test.db.create_token(viewer, entry(22)).await.unwrap();
    test.db.revoke_token(&first.id, at(20), entry(20)).await.unwrap();
    assert!(!test.db.create_first_token(token(9), entry(9)).await.unwrap());
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().entries, 4);
}

async fn sessions_end(test: &TestDatabase) {
    test.db.create_token(token(1), entry(1)).await.unwrap();
    for number in 1..=3 {
        test.db.create_session(session(number, "token-1")).await.unwrap();
    }
    assert_eq!(test.db.session(&[1; 32], at(99)).await.unwrap().unwrap().0, session(1, "token-1"));
    assert_eq!(test.db.session(&[1; 32], at(100)).await.unwrap(), None);
    assert!(test.db.delete_session(&[1; 32]).await.unwrap());
    assert!(!test.db.delete_session(&[1; 32]).await.unwrap());
    assert_eq!(test.db.session(&[1; 32], at(11)).await.unwrap(), None);
    for number in [2, 3] {
        assert!(test.db.delete_session(&[number; 32]).await.unwrap());
    }
    // Those that have ended are removed when another one begins.
    test.db.create_session(session(4, "token-1")).await.unwrap();
    let later = BrowserSession { created_at: at(200), expires_at: at(300), ..session(5, "token-1") };
    test.db.create_session(later).await.unwrap();
    assert_eq!(test.raw("DELETE FROM sessions").await, 1);
}

async fn of_admins_that_revoke_each_other_one_stays(test: &TestDatabase) {
    for number in 1..=6 {
        test.db.create_token(token(number), entry(number.into())).await.unwrap();
    }
    let mut revoking = Vec::new();
    for number in 1..=6 {
        let db = test.db.clone();
        let id = token(number).id;
        revoking.push(tokio::spawn(async move { db.revoke_token(&id, at(50), entry(9)).await.unwrap() }));
    }
    let mut refused = 0;
    for revoked in revoking {
        refused += u32::from(revoked.await.unwrap() == TokenRevocation::LastAdmin);
    }
    assert_eq!((refused, admins(test).await), (1, 1));
}

async fn only_wanted_tokens_are_listed(test: &TestDatabase) {
    for number in 1..=9 {
        let tenant = (number % 2 == 0).then(|| "t".to_owned());
        test.db.create_token(StoredToken { tenant, ..token(number) }, entry(number.into())).await.unwrap();
    }
    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = PageRequest { limit: 3, cursor };
        let page = test.db.tokens_that(&page, |token| token.tenant.is_some()).await.unwrap();
        names.extend(page.items.into_iter().map(|token| token.id));
        (cursor, pages) = (page.next, pages + 1);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((names.join(" ").as_str(), pages), ("token-8 token-6 token-4 token-2", 2));
}

async fn sessions_in_use_end_later_and_are_few(test: &TestDatabase) {
    test.db.create_token(token(1), entry(1)).await.unwrap();
    for number in 1..=100 {
        let created_at = at(number.into());
        test.db
            .create_session(BrowserSession { created_at, expires_at: at(200), ..session(number, "token-1") })
            .await
            .unwrap();
    }
    assert_eq!(test.db.session(&[36; 32], at(150)).await.unwrap(), None, "64 stay");
    assert!(test.db.session(&[37; 32], at(150)).await.unwrap().is_some());
    test.db
        .extend_sessions(vec![([50; 32], at(300)), ([51; 32], at(100)), ([9; 32], at(300))])
        .await
        .unwrap();
    let ends = async |number, now| {
        test.db.session(&[number; 32], at(now)).await.unwrap().map(|found| found.0.expires_at)
    };
    assert_eq!((ends(50, 250).await, ends(51, 150).await), (Some(at(300)), Some(at(200))), "never earlier");
    assert_eq!(ends(9, 150).await, None);
}

async fn tokens_go_with_their_tenant(test: &TestDatabase) {
    let of = |number, tenant: &str| StoredToken { tenant: Some(tenant.into()), ..token(number) };
    let quiet = AuditEntry::default;
    for new in [of(1, "gone"), of(2, "gone"), of(3, "stays"), token(4)] {
        test.db.create_token(new, quiet()).await.unwrap();
    }
    let (hash, created_at, expires_at) = ([7; 32], at(0), at(1_000_000));
    let session = BrowserSession { hash, token_id: "token-1".into(), created_at, expires_at };
    test.db.create_session(session).await.unwrap();
    let removing = NewVersion { removed_tenants: vec!["gone".into(), "other".into()], ..version(9) };
    test.db.publish(removing).await.unwrap();
    for (number, is_revoked) in [(1, true), (2, true), (3, false), (4, false)] {
        let found = test.db.token(&format!("token-{number}")).await.unwrap().unwrap();
        assert_eq!(found.revoked_at, is_revoked.then(|| at(9)), "{number}");
    }
    assert_eq!(test.db.session(&hash, at(1)).await.unwrap(), None);
    let events =
        "SELECT event || ' ' || coalesce(tenant, '') FROM audit_entries WHERE event = 'token_revoked'";
    assert_eq!(test.raw_texts(events).await, ["token_revoked gone", "token_revoked gone"]);
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
    // By a token, by an entry of the audit, by a violation.
    test.record_violations(vec![violation(5)]).await;
    for (tenant, is_known) in [("stays", true), ("gone", true), ("tenant-5", true), ("nobody", false)] {
        assert_eq!(test.db.knows_tenant(tenant).await.unwrap(), is_known, "{tenant}");
    }
}
