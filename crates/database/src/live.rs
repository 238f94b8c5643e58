//! Live entries: what is done at run time beside the policy. What an entry says is a document that this crate does not
//! read.

use crate::answers::{self, ChangeAnswer};
use crate::audit::{self, AuditEntry};
use crate::changes;
use crate::followed::{self, LIVE, LiveHead};
use crate::session::{SqlRow, SqlSession, values};
use crate::{Database, DatabaseError, UnixMillis};

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveRow {
    /// Its name, which is no secret.
    pub id: String,
    /// Grows with each addition and each removal. That of a new entry is assigned when it is written.
    pub sequence: u64,
    /// What it does.
    pub kind: String,
    /// More about it, as JSON.
    pub body: String,
    /// When it ends by itself.
    pub until: Option<UnixMillis>,
    /// When it was added.
    pub created_at: UnixMillis,
    /// By whom.
    pub author: String,
    /// Why.
    pub reason: Option<String>,
    /// When it was removed. It is kept for an hour after that, so that every node learns of it.
    pub removed_at: Option<UnixMillis>,
}

/// Entries that were added or removed, in the order in which that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivePage {
    /// The end of all entries.
    pub head: LiveHead,
    /// The entries.
    pub entries: Vec<LiveRow>,
    /// Are these the entries from the first? The head that was seen is none of this database: it has gone back.
    pub is_anew: bool,
}

/// A change of the entries, all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct LiveChange {
    /// The ids of entries to remove.
    pub remove: Vec<String>,
    /// Entries to add.
    pub add: Vec<LiveRow>,
    /// How many entries of one kind there may be.
    pub most: u64,
    /// The time.
    pub now: UnixMillis,
    /// The audit entries about it.
    pub audit: Vec<AuditEntry>,
    /// The answer to remember, if the request has an idempotency key.
    pub answer: Option<ChangeAnswer>,
    /// Entries of this kind are not kept after their end: nobody needs to learn that they have ended.
    pub brief_kind: &'static str,
    /// May it use the room that is kept free for what must not be refused?
    pub is_urgent: bool,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveChangeOutcome {
    /// It is made. This is the sequence of its last part.
    Changed(u64),
    /// There are too many entries.
    Full,
    /// An entry to remove is not there, or has ended or was removed before.
    Unknown,
    /// The idempotency key was used before.
    KeyUsed,
}

/// How long entries are kept after they have ended or were removed.
const KEPT_MILLIS: i64 = 60 * 60 * 1_000;

/// The most rows, with those that have ended. Whoever adds and removes entries all the time meets this bound.
const ROWS_MAX: i64 = 100_000;

/// How many more there may be of those that must not be refused.
const URGENT_ROWS: i64 = 1_000;

const PAGE: &str = "SELECT * FROM live_entries WHERE sequence > $1 ORDER BY sequence LIMIT $2";
const PURGE: &str =
    "DELETE FROM live_entries WHERE removed_at < $1 OR ends_at < $1 OR (kind = $2 AND ends_at <= $3)";
const COUNT: &str = "SELECT count(*) FROM live_entries";
const COUNT_KIND: &str = "SELECT count(*) FROM live_entries WHERE kind = $1 AND removed_at IS NULL \
     AND (ends_at IS NULL OR ends_at > $2)";
const REMOVE: &str = "UPDATE live_entries SET removed_at = $1, sequence = $2 WHERE id = $3 AND removed_at IS NULL \
     AND (ends_at IS NULL OR ends_at > $1)";
const ADD: &str = "INSERT INTO live_entries (id, sequence, kind, body, ends_at, created_at, author, reason) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const USED: &str =
    "UPDATE live_entries SET last_used = $1 WHERE id = $2 AND (last_used IS NULL OR last_used < $1)";
const USES: &str = "SELECT id, last_used FROM live_entries WHERE kind = $1 AND last_used IS NOT NULL \
     AND removed_at IS NULL";

