//! Erasing a person's data.

use super::AuditEntry;
use crate::session::values;
use crate::{Database, DatabaseError, UnixMillis, trust};

/// Rows that one transaction erases.
const BATCH: i64 = 1_000;

const ERASE_ENTRIES: &str = "UPDATE audit_entries SET user_id = NULL, client = NULL, ip = NULL, tenant = NULL, \
     bucket_key = NULL, detail = NULL, person_salt = NULL, erased_at = $1 \
     WHERE seq IN (SELECT seq FROM audit_entries WHERE user_id = $2 ORDER BY seq LIMIT $3)";
const ERASE_VIOLATIONS: &str = "UPDATE rate_limit_violations SET user_id = NULL, client = NULL, ip_address = NULL, bucket_key = NULL, \
     trace_id = NULL \
     WHERE violation_id IN (SELECT violation_id FROM rate_limit_violations WHERE user_id = $1 LIMIT $2)";

impl Database {
    /// Erases what the audit, the violations and the trust accounts say about a user, and writes down that it was done,
    /// without the name. Returns the number of rows. The chain still verifies. A backup from before still has the data.
    ///
    /// # Errors
    /// When the database fails; then a part may be erased, and it can be repeated.
    pub async fn erase(&self, user: &str, actor: &str, now: UnixMillis) -> Result<u64, DatabaseError> {
        let mut erased = 0;
        loop {
            let rows = self.within_deadline(self.erase_batch(user, now)).await?;
            erased += rows;
            if rows == 0 {
                break;
            }
        }
        let entry = AuditEntry {
            time: now,
            event: "personal_data_erased".into(),
            severity: "info".into(),
            actor: Some(actor.into()),
            count: erased,
            first: now,
            last: now,
            ..AuditEntry::default()
        };
        self.append(vec![entry]).await?;
        Ok(erased)
    }

    async fn erase_batch(&self, user: &str, now: UnixMillis) -> Result<u64, DatabaseError> {
        let mut session = self.writer().await?;
        let entries = session.execute(ERASE_ENTRIES, values![now, user, BATCH]).await?;
        let violations = session.execute(ERASE_VIOLATIONS, values![user, BATCH]).await?;
        let accounts = trust::erase(&mut session, user).await?;
        session.commit().await?;
        Ok(entries + violations + accounts)
    }
}
