//! Access tokens of the admin API. Only their hashes are stored.

use crate::answers::{self, NewAnswer};
use crate::audit::{self, AuditEntry};
use crate::history::page::{PageRequest, Paged};
use crate::session::{SqlRow, SqlSession, values};
use crate::{Database, DatabaseError, UnixMillis};

/// A token. A new one was neither revoked nor used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredToken {
    /// Its name, which is no secret.
    pub id: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// What it may do.
    pub role: String,
    /// The tenant within whose subtree it may do so; `None`: everywhere.
    pub tenant: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// When it was created.
    pub created_at: UnixMillis,
    /// By whom.
    pub created_by: String,
    /// When it ends.
    pub expires_at: Option<UnixMillis>,
    /// When it was revoked.
    pub revoked_at: Option<UnixMillis>,
    /// When it was last used, as far as it was written down.
    pub last_used_at: Option<UnixMillis>,
}

const INSERT: &str = "INSERT INTO tokens (id, sha256, role, tenant, description, created_at, created_by, expires_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const BY_HASH: &str = "SELECT * FROM tokens WHERE sha256 = $1";
const BY_ID: &str = "SELECT * FROM tokens WHERE id = $1";
const PAGE: &str =
    "SELECT * FROM tokens WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3";
const FIRST_PAGE: &str = "SELECT * FROM tokens ORDER BY created_at DESC, id DESC LIMIT $1";
const COUNT: &str = "SELECT count(*) FROM tokens";
/// The tokens that ended first.
const REMOVE_ENDED: &str = "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens \
     WHERE revoked_at IS NOT NULL OR expires_at <= $1 ORDER BY coalesce(revoked_at, expires_at), id LIMIT $2)";
const REVOKE: &str = "UPDATE tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL";
const OF_TENANTS: &str = "SELECT * FROM tokens WHERE tenant IS NOT NULL AND revoked_at IS NULL";
const TRACES_OF_TENANT: &str = "SELECT CASE WHEN \
     EXISTS (SELECT 1 FROM tokens WHERE tenant = $1 AND revoked_at IS NULL) \
     OR EXISTS (SELECT 1 FROM rate_limit_violations WHERE tenant = $1) \
     OR EXISTS (SELECT 1 FROM audit_entries WHERE tenant = $1) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END";
const END_SESSIONS: &str = "DELETE FROM sessions WHERE token_id = $1";
const TOUCH: &str =
    "UPDATE tokens SET last_used_at = $1 WHERE id = $2 AND (last_used_at IS NULL OR last_used_at < $1)";
const ADMINS: &str = "SELECT count(*) FROM tokens WHERE role = 'admin' AND tenant IS NULL AND revoked_at IS NULL \
                      AND (expires_at IS NULL OR expires_at > $1)";

/// What became of the wish to revoke a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRevocation {
    /// It is revoked now, and its sessions have ended.
    Revoked,
    /// There is no such token, or it was revoked before. Nothing was written.
    Unknown,
    /// It is the last one that can administer everything. Nothing was written.
    LastAdmin,
}

/// The most tokens that are kept. When one more is created, the one that ended first is forgotten; if none has ended,
/// there is no room.
pub const TOKENS_MAX: u64 = 10_000;

/// How many tokens are read at once while those that are wanted are looked for.
const SCANNED: u32 = 1_000;

impl Database {
    /// Creates a token, with the audit entry about it.
    ///
    /// # Errors
    /// When there are [`TOKENS_MAX`] tokens that have not ended, or the database fails.
    pub async fn create_token(&self, token: StoredToken, entry: AuditEntry) -> Result<(), DatabaseError> {
        self.insert_token(token, entry, None, false).await.map(drop)
    }

    /// The same for a request with an idempotency key: the answer is remembered, without the token. False: the key was
    /// used before, and nothing was written.
    ///
    /// # Errors
    /// The same.
    pub async fn create_token_once(
        &self,
        token: StoredToken,
        entry: AuditEntry,
        answer: NewAnswer,
    ) -> Result<bool, DatabaseError> {
        self.insert_token(token, entry, Some(answer), false).await
    }

