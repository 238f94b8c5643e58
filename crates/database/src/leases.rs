//! Leases: work that one node at a time does.

use crate::session::values;
use crate::{Database, DatabaseError, UnixMillis};

const TAKE: &str = "INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE \
     SET holder = excluded.holder, expires_at = excluded.expires_at \
     WHERE leases.holder = excluded.holder OR leases.expires_at <= $4";

impl Database {
    /// Takes a lease, or keeps it for longer. Returns whether `holder` has it until `expires`; if not, somebody else has.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now: UnixMillis,
        expires: UnixMillis,
    ) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let taken = session.execute(TAKE, values![name, holder, expires, now]).await?;
            session.commit().await?;
            Ok(taken == 1)
        })
        .await
    }
}
