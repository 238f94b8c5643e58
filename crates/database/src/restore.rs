//! Restoring a backup into a SQLite database that may be in use.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};

use crate::audit::{self, AuditEntry};
use crate::backup::{in_background, partial_path, with_ending, write_copy};
use crate::database::ConnectionPools;
use crate::session::values;
use crate::{Database, DatabaseError, DatabaseOptions, UnixMillis};

/// Every table that is replaced, referenced ones before those that refer to them.
const TABLES: [&str; 15] = [
    "policy_versions",
    "rate_limit_rules",
    "rate_limit_violations",
    "audit_entries",
    "audit_head",
    "tokens",
    SESSIONS,
    "nodes",
    "idempotent_answers",
    "live_entries",
    "live_head",
    "trust_accounts",
    "trust_head",
    "past_heads",
    "candidates",
];
/// Sessions of the backup are not brought back: whoever ended one meant it.
const SESSIONS: &str = "sessions";

/// A token that was revoked after the backup stays revoked.
const KEEP_REVOKED: &str = "UPDATE backup.tokens AS old \
     SET revoked_at = (SELECT new.revoked_at FROM main.tokens AS new WHERE new.id = old.id) \
     WHERE old.revoked_at IS NULL \
     AND old.id IN (SELECT new.id FROM main.tokens AS new WHERE new.revoked_at IS NOT NULL)";

/// After a restore, nodes must read everything anew that they follow by sequences: those of the backup say nothing about
/// those that they have seen.
const FOLLOWED: [&str; 2] = ["live_head", "trust_head"];

impl Database {
    /// Replaces everything in this database by what a backup has, in one transaction: other processes that use the
    /// database see all of it or nothing, and nodes follow to the version of the backup. Tokens that were revoked since
    /// stay revoked, all sessions end, and the audit gets an entry about it. The backup itself is only read: a copy of
    /// it beside the database is brought to the schema of this version.
    ///
    /// # Errors
    /// On PostgreSQL, or when the backup cannot be read, is none, was made by a newer version, or has an audit that does
    /// not verify. Nothing is changed then.
    pub async fn restore_from(
        &self,
        backup: &Path,
        actor: &str,
        now: UnixMillis,
    ) -> Result<(), DatabaseError> {
        let ConnectionPools::Sqlite { path, .. } = &self.pools else {
            return Err(DatabaseError::Unsupported(
                "a PostgreSQL database is not restored by tidegate: use pg_restore or psql",
            ));
        };
        let copy = partial_path(path, "restoring");
        let restored = self.restore_by(backup, &copy, actor, now).await;
        let files = ["", "-wal", "-shm"].map(|ending| with_ending(&copy, ending));
        let _ = in_background(move || files.iter().try_for_each(std::fs::remove_file)).await;
        restored
    }

    async fn restore_by(
        &self,
        backup: &Path,
        copy: &Path,
        actor: &str,
        now: UnixMillis,
    ) -> Result<(), DatabaseError> {
        let unusable = |why: String| DatabaseError::Invalid(format!("{}: {why}", backup.display()));
        copy_backup(backup, copy).await.map_err(unusable)?;
        let name = copy.to_str().ok_or_else(|| unusable("the path is not UTF-8".to_owned()))?;
        let opened = Database::open(&format!("sqlite:{name}"), DatabaseOptions::default()).await?;
        let report = opened.verify(|_, _| {}).await;
        opened.close().await;
        if let Some(broken) = report?.broken {
            return Err(unusable(format!("its audit does not verify: entry {} {}", broken.seq, broken.why)));
        }
        let file = backup.file_name().map(|name| name.to_string_lossy().into_owned());
        let entry = AuditEntry {
            time: now,
            event: "database_restored".into(),
            severity: "warning".into(),
            actor: Some(actor.into()),
            count: 1,
            first: now,
            last: now,
            kind: file,
            ..AuditEntry::default()
        };
        self.replace_tables(name, entry).await
    }

    async fn replace_tables(&self, copy: &str, entry: AuditEntry) -> Result<(), DatabaseError> {
        // A file cannot be attached within a transaction.
        let mut session = self.writer().await?;
        session.run_script("ROLLBACK").await?;
        session.rows("ATTACH DATABASE $1 AS backup", values![copy]).await?;
        session.begin().await?;
        for head in FOLLOWED {
            let kept = format!("CREATE TEMP TABLE {head}_before AS SELECT epoch FROM main.{head}");
            session.run_script(AssertSqlSafe(kept)).await?;
        }
        session.run_script(KEEP_REVOKED).await?;
        for table in TABLES.iter().rev() {
            session.run_script(AssertSqlSafe(format!("DELETE FROM main.{table}"))).await?;
        }
        for table in TABLES.into_iter().filter(|table| *table != SESSIONS) {
            let copy = format!("INSERT INTO main.{table} SELECT * FROM backup.{table}");
            session.run_script(AssertSqlSafe(copy)).await?;
        }
        for head in FOLLOWED {
            let next = format!("1 + max(epoch, (SELECT epoch FROM temp.{head}_before))");
            session.run_script(AssertSqlSafe(format!("UPDATE main.{head} SET epoch = {next}"))).await?;
        }
        audit::append(&mut session, vec![entry]).await?;
        session.run_script("COMMIT").await?;
        // The connection is dropped, not given back: it would keep the file attached.
        drop(session);
        Ok(())
    }
}

/// Copies a backup if it is one: an empty file, or one of another program, would also make a database, an empty one.
async fn copy_backup(backup: &Path, copy: &Path) -> Result<(), String> {
    if !backup.is_file() {
        return Err("there is no such file".to_owned());
    }
    let connect = SqliteConnectOptions::new().filename(backup).read_only(true);
    // A file that nobody writes is read without any other file, so that it may be in a folder that is read-only.
    let connect = connect.immutable(!with_ending(backup, "-wal").exists()).disable_statement_logging();
    let mut connection = connect.clone().connect().await.map_err(|error| error.to_string())?;
    check_backup(&mut connection).await?;
    connection.close().await.map_err(|error| error.to_string())?;
    write_copy(connect, copy).await.map_err(|error| error.to_string())
}

async fn check_backup(connection: &mut SqliteConnection) -> Result<(), String> {
    let mut count =
        async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut *connection).await;
    let schema = count("SELECT coalesce(max(version), 0) FROM schema_versions").await;
    let is_ours = schema.map_err(|error| format!("it is no backup of tidegate: {error}"))? > 0;
    let versions = count("SELECT count(*) FROM policy_versions").await;
    match versions {
        Ok(versions) if is_ours && versions > 0 => Ok(()),
        Ok(_) => Err("it has no version of a policy, so there is nothing to restore".to_owned()),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}
