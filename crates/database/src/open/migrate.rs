//! Makes and upgrades the tables. Migrations only go forward, each in the order of its number.

use std::time::Duration;

use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError};

/// The steps from an empty database to the newest schema; the first makes schema 1. A step that was released is never
/// changed.
const SQLITE: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_records.sql"),
    include_str!("../../migrations/sqlite/0003_filters.sql"),
    include_str!("../../migrations/sqlite/0004_figures.sql"),
];
const POSTGRES: &[&str] = &[
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_records.sql"),
    include_str!("../../migrations/postgres/0003_filters.sql"),
    include_str!("../../migrations/postgres/0004_figures.sql"),
];

/// The lock that processes take on PostgreSQL while they migrate: the letters "tidegate" as a number.
const LOCK: i64 = i64::from_be_bytes(*b"tidegate");

/// How long a node waits for its own migration, or for that of another node that began earlier.
const DEADLINE: Duration = Duration::from_secs(600);

impl Database {
    /// Brings the tables to the newest schema. One process does it; others wait, and find it done.
    pub(crate) async fn migrate(&self) -> Result<(), DatabaseError> {
        let work = async {
            let mut session = self.unprepared_writer().await?;
            match migrate(&mut session).await {
                Ok(()) => session.commit().await,
                Err(error) => {
                    session.rollback().await?;
                    Err(error)
                }
            }
        };
        tokio::time::timeout(DEADLINE, work).await.map_err(|_| {
            DatabaseError::Unavailable(format!("the tables were not upgraded within {DEADLINE:?}"))
        })?
    }
}

async fn migrate(session: &mut SqlSession) -> Result<(), DatabaseError> {
    let steps = if session.is_postgres() { POSTGRES } else { SQLITE };
    if session.is_postgres() {
        // Ends with the transaction. SQLite has the write lock already.
        session.rows("SELECT pg_advisory_xact_lock($1)", values![LOCK]).await?;
    }
    session.run_script("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY)").await?;
    let found: i64 = session.value("SELECT coalesce(max(version), 0) FROM schema_versions", vec![]).await?;
    let known = i64::try_from(steps.len()).expect("there are few migrations");
    if found > known {
        return Err(DatabaseError::SchemaTooNew { found, known });
    }
    for (version, step) in (1..).zip(steps).filter(|(version, _)| *version > found) {
        session.run_script(*step).await?;
        session.execute("INSERT INTO schema_versions (version) VALUES ($1)", values![version]).await?;
    }
    Ok(())
}