impl Database {
    /// What was added or removed after the sequence `after`: at most `most` entries, those that were removed or have ended
    /// included. If `seen` is no head of this database, present or past, the entries from the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn live_page(&self, seen: LiveHead, after: u64, most: u32) -> Result<LivePage, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let head = LIVE.head(&mut session).await?;
            let is_anew = !LIVE.knows(&mut session, seen, head).await?;
            let mut entries = Vec::new();
            if is_anew || after < head.sequence {
                let after = if is_anew { 0 } else { after };
                let rows = session.rows(PAGE, values![after, i64::from(most)]).await?;
                entries = rows.iter().map(read_entry).collect::<Result<_, _>>()?;
            }
            session.release();
            Ok(LivePage { head, entries, is_anew })
        })
        .await
    }

    /// Changes the entries, with the audit entries about it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn change_live(&self, change: LiveChange) -> Result<LiveChangeOutcome, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            // Also lets one change at a time happen, so that sequences become visible in their order.
            let chain = audit::lock_head(&mut session).await?;
            let purged = values![change.now.plus(-KEPT_MILLIS), change.brief_kind, change.now];
            session.execute(PURGE, purged).await?;
            if let Some(answer) = change.answer.clone()
                && !answers::keep(&mut session, answer, change.now).await?
            {
                session.rollback().await?;
                return Ok(LiveChangeOutcome::KeyUsed);
            }
            let before = LIVE.head(&mut session).await?.sequence;
            let mut sequence = before;
            for id in &change.remove {
                sequence = followed::next_sequence(sequence, change.now);
                if session.execute(REMOVE, values![change.now, sequence, id]).await? == 0 {
                    session.rollback().await?;
                    return Ok(LiveChangeOutcome::Unknown);
                }
            }
            for entry in &change.add {
                if is_full(&mut session, &entry.kind, &change).await? {
                    session.rollback().await?;
                    return Ok(LiveChangeOutcome::Full);
                }
                sequence = followed::next_sequence(sequence, change.now);
                add(&mut session, entry, sequence).await?;
            }
            LIVE.move_head(&mut session, before, sequence).await?;
            if !change.audit.is_empty() {
                audit::append_after(&mut session, chain, change.audit).await?;
            }
            changes::tell(&mut session, changes::LIVE).await?;
            session.commit().await?;
            Ok(LiveChangeOutcome::Changed(sequence))
        })
        .await
    }

    /// Forgets what ended or was removed an hour ago, and entries of `brief_kind` as soon as they have ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn purge_live(&self, now: UnixMillis, brief_kind: &str) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            session.execute(PURGE, values![now.plus(-KEPT_MILLIS), brief_kind, now]).await?;
            session.commit().await
        })
        .await
    }

    /// Notes when entries were last used; of what several nodes say, the latest counts.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_live_uses(&self, uses: &[(String, UnixMillis)]) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            for (id, at) in uses {
                session.execute(USED, values![*at, id]).await?;
            }
            session.commit().await
        })
        .await
    }

    /// When the entries of a kind were last used, by their ids.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn live_uses(&self, kind: &str) -> Result<Vec<(String, UnixMillis)>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(USES, values![kind]).await?;
            session.release();
            rows.iter().map(|row| Ok((row.get("id")?, row.get("last_used")?))).collect()
        })
        .await
    }
}

async fn is_full(session: &mut SqlSession, kind: &str, change: &LiveChange) -> Result<bool, DatabaseError> {
    let of_kind: u64 = session.value(COUNT_KIND, values![kind, change.now]).await?;
    let rows = if change.is_urgent { ROWS_MAX + URGENT_ROWS } else { ROWS_MAX };
    Ok(of_kind >= change.most || session.value::<i64>(COUNT, vec![]).await? >= rows)
}

async fn add(session: &mut SqlSession, entry: &LiveRow, sequence: u64) -> Result<(), DatabaseError> {
    let values = values![
        &entry.id,
        sequence,
        &entry.kind,
        &entry.body,
        entry.until,
        entry.created_at,
        &entry.author,
        &entry.reason,
    ];
    session.execute(ADD, values).await?;
    Ok(())
}

fn read_entry(row: &SqlRow) -> Result<LiveRow, DatabaseError> {
    Ok(LiveRow {
        id: row.get("id")?,
        sequence: row.get("sequence")?,
        kind: row.get("kind")?,
        body: row.get("body")?,
        until: row.get("ends_at")?,
        created_at: row.get("created_at")?,
        author: row.get("author")?,
        reason: row.get("reason")?,
        removed_at: row.get("removed_at")?,
    })
}
