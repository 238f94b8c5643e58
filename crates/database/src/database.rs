//! The handle of a database.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{PgPool, SqlitePool};
use tokio::sync::OnceCell;

use crate::DatabaseError;
use crate::session::{PooledConnection, SqlSession};

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct Database {
    pub(crate) pools: ConnectionPools,
    pub(crate) options: DatabaseOptions,
    /// Set when the tables have the newest schema.
    pub(crate) prepared: Arc<OnceCell<()>>,
}

/// The connections. SQLite has one writer at a time; readers do not wait for it.
#[derive(Clone)]
pub(crate) enum ConnectionPools {
    Sqlite { writer: SqlitePool, readers: SqlitePool, path: PathBuf },
    Postgres(PgPool),
}

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// A file of this machine.
    Sqlite,
    /// A server.
    Postgres,
}

/// How to use a database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// How long one operation may take, including the wait for a connection. Opening, backups and the verification of
    /// the whole audit may take longer.
    pub deadline: Duration,
    /// How long a search for a text in records may take, which has to read them one by one.
    pub search_time: Duration,
    /// The most connections to PostgreSQL, beside one that listens for changes; the most readers on SQLite.
    pub connections: u32,
    /// Of how many versions of the policy the text is kept; at least 1,000.
    pub versions_kept: u64,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions {
            deadline: Duration::from_secs(5),
            search_time: Duration::from_secs(3),
            connections: 4,
            versions_kept: 1_000,
        }
    }
}

impl Database {
    /// Which database it is.
    pub fn kind(&self) -> DatabaseKind {
        match &self.pools {
            ConnectionPools::Sqlite { .. } => DatabaseKind::Sqlite,
            ConnectionPools::Postgres(_) => DatabaseKind::Postgres,
        }
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            session.value::<i64>("SELECT seq FROM audit_head", vec![]).await?;
            session.release();
            Ok(())
        })
        .await
    }

    /// Closes all connections, when what runs on them has ended.
    pub async fn close(&self) {
        match &self.pools {
            ConnectionPools::Sqlite { writer, readers, .. } => {
                readers.close().await;
                writer.close().await;
            }
            ConnectionPools::Postgres(pool) => pool.close().await,
        }
    }

    /// Brings the tables to the newest schema, unless that is done.
    pub(crate) async fn prepare(&self) -> Result<(), DatabaseError> {
        self.prepared.get_or_try_init(|| self.migrate()).await.copied()
    }

    /// A connection for reads.
    pub(crate) async fn reader(&self) -> Result<SqlSession, DatabaseError> {
        self.prepare().await?;
        Ok(SqlSession::new(match &self.pools {
            ConnectionPools::Sqlite { readers, .. } => PooledConnection::Sqlite(readers.acquire().await?),
            ConnectionPools::Postgres(pool) => PooledConnection::Postgres(pool.acquire().await?),
        }))
    }

    /// A connection in a transaction that may write.
    pub(crate) async fn writer(&self) -> Result<SqlSession, DatabaseError> {
        self.prepare().await?;
        self.unprepared_writer().await
    }

    /// The same, whatever schema the tables have.
    pub(crate) async fn unprepared_writer(&self) -> Result<SqlSession, DatabaseError> {
        let mut session = SqlSession::new(match &self.pools {
            ConnectionPools::Sqlite { writer, .. } => PooledConnection::Sqlite(writer.acquire().await?),
            ConnectionPools::Postgres(pool) => PooledConnection::Postgres(pool.acquire().await?),
        });
        session.begin().await?;
        Ok(session)
    }

    /// What `work` returns, or an error when it takes too long.
    pub(crate) async fn within_deadline<T, E: From<DatabaseError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match tokio::time::timeout(self.options.deadline, work).await {
            Ok(result) => result,
            Err(_) => {
                let waited = self.options.deadline;
                Err(DatabaseError::Unavailable(format!("no answer within {waited:?}")).into())
            }
        }
    }
}

/// Without the URL, which has a password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("kind", &self.kind()).field("options", &self.options).finish()
    }
}
