//! Who carries what is known about users from node to node, and keeps it: the database, else the Redis that nodes share,
//! else the memory of this node.

use std::sync::Arc;

use tidegate::Nanos;
use tidegate::engine::trust::{TrustAccount, TrustBook};
use tidegate_database::{
    AuditEntry, Database, LiveHead, NewAnswer, TrustChange, TrustChangeOutcome, TrustEdit, UnixMillis,
};
use tidegate_redis::{
    SharedAccount, SharedAccountEdit, SharedLiveHead, SharedTrustChange, SharedTrustOutcome, StoreError,
};

use super::account;
use crate::bounds::{TRUST_KEPT_MAX, TRUST_SHARED_MAX};
use crate::control::api::ApiError;
use crate::control::carried::CarriedPage;
use crate::control::changing::IdempotencyKey;
use crate::control::startup::unix_millis;
use crate::node::Node;
use crate::node::store::SharedRedisStore;

/// How many accounts are read at once from the database, and from Redis: few enough for the deadline of a call.
const PAGE: u32 = 1_000;
const SHARED_PAGE: u32 = 250;

/// How many accounts one call to Redis changes: decisions wait for it.
const SHARED_CHANGE: usize = 100;

/// How often a change on Redis is tried when others change the same accounts at the same time.
const ATTEMPTS: usize = 20;