    /// Creates a token if there has never been one. Of many nodes that start at once, one does. False: there is one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_first_token(
        &self,
        token: StoredToken,
        entry: AuditEntry,
    ) -> Result<bool, DatabaseError> {
        self.insert_token(token, entry, None, true).await
    }

    async fn insert_token(
        &self,
        token: StoredToken,
        entry: AuditEntry,
        answer: Option<NewAnswer>,
        only_first: bool,
    ) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let head = audit::lock_head(&mut session).await?;
            let is_used = match answer {
                Some(answer) => !answers::store(&mut session, answer, 0, token.created_at).await?,
                None => only_first && session.value::<u64>(COUNT, vec![]).await? > 0,
            };
            if is_used {
                session.rollback().await?;
                return Ok(false);
            }
            if !has_room(&mut session, token.created_at).await? {
                session.rollback().await?;
                return Err(DatabaseError::Full(format!(
                    "there are {TOKENS_MAX} tokens, and none has ended: revoke some that are not used any more"
                )));
            }
            let values = values![
                &token.id,
                &token.sha256,
                &token.role,
                &token.tenant,
                &token.description,
                token.created_at,
                &token.created_by,
                token.expires_at,
            ];
            session.execute(INSERT, values).await?;
            audit::append_after(&mut session, head, vec![entry]).await?;
            session.commit().await?;
            Ok(true)
        })
        .await
    }

    /// The token with a hash, also if it has ended or was revoked.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn token_by_hash(&self, sha256: &[u8; 32]) -> Result<Option<StoredToken>, DatabaseError> {
        self.one_token(BY_HASH, sha256.into()).await
    }

    /// The token with a name, also if it has ended or was revoked.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn token(&self, id: &str) -> Result<Option<StoredToken>, DatabaseError> {
        self.one_token(BY_ID, id.into()).await
    }

    async fn one_token(
        &self,
        sql: &'static str,
        value: crate::session::SqlValue,
    ) -> Result<Option<StoredToken>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let row = session.row(sql, vec![value]).await?;
            session.release();
            row.as_ref().map(read_token).transpose()
        })
        .await
    }

    /// The tokens, newest first, with those that have ended or were revoked.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn tokens(&self, page: &PageRequest) -> Result<Paged<StoredToken>, DatabaseError> {
        let limit = page.rows();
        let (sql, values) = match page.cursor.as_deref() {
            None => (FIRST_PAGE, values![limit + 1]),
            Some(cursor) => {
                let (time, id) = cursor.split_once('.').ok_or(DatabaseError::Cursor)?;
                let time = UnixMillis::new(time.parse().map_err(|_| DatabaseError::Cursor)?);
                (PAGE, values![time, id, limit + 1])
            }
        };
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(sql, values).await?;
            session.release();
            let tokens = rows.iter().map(read_token).collect::<Result<Vec<_>, _>>()?;
            Ok(Paged::cut(tokens, limit, list_cursor))
        })
        .await
    }

    /// The tokens that are wanted, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn tokens_that(
        &self,
        page: &PageRequest,
        is_wanted: impl Fn(&StoredToken) -> bool,
    ) -> Result<Paged<StoredToken>, DatabaseError> {
        let limit = page.rows();
        let (mut wanted, mut cursor) = (Vec::new(), page.cursor.clone());
        loop {
            let read = self.tokens(&PageRequest { limit: SCANNED, cursor }).await?;
            wanted.extend(read.items.into_iter().filter(&is_wanted));
            cursor = read.next;
            if cursor.is_none() || i64::try_from(wanted.len()).is_ok_and(|found| found > limit) {
                return Ok(Paged::cut(wanted, limit, list_cursor));
            }
        }
    }

    /// Revokes a token and ends its sessions, with the audit entry about it. The last token that can administer
    /// everything stays, also if several are revoked at once.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn revoke_token(
        &self,
        id: &str,
        now: UnixMillis,
        entry: AuditEntry,
    ) -> Result<TokenRevocation, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            // Also keeps others from revoking at the same time.
            let head = audit::lock_head(&mut session).await?;
            let admins: i64 = session.value(ADMINS, values![now]).await?;
            if session.execute(REVOKE, values![now, id]).await? == 0 {
                session.rollback().await?;
                return Ok(TokenRevocation::Unknown);
            }
            if admins > 0 && session.value::<i64>(ADMINS, values![now]).await? == 0 {
                session.rollback().await?;
                return Ok(TokenRevocation::LastAdmin);
            }
            session.execute(END_SESSIONS, values![id]).await?;
            audit::append_after(&mut session, head, vec![entry]).await?;
            session.commit().await?;
            Ok(TokenRevocation::Revoked)
        })
        .await
    }

    /// Is there a token of a tenant that was not revoked, or a record about it?
    ///
    /// # Errors
    /// When the database fails.
    pub async fn knows_tenant(&self, tenant: &str) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let count: i64 = session.value(TRACES_OF_TENANT, values![tenant]).await?;
            session.release();
            Ok(count > 0)
        })
        .await
    }

    /// Writes down when tokens were last used.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn touch_tokens(&self, mut uses: Vec<(String, UnixMillis)>) -> Result<(), DatabaseError> {
        // Two nodes that write the same rows in different orders would wait for each other.
        uses.sort();
        self.within_deadline(async {
            let mut session = self.writer().await?;
            for (id, time) in &uses {
                session.execute(TOUCH, values![*time, id]).await?;
            }
            session.commit().await
        })
        .await
    }
}

