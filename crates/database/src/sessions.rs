//! Sessions of browsers. A session is a token that was exchanged for a cookie; only the hash of the cookie is stored.

use crate::session::values;
use crate::tokens::{StoredToken, read_token};
use crate::{Database, DatabaseError, UnixMillis};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// The SHA-256 of the cookie.
    pub hash: [u8; 32],
    /// The token that it stands for.
    pub token_id: String,
    /// When it began.
    pub created_at: UnixMillis,
    /// When it ends.
    pub expires_at: UnixMillis,
}

const PURGE: &str = "DELETE FROM sessions WHERE expires_at <= $1";
/// The sessions of a token, but for those that began last.
const CROWD: &str = "DELETE FROM sessions WHERE token_id = $1 AND hash NOT IN \
                     (SELECT hash FROM sessions WHERE token_id = $1 ORDER BY created_at DESC, hash LIMIT $2)";
const INSERT: &str = "INSERT INTO sessions (hash, token_id, created_at, expires_at) VALUES ($1, $2, $3, $4)";
const FIND: &str = "SELECT tokens.*, sessions.created_at AS began_at, sessions.expires_at AS ends_at \
                    FROM sessions JOIN tokens ON tokens.id = sessions.token_id \
                    WHERE sessions.hash = $1 AND sessions.expires_at > $2";
const EXTEND: &str = "UPDATE sessions SET expires_at = $1 WHERE hash = $2 AND expires_at < $1";
const DELETE: &str = "DELETE FROM sessions WHERE hash = $1";

/// How many sessions a token has at most. When one more begins, the oldest ends.
pub const SESSIONS_PER_TOKEN: u64 = 64;

impl Database {
    /// Begins a session, and forgets those that have ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_session(&self, new: BrowserSession) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            session.execute(PURGE, values![new.created_at]).await?;
            session.execute(CROWD, values![&new.token_id, SESSIONS_PER_TOKEN - 1]).await?;
            session
                .execute(INSERT, values![&new.hash, &new.token_id, new.created_at, new.expires_at])
                .await?;
            session.commit().await
        })
        .await
    }

    /// A session that has not ended at `now`, and its token. The token may have ended or been revoked.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session(
        &self,
        hash: &[u8; 32],
        now: UnixMillis,
    ) -> Result<Option<(BrowserSession, StoredToken)>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let row = session.row(FIND, values![hash, now]).await?;
            session.release();
            let Some(row) = row else { return Ok(None) };
            let token = read_token(&row)?;
            let (created_at, expires_at) = (row.get("began_at")?, row.get("ends_at")?);
            let found = BrowserSession { hash: *hash, token_id: token.id.clone(), created_at, expires_at };
            Ok(Some((found, token)))
        })
        .await
    }

    /// Lets sessions that are in use end later.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn extend_sessions(&self, mut ends: Vec<([u8; 32], UnixMillis)>) -> Result<(), DatabaseError> {
        // Two nodes that write the same rows in different orders would wait for each other.
        ends.sort();
        self.within_deadline(async {
            let mut session = self.writer().await?;
            for (hash, end) in &ends {
                session.execute(EXTEND, values![*end, hash]).await?;
            }
            session.commit().await
        })
        .await
    }

    /// Ends a session. False: there was none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_session(&self, hash: &[u8; 32]) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let deleted = session.execute(DELETE, values![hash]).await?;
            session.commit().await?;
            Ok(deleted > 0)
        })
        .await
    }
}
