//! Restoring a backup into a SQLite database that may be in use.

use std::path::Path;

use sqlx::AssertSqlSafe;

use crate::database::ConnectionPools;
use crate::session::values;
use crate::{Database, DatabaseError, DatabaseOptions};

/// Every table, referenced ones before those that refer to them.
const TABLES: [&str; 11] = [
    "policy_versions",
    "rate_limit_rules",
    "rate_limit_violations",
    "audit_entries",
    "audit_head",
    "tokens",
    "sessions",
    "nodes",
    "idempotent_answers",
    "live_entries",
    "live_head",
];

/// After a restore, nodes must read all live entries anew: the sequences of the backup say nothing about those that they
/// have seen.
const NEW_EPOCH: &str =
    "UPDATE main.live_head SET epoch = 1 + max(epoch, (SELECT epoch FROM temp.live_head_before))";

impl Database {
    /// Replaces everything in this database by what a backup has, in one transaction: other processes that use the
    /// database see all of it or nothing, and nodes follow to the version of the backup. The backup is brought to the
    /// schema of this version first, in the file itself.
    ///
    /// # Errors
    /// On PostgreSQL, or when the backup cannot be read, was made by a newer version, or has an audit that does not
    /// verify. Nothing is changed then.
    pub async fn restore_from(&self, backup: &Path) -> Result<(), DatabaseError> {
        let ConnectionPools::Sqlite { .. } = &self.pools else {
            return Err(DatabaseError::Unsupported(
                "a PostgreSQL database is not restored by tidegate: use pg_restore or psql",
            ));
        };
        let unreadable = |why: String| DatabaseError::Invalid(format!("{}: {why}", backup.display()));
        if !backup.is_file() {
            return Err(unreadable("there is no such file".to_owned()));
        }
        let name = backup.to_str().ok_or_else(|| unreadable("the path is not UTF-8".to_owned()))?;
        let opened = Database::open(&format!("sqlite:{name}"), DatabaseOptions::default()).await?;
        let report = opened.verify(|_, _| {}).await;
        opened.close().await;
        if let Some(broken) = report?.broken {
            return Err(unreadable(format!(
                "its audit does not verify: entry {} {}",
                broken.seq, broken.why
            )));
        }
        self.copy_tables(name).await
    }

    async fn copy_tables(&self, backup: &str) -> Result<(), DatabaseError> {
        // A file cannot be attached within a transaction.
        let mut session = self.writer().await?;
        session.run_script("ROLLBACK").await?;
        session.rows("ATTACH DATABASE $1 AS backup", values![backup]).await?;
        session.begin().await?;
        session.run_script("CREATE TEMP TABLE live_head_before AS SELECT epoch FROM main.live_head").await?;
        for table in TABLES.iter().rev() {
            session.run_script(AssertSqlSafe(format!("DELETE FROM main.{table}"))).await?;
        }
        for table in TABLES {
            let copy = format!("INSERT INTO main.{table} SELECT * FROM backup.{table}");
            session.run_script(AssertSqlSafe(copy)).await?;
        }
        session.run_script(NEW_EPOCH).await?;
        session.run_script("COMMIT").await?;
        // The connection is dropped, not given back: it would keep the file attached.
        drop(session);
        Ok(())
    }
}
