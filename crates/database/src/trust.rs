//! What is known about users beside violations. What a row says is a document that this crate does not read.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use crate::answers::{self, NewAnswer};
use crate::audit::{self, AuditEntry};
use crate::changes;
use crate::followed::{self, LiveHead, TRUST};
use crate::session::{SqlRow, SqlSession, SqlValue, values};
use crate::{Database, DatabaseError, UnixMillis};

/// What is known about a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustRow {
    /// The user.
    pub user: String,
    /// Grows with each change. That of a new row is assigned when it is written.
    pub sequence: u64,
    /// What is known, as JSON; `None`: nothing any more.
    pub body: Option<String>,
    /// When it says nothing any more. It is kept for an hour after that, so that every node learns of it.
    pub ends_at: Option<UnixMillis>,
}

/// Rows that were changed, in the order in which that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPage {
    /// The end of all changes.
    pub head: LiveHead,
    /// The rows.
    pub rows: Vec<TrustRow>,
    /// Are these the rows from the first? The head that was seen is none of this database: it has gone back.
    pub is_anew: bool,
}

/// A change of what is known about some users, all of it or nothing.
#[derive(Debug, Default)]
pub struct TrustChange {
    /// The users, each once.
    pub users: Vec<String>,
    /// How many rows there may be about whom something is known. Twice as many may be kept, with those about whom nothing is
    /// known any more.
    pub most: u64,
    /// The time.
    pub now: UnixMillis,
    /// The audit entries about it.
    pub audit: Vec<AuditEntry>,
    /// The answer to remember, if the request has an idempotency key.
    pub answer: Option<NewAnswer>,
}

/// What becomes of one row: what is known from now on, and when it says nothing any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustEdit {
    /// What is known, as JSON; `None`: nothing any more.
    pub body: Option<String>,
    /// When it says nothing any more; `None`: never.
    pub ends_at: Option<UnixMillis>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustChangeOutcome {
    /// It is made. This is the sequence of its last part.
    Changed(u64),
    /// There are too many rows.
    Full,
    /// The idempotency key has an answer already, so nothing was done.
    Repeated,
}

/// How long rows are kept after they have ended.
const KEPT_MILLIS: i64 = 60 * 60 * 1_000;

/// How many rows one query looks for.
const FOUND_AT_ONCE: usize = 100;

const PAGE: &str = "SELECT * FROM trust_accounts WHERE sequence > $1 ORDER BY sequence LIMIT $2";
const PURGE: &str = "DELETE FROM trust_accounts WHERE ends_at < $1";
const COUNT: &str = "SELECT count(*) FROM trust_accounts";
const COUNT_KNOWN: &str = "SELECT count(*) FROM trust_accounts WHERE body IS NOT NULL";
const INSERT: &str = "INSERT INTO trust_accounts (user_id, sequence, body, ends_at)";
const OR_REPLACE: &str = "ON CONFLICT (user_id) DO UPDATE SET sequence = excluded.sequence, body = excluded.body, \
     ends_at = excluded.ends_at";
const ERASE: &str = "DELETE FROM trust_accounts WHERE user_id = $1";
const NEXT_EPOCH: &str = "UPDATE trust_head SET epoch = epoch + 1 WHERE id = 1";