/// The carrier of a node.
pub(super) enum TrustCarrier<'n> {
    Database(&'n Database),
    Redis(&'n Arc<SharedRedisStore>),
    /// Nobody: the accounts are gone when the node ends.
    Memory,
}

/// An account that was changed.
#[derive(Debug)]
pub(super) struct AccountNews {
    pub(super) user: String,
    pub(super) sequence: u64,
    /// `None` if nothing is known any more.
    pub(super) account: Option<TrustAccount>,
}

/// A change of several accounts that failed after some of them.
pub(super) struct PartlyChanged {
    /// How many were changed by now, and were not before.
    pub(super) changed: usize,
    pub(super) error: ApiError,
}

/// What is done to the account of a user.
pub(super) type AccountEdit<'e> = &'e (dyn Fn(&str, &mut TrustAccount) + Send + Sync);

impl<'n> TrustCarrier<'n> {
    pub(super) fn of(node: &'n Node) -> TrustCarrier<'n> {
        let database = node.control().and_then(|control| control.database());
        match (database, node.shared()) {
            (Some(database), _) => TrustCarrier::Database(database),
            (None, Some(shared)) => TrustCarrier::Redis(shared),
            (None, None) => TrustCarrier::Memory,
        }
    }

    /// What comes after a sequence, for whoever has seen a head; `None` if nobody carries anything.
    pub(super) async fn news(
        &self,
        seen: LiveHead,
        after: u64,
    ) -> Result<Option<CarriedPage<AccountNews>>, ApiError> {
        Ok(Some(match self {
            TrustCarrier::Memory => return Ok(None),
            TrustCarrier::Database(database) => {
                let page = database.trust_page(seen, after, PAGE).await?;
                let is_last = page.rows.len() < PAGE as usize;
                let news = page.rows.into_iter().map(|row| AccountNews {
                    account: row.body.and_then(|body| account::read(body.as_bytes())),
                    user: row.user,
                    sequence: row.sequence,
                });
                CarriedPage { head: page.head, news: news.collect(), is_anew: page.is_anew, is_last }
            }
            TrustCarrier::Redis(shared) => {
                let seen = SharedLiveHead { epoch: seen.epoch, sequence: seen.sequence };
                let page = shared.store.trust_page(seen, after, SHARED_PAGE).await.map_err(unanswered)?;
                let is_last = page.accounts.len() < SHARED_PAGE as usize;
                let news = page.accounts.into_iter().map(|known| AccountNews {
                    account: account::read(&known.text),
                    user: known.user,
                    sequence: known.sequence,
                });
                let head = LiveHead { epoch: page.head.epoch, sequence: page.head.sequence };
                CarriedPage { head, news: news.collect(), is_anew: page.is_anew, is_last }
            }
        }))
    }
}

/// Changes accounts in the database, all of them or none. False: the idempotency key was used before, so nothing was done.
pub(super) async fn change_in_database(
    database: &Database,
    users: Vec<String>,
    edit: AccountEdit<'_>,
    audit: Vec<AuditEntry>,
    answer: Option<NewAnswer>,
    now: UnixMillis,
) -> Result<bool, ApiError> {
    let change = TrustChange { users, most: TRUST_KEPT_MAX as u64, now, audit, answer };
    let edited = |user: &str, body: Option<&str>| {
        let account = edited(user, body.map(str::as_bytes), edit);
        TrustEdit { body: account::write(&account), ends_at: account::end(&account).map(unix_millis) }
    };
    match database.change_trust(change, edited).await? {
        TrustChangeOutcome::Changed(_) => Ok(true),
        TrustChangeOutcome::Repeated => Ok(false),
        TrustChangeOutcome::Full => Err(full(TRUST_KEPT_MAX)),
    }
}

/// Changes accounts on Redis, some at a time; with an idempotency key each of these parts once. Returns how many were changed
/// that were not before.
pub(super) async fn change_on_redis(
    shared: &SharedRedisStore,
    users: &[String],
    edit: AccountEdit<'_>,
    once: Option<&IdempotencyKey>,
    wall: Nanos,
) -> Result<usize, PartlyChanged> {
    let mut changed = 0;
    for (index, some) in users.chunks(SHARED_CHANGE).enumerate() {
        let mark = once.map(|key| key.part(index));
        match change_some_on_redis(shared, some, edit, mark, wall).await {
            Ok(true) => changed += some.len(),
            Ok(false) => {}
            Err(ApiError::Unavailable(why)) if index > 0 => {
                let done = index * SHARED_CHANGE;
                let next = match once {
                    Some(_) => "repeat it with the same Idempotency-Key, and only the others are changed",
                    None => "repeat the others",
                };
                let error = ApiError::Unavailable(format!(
                    "{why}; the {done} users up to `{}`, in the order of their names, are done: {next}",
                    users[done - 1]
                ));
                return Err(PartlyChanged { changed, error });
            }
            Err(error) => return Err(PartlyChanged { changed, error }),
        }
    }
    Ok(changed)
}

/// False: a change with this mark was made before.
async fn change_some_on_redis(
    shared: &SharedRedisStore,
    users: &[String],
    edit: AccountEdit<'_>,
    mark: Option<[u8; 32]>,
    wall: Nanos,
) -> Result<bool, ApiError> {
    for _ in 0..ATTEMPTS {
        let found = shared.store.trust_accounts(users).await.map_err(unanswered)?;
        let edits = found.into_iter().map(|known| {
            let account = edited(&known.user, Some(&known.text), edit);
            let text = account::write(&account).unwrap_or_default().into_bytes();
            let lasts = account::end(&account).map(|end| end.saturating_sub(wall));
            SharedAccountEdit { account: SharedAccount { text, ..known }, lasts }
        });
        let change = SharedTrustChange { edits: edits.collect(), most: TRUST_SHARED_MAX, mark };
        match shared.store.change_trust(&change).await.map_err(unanswered)? {
            SharedTrustOutcome::Changed(_) => return Ok(true),
            SharedTrustOutcome::Repeated => return Ok(false),
            SharedTrustOutcome::Full => return Err(full(TRUST_SHARED_MAX)),
            SharedTrustOutcome::Stale => {}
        }
    }
    Err(ApiError::Unavailable("others change the same users all the time: repeat it".to_owned()))
}

/// Changes accounts of a node that has no carrier, all of them or none. The caller lets one change at a time happen.
pub(super) fn change_in_memory(
    book: &TrustBook,
    users: &[String],
    edit: AccountEdit<'_>,
    wall: Nanos,
) -> Result<(), ApiError> {
    let new = users.iter().filter(|user| book.account(user).is_none()).count();
    if new > 0 && book.accounts() + new > TRUST_KEPT_MAX {
        book.drop_ended_accounts(wall);
        if book.accounts() + new > TRUST_KEPT_MAX {
            return Err(full(TRUST_KEPT_MAX));
        }
    }
    for user in users {
        let mut account = book.account(user).unwrap_or_default();
        edit(user, &mut account);
        book.set_account(user, account::write(&account).map(|_| account));
    }
    Ok(())
}

/// The account of a text, after the edit.
fn edited(user: &str, text: Option<&[u8]>, edit: AccountEdit<'_>) -> TrustAccount {
    let mut account = text.and_then(account::read).unwrap_or_default();
    edit(user, &mut account);
    account
}

fn unanswered(error: StoreError) -> ApiError {
    ApiError::Unavailable(format!("the store does not answer: {error}"))
}

fn full(most: usize) -> ApiError {
    ApiError::Conflict(format!(
        "{most} users are known: remove the facts of some (`PUT /trust/{{user}}` with `{{}}`), or state facts by claims or \
         in the file of the settings"
    ))
}
