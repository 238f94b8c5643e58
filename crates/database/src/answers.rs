//! Answers to requests with an idempotency key, for when they are repeated.

use std::fmt;

use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError, UnixMillis};

/// The body of an answer, made of the number of the version that was published.
pub type AnswerBody = Box<dyn FnOnce(u64) -> String + Send>;

/// An answer to remember.
pub struct NewAnswer {
    /// The SHA-256 of the key and of who used it.
    pub key_hash: [u8; 32],
    /// The SHA-256 of the request.
    pub request_hash: [u8; 32],
    /// The status.
    pub status: u16,
    /// The body. It must have no secret.
    pub body: AnswerBody,
}

impl fmt::Debug for NewAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The answer to a request with an idempotency key that changes live entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeAnswer {
    /// The SHA-256 of the key and of who used it.
    pub key_hash: [u8; 32],
    /// The SHA-256 of the request.
    pub request_hash: [u8; 32],
    /// The body. It must have no secret.
    pub body: String,
    /// Does it replace what was remembered when the request was begun?
    pub ends: bool,
}

/// What is known about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was used for the same request, which had this answer.
    Answer(RememberedAnswer),
    /// It was used for another request.
    Conflict,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// The most answers that are kept. When one more comes, the oldest is forgotten.
pub const ANSWERS_MAX: u64 = 10_000;

/// How long answers are kept.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1_000;

const FIND: &str =
    "SELECT request_hash, status, body FROM idempotent_answers WHERE key_hash = $1 AND created_at > $2";
const PURGE: &str = "DELETE FROM idempotent_answers WHERE created_at <= $1";
/// The oldest answers, but for the newest ones.
const CROWD: &str = "DELETE FROM idempotent_answers WHERE created_at <= \
     (SELECT created_at FROM idempotent_answers ORDER BY created_at DESC LIMIT 1 OFFSET $1)";
const REPLACE: &str = "UPDATE idempotent_answers SET body = $1 WHERE key_hash = $2";
const INSERT: &str = "INSERT INTO idempotent_answers (key_hash, request_hash, status, body, created_at) \
                      VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key_hash) DO NOTHING";

impl Database {
    /// What is known about a key at `now`; `None`: it was not used in the last 24 hours.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn remembered(
        &self,
        key_hash: &[u8; 32],
        request_hash: &[u8; 32],
        now: UnixMillis,
    ) -> Result<Option<Remembered>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let row = session.row(FIND, values![key_hash, now.plus(-KEPT_MILLIS)]).await?;
            session.release();
            let Some(row) = row else { return Ok(None) };
            if row.get::<[u8; 32]>("request_hash")? != *request_hash {
                return Ok(Some(Remembered::Conflict));
            }
            let status = u16::try_from(row.get::<i64>("status")?).unwrap_or_default();
            Ok(Some(Remembered::Answer(RememberedAnswer { status, body: row.get("body")? })))
        })
        .await
    }

    /// Remembers an answer that belongs to no version; its body gets 0. The first answer of a key stays.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn remember(&self, answer: NewAnswer, now: UnixMillis) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            store(&mut session, answer, 0, now).await?;
            session.commit().await
        })
        .await
    }
}

/// Keeps the answer to a change in the transaction of `session`. False if the key was used before.
pub(crate) async fn keep(
    session: &mut SqlSession,
    answer: ChangeAnswer,
    now: UnixMillis,
) -> Result<bool, DatabaseError> {
    let ChangeAnswer { key_hash, request_hash, body, ends } = answer;
    if ends {
        session.execute(REPLACE, values![body.as_str(), &key_hash]).await?;
        return Ok(true);
    }
    store(session, NewAnswer { key_hash, request_hash, status: 200, body: Box::new(|_| body) }, 0, now).await
}

/// Stores an answer in the transaction of `session`, and forgets old ones. False if the key has an answer already, which
/// then stays.
pub(crate) async fn store(
    session: &mut SqlSession,
    answer: NewAnswer,
    version: u64,
    now: UnixMillis,
) -> Result<bool, DatabaseError> {
    session.execute(PURGE, values![now.plus(-KEPT_MILLIS)]).await?;
    session.execute(CROWD, values![ANSWERS_MAX - 1]).await?;
    let body = (answer.body)(version);
    let values =
        values![&answer.key_hash, &answer.request_hash, i64::from(answer.status), body.as_str(), now];
    Ok(session.execute(INSERT, values).await? > 0)
}