impl Database {
    /// What was changed after the sequence `after`: at most `most` rows, those that have ended included. If `seen` is no head
    /// of this database, present or past, the rows from the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trust_page(
        &self,
        seen: LiveHead,
        after: u64,
        most: u32,
    ) -> Result<TrustPage, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let head = TRUST.head(&mut session).await?;
            let is_anew = !TRUST.knows(&mut session, seen, head).await?;
            let mut rows = Vec::new();
            if is_anew || after < head.sequence {
                let after = if is_anew { 0 } else { after };
                let found = session.rows(PAGE, values![after, i64::from(most)]).await?;
                rows = found.iter().map(read_row).collect::<Result<_, _>>()?;
            }
            session.release();
            Ok(TrustPage { head, rows, is_anew })
        })
        .await
    }

    /// Changes what is known about some users, with the audit entries about it. `edit` gets each user and what is known
    /// about it; while it decides, nobody else changes anything.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn change_trust(
        &self,
        change: TrustChange,
        edit: impl Fn(&str, Option<&str>) -> TrustEdit + Send,
    ) -> Result<TrustChangeOutcome, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            // Also lets one change at a time happen, so that sequences become visible in their order.
            let chain = audit::lock_head(&mut session).await?;
            if let Some(answer) = change.answer
                && !answers::store(&mut session, answer, 0, change.now).await?
            {
                session.rollback().await?;
                return Ok(TrustChangeOutcome::Repeated);
            }
            session.execute(PURGE, values![change.now.plus(-KEPT_MILLIS)]).await?;
            let known = find(&mut session, &change.users).await?;
            let first = TRUST.head(&mut session).await?.sequence;
            let mut sequence = first;
            let (mut rows, mut new, mut newly_known) = (Vec::new(), 0, 0);
            for user in &change.users {
                let before = known.get(user);
                let TrustEdit { body, ends_at } = edit(user, before.and_then(Option::as_deref));
                if before.is_none() && body.is_none() {
                    continue;
                }
                new += u64::from(before.is_none());
                newly_known += u64::from(body.is_some() && before.and_then(Option::as_ref).is_none());
                sequence = followed::next_sequence(sequence, change.now);
                // What is removed ends now.
                let ends_at = if body.is_some() { ends_at } else { Some(change.now) };
                rows.push(values![user, sequence, &body, ends_at]);
            }
            if is_full(&mut session, new, newly_known, change.most).await? {
                session.rollback().await?;
                return Ok(TrustChangeOutcome::Full);
            }
            session.insert_rows(INSERT, OR_REPLACE, rows).await?;
            TRUST.move_head(&mut session, first, sequence).await?;
            if !change.audit.is_empty() {
                audit::append_after(&mut session, chain, change.audit).await?;
            }
            changes::tell(&mut session, changes::TRUST).await?;
            session.commit().await?;
            Ok(TrustChangeOutcome::Changed(sequence))
        })
        .await
    }
}

/// Erases what is known about a user, in the transaction of `session`. Every node reads everything anew, since a row that
/// says that this user was removed would name it. Returns the number of rows.
pub(crate) async fn erase(session: &mut SqlSession, user: &str) -> Result<u64, DatabaseError> {
    let erased = session.execute(ERASE, values![user]).await?;
    if erased > 0 {
        session.execute(NEXT_EPOCH, vec![]).await?;
        changes::tell(session, changes::TRUST).await?;
    }
    Ok(erased)
}

/// Is there no room for so many new rows, and rows about whom nothing was known?
async fn is_full(
    session: &mut SqlSession,
    new: u64,
    newly_known: u64,
    most: u64,
) -> Result<bool, DatabaseError> {
    if newly_known == 0 {
        return Ok(false);
    }
    Ok(session.value::<u64>(COUNT_KNOWN, vec![]).await? + newly_known > most
        || session.value::<u64>(COUNT, vec![]).await? + new > 2 * most)
}

/// What the rows of these users say.
async fn find(
    session: &mut SqlSession,
    users: &[String],
) -> Result<HashMap<String, Option<String>>, DatabaseError> {
    let mut found = HashMap::new();
    for users in users.chunks(FOUND_AT_ONCE) {
        let places: Vec<String> = (1..=users.len()).map(|number| format!("${number}")).collect();
        let sql = format!("SELECT * FROM trust_accounts WHERE user_id IN ({})", places.join(", "));
        let values = users.iter().map(SqlValue::from).collect();
        for row in session.rows(AssertSqlSafe(sql), values).await? {
            let TrustRow { user, body, .. } = read_row(&row)?;
            found.insert(user, body);
        }
    }
    Ok(found)
}

fn read_row(row: &SqlRow) -> Result<TrustRow, DatabaseError> {
    Ok(TrustRow {
        user: row.get("user_id")?,
        sequence: row.get("sequence")?,
        body: row.get("body")?,
        ends_at: row.get("ends_at")?,
    })
}
