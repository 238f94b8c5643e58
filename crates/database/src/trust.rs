//! What is known about users beside violations. What a row says is a document that this crate does not read.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use crate::answers::{self, NewAnswer};
use crate::audit::{self, AuditEntry};
use crate::changes;
use crate::session::{SqlRow, SqlSession, SqlValue, values};
use crate::{Database, DatabaseError, LiveHead, UnixMillis};

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
}

/// A change of what is known about some users, all of it or nothing.
#[derive(Debug, Default)]
pub struct TrustChange {
    /// The users, each once.
    pub users: Vec<String>,
    /// How many rows there may be.
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

const HEAD: &str = "SELECT epoch, sequence FROM trust_head WHERE id = 1";
const PAGE: &str = "SELECT * FROM trust_accounts WHERE sequence > $1 ORDER BY sequence LIMIT $2";
const PURGE: &str = "DELETE FROM trust_accounts WHERE ends_at < $1";
const COUNT: &str = "SELECT count(*) FROM trust_accounts";
const INSERT: &str = "INSERT INTO trust_accounts (user_id, sequence, body, ends_at)";
const OR_REPLACE: &str = "ON CONFLICT (user_id) DO UPDATE SET sequence = excluded.sequence, body = excluded.body, \
     ends_at = excluded.ends_at";
const MOVE_HEAD: &str = "UPDATE trust_head SET sequence = $1 WHERE id = 1";
const ERASE: &str = "DELETE FROM trust_accounts WHERE user_id = $1";
const NEXT_EPOCH: &str = "UPDATE trust_head SET epoch = epoch + 1 WHERE id = 1";

impl Database {
    /// What was changed after `seen`: at most `most` rows, those that have ended included. If `seen` is of another epoch,
    /// the rows from the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trust_page(&self, seen: LiveHead, most: u32) -> Result<TrustPage, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let head = read_head(&mut session).await?;
            let mut rows = Vec::new();
            if head != seen {
                let after = if head.epoch == seen.epoch { seen.sequence } else { 0 };
                let found = session.rows(PAGE, values![after, i64::from(most)]).await?;
                rows = found.iter().map(read_row).collect::<Result<_, _>>()?;
            }
            session.release();
            Ok(TrustPage { head, rows })
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
            let mut sequence = read_head(&mut session).await?.sequence;
            let (mut rows, mut new) = (Vec::new(), 0);
            for user in &change.users {
                let before = known.get(user);
                let TrustEdit { body, ends_at } = edit(user, before.and_then(Option::as_deref));
                if before.is_none() && body.is_none() {
                    continue;
                }
                new += u64::from(before.is_none());
                sequence += 1;
                // What is removed ends now.
                let ends_at = if body.is_some() { ends_at } else { Some(change.now) };
                rows.push(values![user, sequence, &body, ends_at]);
            }
            if new > 0 && session.value::<u64>(COUNT, vec![]).await? + new > change.most {
                session.rollback().await?;
                return Ok(TrustChangeOutcome::Full);
            }
            session.insert_rows(INSERT, OR_REPLACE, rows).await?;
            session.execute(MOVE_HEAD, values![sequence]).await?;
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

async fn read_head(session: &mut SqlSession) -> Result<LiveHead, DatabaseError> {
    let row = session.row(HEAD, vec![]).await?;
    let row = row.ok_or_else(|| {
        DatabaseError::Invalid("the table trust_head is empty: somebody changed it; restore a backup".into())
    })?;
    Ok(LiveHead { epoch: row.get("epoch")?, sequence: row.get("sequence")? })
}

fn read_row(row: &SqlRow) -> Result<TrustRow, DatabaseError> {
    Ok(TrustRow {
        user: row.get("user_id")?,
        sequence: row.get("sequence")?,
        body: row.get("body")?,
        ends_at: row.get("ends_at")?,
    })
}
