//! Opening a database: its URL, its connections, its tables.

mod migrate;
mod url;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, PgPool, SqlitePool};

use crate::database::ConnectionPools;
use crate::{Database, DatabaseError, DatabaseOptions};
use url::DatabaseUrl;

/// How long the pause before another attempt is while others open the same SQLite file.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

impl Database {
    /// Opens `sqlite:PATH` or `postgres://…`, and makes or upgrades the tables. Many processes may do so at once.
    ///
    /// # Errors
    /// When the URL is not valid, the database cannot be reached, or its tables are newer than this version.
    pub async fn open(url: &str, options: DatabaseOptions) -> Result<Database, DatabaseError> {
        let database = Database::open_later(url, options).await?;
        database.prepare().await?;
        Ok(database)
    }

    /// The same for programs that are no servers: tables of an older version are refused, since servers of that version
    /// may use them.
    ///
    /// # Errors
    /// The same, and when the tables are older than this version.
    pub async fn open_without_upgrade(
        url: &str,
        options: DatabaseOptions,
    ) -> Result<Database, DatabaseError> {
        let database = Database::open_later(url, options).await?;
        database.prepared.get_or_try_init(|| database.make_tables()).await?;
        Ok(database)
    }

    /// The same as [`Database::open`], but a PostgreSQL server that does not answer is not an error: each operation
    /// then fails until it does, and the first one that succeeds makes or upgrades the tables.
    ///
    /// # Errors
    /// When the URL is not valid, or a SQLite file cannot be opened.
    pub async fn open_later(url: &str, options: DatabaseOptions) -> Result<Database, DatabaseError> {
        let pools = match url::parse(url)? {
            DatabaseUrl::Sqlite(path) => {
                create_private_file(&path)?;
                let (writer, readers) = open_sqlite(&path, &options).await?;
                ConnectionPools::Sqlite { writer, readers, path }
            }
            DatabaseUrl::Postgres(connect) => ConnectionPools::Postgres(postgres_pool(*connect, &options)),
        };
        Ok(Database { pools, options, prepared: Arc::default() })
    }
}

/// Makes the file if there is none, so that only its owner can read it; SQLite gives its other files the same rights.
fn create_private_file(path: &Path) -> Result<(), DatabaseError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(DatabaseError::Unavailable(format!(
            "cannot create {}: {error}; the folder must exist and be writable",
            path.display()
        ))),
    }
}

async fn open_sqlite(
    path: &Path,
    options: &DatabaseOptions,
) -> Result<(SqlitePool, SqlitePool), DatabaseError> {
    let connect = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(options.deadline)
        // What is erased is overwritten in the file, not only marked as free.
        .pragma("secure_delete", "ON")
        .disable_statement_logging();
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(options.deadline)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    let readers = connect.clone().pragma("query_only", "ON");
    // The change to write-ahead logging does not wait for other processes that do the same.
    let attempts = options.deadline.as_millis() / RETRY_PAUSE.as_millis();
    for _ in 0..attempts {
        match pool(1).connect_with(connect.clone()).await.map_err(DatabaseError::from) {
            Ok(writer) => return Ok((writer, pool(options.connections.max(1)).connect_lazy_with(readers))),
            Err(DatabaseError::Unavailable(_)) => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
    let writer = pool(1).connect_with(connect).await?;
    Ok((writer, pool(options.connections.max(1)).connect_lazy_with(readers)))
}

fn postgres_pool(connect: PgConnectOptions, options: &DatabaseOptions) -> PgPool {
    // Two at least: one may wait for a lock that another one holds.
    let pool =
        PgPoolOptions::new().max_connections(options.connections.max(2)).acquire_timeout(options.deadline);
    let connect = connect.application_name("tidegate").disable_statement_logging();
    pool.connect_lazy_with(connect)
}
