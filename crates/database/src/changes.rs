//! News of other versions of the policy.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgListener;

use crate::database::ConnectionPools;
use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError, VersionMark};

/// The channel on which PostgreSQL tells the number of a new version.
pub(crate) const CHANNEL: &str = "tidegate_policy";

/// What is told there when live entries have changed, and when what is known about users has.
pub(crate) const LIVE: &str = "live";
pub(crate) const TRUST: &str = "trust";

/// How often a SQLite file is looked at, and how long the pause is before another attempt to connect.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// After how long without news the connection is tested: one that was cut silently brings none.
const QUIET: Duration = Duration::from_secs(2);

/// What is known about the active version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChange {
    /// This version was published, or came back with a backup.
    Version(u64),
    /// Others may have been published meanwhile: look. This comes first of all, and after the database was away.
    Unknown,
    /// No version, but live entries were changed. A SQLite file does not tell this.
    Live,
    /// No version, but what is known about users was changed. A SQLite file does not tell this either.
    Trust,
}

/// A stream of changes; it never ends.
#[derive(Debug)]
pub struct PolicyChanges {
    database: Database,
    listener: Option<PgListener>,
    /// The version that was active when a SQLite file was looked at last; `None`: it could not be read.
    seen: Option<Option<VersionMark>>,
}

impl Database {
    /// Changes of the active version from now on, those made by this process too.
    pub fn changes(&self) -> PolicyChanges {
        PolicyChanges { database: self.clone(), listener: None, seen: None }
    }
}

impl PolicyChanges {
    /// Waits for the next change. While the database is away, it waits until the database is back. The future may be
    /// dropped at any time.
    pub async fn next(&mut self) -> VersionChange {
        match self.database.pools.clone() {
            ConnectionPools::Sqlite { .. } => self.next_of_file().await,
            ConnectionPools::Postgres(pool) => self.next_notice(&pool).await,
        }
    }

    async fn next_of_file(&mut self) -> VersionChange {
        loop {
            if self.seen.is_some() {
                tokio::time::sleep(POLL_PAUSE).await;
            }
            match (self.database.active_mark().await, self.seen) {
                (Ok(active), None) => {
                    self.seen = Some(active);
                    return VersionChange::Unknown;
                }
                (Ok(active), Some(seen)) => {
                    self.seen = Some(active);
                    match active {
                        Some(mark) if active != seen => return VersionChange::Version(mark.version),
                        _ => {}
                    }
                }
                (Err(_), _) => {
                    self.seen = None;
                    tokio::time::sleep(POLL_PAUSE).await;
                }
            }
        }
    }

    async fn next_notice(&mut self, pool: &PgPool) -> VersionChange {
        loop {
            let Some(listener) = &mut self.listener else {
                match self.database.within_deadline(listen(pool)).await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        return VersionChange::Unknown;
                    }
                    Err(_) => tokio::time::sleep(POLL_PAUSE).await,
                }
                continue;
            };
            match tokio::time::timeout(QUIET, listener.try_recv()).await {
                Ok(Ok(Some(notice))) => {
                    return match notice.payload() {
                        LIVE => VersionChange::Live,
                        TRUST => VersionChange::Trust,
                        version => version.parse().map_or(VersionChange::Unknown, VersionChange::Version),
                    };
                }
                Ok(Ok(None) | Err(_)) => self.listener = None,
                Err(_) => {
                    let test = async {
                        sqlx::query("SELECT 1").execute(listener).await?;
                        Ok::<_, DatabaseError>(())
                    };
                    if self.database.within_deadline(test).await.is_err() {
                        self.listener = None;
                    }
                }
            }
        }
    }
}

/// Tells the nodes that listen, when the transaction is committed.
pub(crate) async fn tell(session: &mut SqlSession, what: &str) -> Result<(), DatabaseError> {
    if session.is_postgres() {
        session.rows("SELECT pg_notify($1, $2)", values![CHANNEL, what]).await?;
    }
    Ok(())
}

async fn listen(pool: &PgPool) -> Result<PgListener, DatabaseError> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
