//! Access by tokens and sessions, with and without a database.

use std::net::IpAddr;
use std::path::PathBuf;

use http::header::{COOKIE, HOST, ORIGIN};
use tidegate_database::{DatabaseOptions, PageRequest, TokenRevocation};

use super::new_token::{CreatedToken, token_entry};
use super::seen::{FRESH, GRACE};
use super::*;
use crate::bounds::{API_CALLS_BURST, FAILED_LOGINS_BURST};
use crate::observe::EventName;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

fn with(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

async fn who(
    access: &Access,
    headers: &HeaderMap,
    address: IpAddr,
    writes: bool,
) -> Result<Principal, AccessError> {
    access.authenticate(AccessProof { headers, address, writes, may_use_session: true }).await
}

async fn by(access: &Access, token: &str, address: IpAddr) -> Result<AccessRole, AccessError> {
    let headers = with(&[(AUTHORIZATION, &format!("Bearer {token}"))]);
    who(access, &headers, address, true).await.map(|principal| principal.role)
}

/// A database in a folder that is removed when the test ends.
struct TestBase {
    folder: PathBuf,
    database: Database,
}

impl TestBase {
    async fn open(name: &str) -> TestBase {
        let folder = std::env::temp_dir().join(format!("tidegate-access-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite:{}", folder.join("t.db").display());
        TestBase { folder, database: Database::open(&url, DatabaseOptions::default()).await.unwrap() }
    }

    async fn token(&self, role: AccessRole, expires: Option<UnixMillis>) -> CreatedToken {
        let request = TokenRequest {
            role,
            tenant: Some("acme".to_owned()),
            expires,
            description: None,
            actor: "test".to_owned(),
            reason: None,
            now: UnixMillis::new(0),
        };
        create_token(&self.database, request).await.unwrap()
    }
}

impl Drop for TestBase {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn book(access: &Access) -> &TokenBook {
    access.book.as_deref().expect("there is a database")
}

#[tokio::test]
async fn the_one_token_of_a_server_without_a_database_is_an_admin() {
    let access = Access::by_token("s3cret").unwrap();
    assert_eq!(by(&access, "s3cret", HERE).await, Ok(AccessRole::Admin));
    assert_eq!(by(&access, "s3cre", HERE).await, Err(AccessError::Invalid));
    for nothing in [with(&[]), with(&[(AUTHORIZATION, "Basic s3cret")]), with(&[(COOKIE, "a=b")])] {
        assert_eq!(who(&access, &nothing, HERE, false).await, Err(AccessError::Missing));
    }
}

#[tokio::test]
async fn wrong_tokens_of_one_address_are_slowed_down_and_hinder_nobody_else() {
    let base = TestBase::open("slow").await;
    let token = base.token(AccessRole::Viewer, None).await.secret;
    let other = base.token(AccessRole::Viewer, None).await.secret;
    for access in
        [Access::by_token(&token).unwrap(), Access::by_database(base.database.clone(), None).unwrap()]
    {
        assert!(by(&access, &token, HERE).await.is_ok());
        for attempt in 0..FAILED_LOGINS_BURST {
            assert_eq!(by(&access, &format!("wrong-{attempt}"), HERE).await, Err(AccessError::Invalid));
        }
        let slowed = by(&access, "wrong", HERE).await;
        assert!(matches!(slowed, Err(AccessError::TooMany { retry_after: 1..=6, .. })), "{slowed:?}");
        assert!(by(&access, &token, HERE).await.is_ok(), "a token that was valid before is not held up");
        assert_eq!(by(&access, "wrong", THERE).await, Err(AccessError::Invalid));
        assert!(by(&access, &token, THERE).await.is_ok());
    }
    let access = Access::by_database(base.database.clone(), None).unwrap();
    for _ in 0..3 * FAILED_LOGINS_BURST {
        assert!(by(&access, &other, HERE).await.is_ok(), "right ones are not counted");
    }
}

#[tokio::test]
async fn guesses_of_the_admin_token_are_slowed_down_too() {
    let base = TestBase::open("guess").await;
    let admin = "an-admin-token-of-the-settings";
    for access in
        [Access::by_token(admin).unwrap(), Access::by_database(base.database.clone(), Some(admin)).unwrap()]
    {
        for attempt in 0..FAILED_LOGINS_BURST {
            assert_eq!(by(&access, &format!("wrong-{attempt}"), HERE).await, Err(AccessError::Invalid));
        }
        let guessed = by(&access, admin, HERE).await;
        assert!(
            matches!(guessed, Err(AccessError::TooMany { .. })),
            "a right guess is not told: {guessed:?}"
        );
        assert_eq!(by(&access, admin, THERE).await, Ok(AccessRole::Admin));
        for attempt in 0..=FAILED_LOGINS_BURST {
            _ = by(&access, &format!("wrong-{attempt}"), THERE).await;
        }
        assert_eq!(by(&access, admin, THERE).await, Ok(AccessRole::Admin), "it was sent from there before");
    }
}

#[tokio::test]
async fn a_client_may_begin_with_many_calls_at_once() {
    let base = TestBase::open("many").await;
    let token = base.token(AccessRole::Viewer, None).await.secret;
    let access = std::sync::Arc::new(Access::by_database(base.database.clone(), None).unwrap());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..5 * FAILED_LOGINS_BURST {
        let (access, token) = (std::sync::Arc::clone(&access), token.clone());
        calls.spawn(async move { by(&access, &token, HERE).await });
    }
    while let Some(answered) = calls.join_next().await {
        assert_eq!(answered.unwrap(), Ok(AccessRole::Viewer));
    }
    let session = access.begin_session(token.as_bytes(), HERE).await.unwrap();
    assert!(book(&access).has_seen(SecretHash::of(&session.secret)), "its pages are not held up either");
}

#[tokio::test]
async fn calls_of_one_token_are_limited() {
    let access = Access::by_token("s3cret").unwrap();
    let mut admitted = 0;
    // The bucket fills a little meanwhile.
    while by(&access, "s3cret", HERE).await.is_ok() && admitted < 100 * API_CALLS_BURST {
        admitted += 1;
    }
    assert!((API_CALLS_BURST..100 * API_CALLS_BURST).contains(&admitted), "{admitted}");
}

#[tokio::test]
async fn a_revoked_or_expired_token_is_not_valid() {
    let base = TestBase::open("revoked").await;
    let access = Access::by_database(base.database.clone(), None).unwrap();
    let (token, expired) = (
        base.token(AccessRole::Editor, None).await,
        base.token(AccessRole::Editor, Some(access.wall())).await,
    );
    assert_eq!(by(&access, &expired.secret, HERE).await, Err(AccessError::Invalid));
    let headers = with(&[(AUTHORIZATION, &format!("Bearer {}", token.secret))]);
    let principal = who(&access, &headers, HERE, true).await.unwrap();
    let expected = format!("token:{}", token.id);
    assert_eq!((&*principal.actor, principal.role), (expected.as_str(), AccessRole::Editor));
    assert_eq!(principal.tenant.as_deref(), Some("acme"));
    access.write_uses().await.unwrap();
    let listed = base.database.tokens(&PageRequest::default()).await.unwrap().items;
    let used: Vec<bool> = listed.iter().map(|listed| listed.last_used_at.is_some()).collect();
    let expected: Vec<bool> = listed.iter().map(|listed| listed.id == token.id).collect();
    assert_eq!(used, expected, "only the one that was used");
    let entry = token_entry(EventName::TokenRevoked, &Default::default(), "test", None, access.wall());
    let revoked = base.database.revoke_token(&token.id, access.wall(), entry).await.unwrap();
    assert_eq!(revoked, TokenRevocation::Revoked);
    book(&access).seen().make_older(FRESH);
    assert_eq!(by(&access, &token.secret, HERE).await, Err(AccessError::Invalid));
}

#[tokio::test]
async fn while_the_database_is_away_tokens_that_were_valid_work_for_a_while() {
    let base = TestBase::open("away").await;
    let access = Access::by_database(base.database.clone(), None).unwrap();
    let (known, unknown) = (
        base.token(AccessRole::Viewer, None).await.secret,
        base.token(AccessRole::Viewer, None).await.secret,
    );
    assert!(by(&access, &known, HERE).await.is_ok());
    base.database.close().await;
    book(&access).seen().make_older(FRESH);
    assert!(by(&access, &known, HERE).await.is_ok());
    for _ in 0..2 * FAILED_LOGINS_BURST {
        let refused = by(&access, &unknown, HERE).await;
        assert!(
            matches!(refused, Err(AccessError::Unavailable)),
            "it is not the fault of the token: {refused:?}"
        );
    }
    book(&access).seen().make_older(GRACE);
    assert!(matches!(by(&access, &known, HERE).await, Err(AccessError::Unavailable)));
}

#[tokio::test]
async fn a_session_stands_for_its_token_on_pages_of_this_server() {
    let base = TestBase::open("session").await;
    let token = base.token(AccessRole::Operator, None).await;
    for access in
        [Access::by_token(&token.secret).unwrap(), Access::by_database(base.database.clone(), None).unwrap()]
    {
        assert_eq!(access.begin_session(b"wrong", HERE).await.unwrap_err(), AccessError::Invalid);
        let begun = access.begin_session(token.secret.as_bytes(), HERE).await.unwrap();
        let host = (HOST, "localhost:9090");
        let cookie = (COOKIE, &*format!("__Host-tidegate={}", begun.secret));
        let own = with(&[host.clone(), cookie.clone(), (ORIGIN, "https://localhost:9090")]);
        let foreign = with(&[host.clone(), cookie.clone(), (ORIGIN, "https://evil.example")]);
        let silent = with(&[host, cookie.clone()]);
        assert_eq!(who(&access, &own, HERE, true).await.as_ref(), Ok(&begun.principal));
        assert_eq!(who(&access, &silent, HERE, false).await.as_ref(), Ok(&begun.principal));
        assert_eq!(
            who(&access, &silent, HERE, true).await,
            Err(AccessError::ForeignSite),
            "a change needs a proof"
        );
        for writes in [false, true] {
            assert_eq!(who(&access, &foreign, HERE, writes).await, Err(AccessError::ForeignSite));
        }
        let proof = AccessProof { headers: &own, address: HERE, writes: false, may_use_session: false };
        assert_eq!(
            access.authenticate(proof).await,
            Err(AccessError::Missing),
            "not where the cookie can be read"
        );
        let mut both = own.clone();
        both.insert(AUTHORIZATION, "Bearer wrong".parse().unwrap());
        assert_eq!(who(&access, &both, HERE, true).await, Err(AccessError::Invalid), "the token wins");
        let ending = |headers| access.end_session(AccessProof { headers, ..proof });
        assert_eq!(ending(&foreign).await, Err(AccessError::ForeignSite));
        assert!(who(&access, &own, HERE, true).await.is_ok());
        ending(&own).await.unwrap();
        assert_eq!(who(&access, &own, HERE, true).await, Err(AccessError::SessionEnded));
    }
}

#[tokio::test]
async fn sessions_end_with_their_token() {
    let base = TestBase::open("ends").await;
    let access = Access::by_database(base.database.clone(), None).unwrap();
    let token = base.token(AccessRole::Operator, None).await;
    let begun = access.begin_session(token.secret.as_bytes(), HERE).await.unwrap();
    let headers = with(&[(COOKIE, &format!("__Host-tidegate={}", begun.secret))]);
    assert!(who(&access, &headers, HERE, false).await.is_ok());
    let entry = token_entry(EventName::TokenRevoked, &Default::default(), "test", None, access.wall());
    base.database.revoke_token(&token.id, access.wall(), entry).await.unwrap();
    book(&access).seen().make_older(FRESH);
    assert_eq!(who(&access, &headers, HERE, false).await, Err(AccessError::SessionEnded));
}

#[tokio::test]
async fn the_token_of_the_settings_works_beside_those_in_the_database() {
    let base = TestBase::open("beside").await;
    let token = base.token(AccessRole::Viewer, None).await.secret;
    let access = Access::by_database(base.database.clone(), Some("s3cret")).unwrap();
    assert_eq!(by(&access, &token, HERE).await, Ok(AccessRole::Viewer));
    let begun = access.begin_session(b"s3cret", HERE).await.unwrap();
    base.database.close().await;
    assert_eq!(by(&access, "s3cret", HERE).await, Ok(AccessRole::Admin), "also while the database is away");
    let headers = with(&[(COOKIE, &format!("__Host-tidegate={}", begun.secret))]);
    assert_eq!(who(&access, &headers, HERE, false).await.map(|who| who.role), Ok(AccessRole::Admin));
}

#[tokio::test]
async fn one_first_token_is_made() {
    let base = TestBase::open("first").await;
    let first = first_token(&base.database, UnixMillis::new(0)).await.unwrap().expect("there is none yet");
    assert!(first_token(&base.database, UnixMillis::new(1)).await.unwrap().is_none());
    let access = Access::by_database(base.database.clone(), None).unwrap();
    assert_eq!(by(&access, &first.secret, HERE).await, Ok(AccessRole::Admin));
}