/// Is there room for one more? Forgets tokens that have ended if there are too many.
async fn has_room(session: &mut SqlSession, now: UnixMillis) -> Result<bool, DatabaseError> {
    let count: u64 = session.value(COUNT, vec![]).await?;
    let too_many = (count + 1).saturating_sub(TOKENS_MAX);
    Ok(too_many == 0 || session.execute(REMOVE_ENDED, values![now, too_many]).await? == too_many)
}

/// Revokes the tokens of some tenants and ends their sessions, in the transaction of `session`. Returns the audit entries
/// about it.
pub(crate) async fn revoke_of_tenants(
    session: &mut SqlSession,
    tenants: &[String],
    actor: &str,
    now: UnixMillis,
) -> Result<Vec<AuditEntry>, DatabaseError> {
    let mut entries = Vec::new();
    if tenants.is_empty() {
        return Ok(entries);
    }
    for row in session.rows(OF_TENANTS, vec![]).await? {
        let token = read_token(&row)?;
        if !token.tenant.as_ref().is_some_and(|tenant| tenants.contains(tenant)) {
            continue;
        }
        session.execute(REVOKE, values![now, &token.id]).await?;
        session.execute(END_SESSIONS, values![&token.id]).await?;
        let mut entry = AuditEntry {
            time: now,
            event: "token_revoked".into(),
            severity: "info".into(),
            actor: Some(actor.into()),
            count: 1,
            first: now,
            last: now,
            kind: Some(token.role),
            reason: Some("its tenant was removed from the policy".into()),
            ..AuditEntry::default()
        };
        entry.personal.tenant = token.tenant;
        entry.personal.detail = Some(serde_json::json!({ "token": token.id }).to_string());
        entries.push(entry);
    }
    Ok(entries)
}

/// The cursor after a token.
fn list_cursor(token: &StoredToken) -> String {
    format!("{}.{}", token.created_at.get(), token.id)
}

pub(crate) fn read_token(row: &SqlRow) -> Result<StoredToken, DatabaseError> {
    Ok(StoredToken {
        id: row.get("id")?,
        sha256: row.get("sha256")?,
        role: row.get("role")?,
        tenant: row.get("tenant")?,
        description: row.get("description")?,
        created_at: row.get("created_at")?,
        created_by: row.get("created_by")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}
