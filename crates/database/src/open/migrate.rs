//! Makes and upgrades the tables. Migrations only go forward, each in the order of its number.

use std::time::Duration;

use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError};

/// The steps from an empty database to the newest schema, by their numbers, which only grow. A step that was released is
/// never changed.
const SQLITE: &[(i64, &str)] = &[
    (1, include_str!("../../migrations/sqlite/0001_first.sql")),
    (2, include_str!("../../migrations/sqlite/0002_records.sql")),
    (3, include_str!("../../migrations/sqlite/0003_filters.sql")),
    (4, include_str!("../../migrations/sqlite/0004_live.sql")),
    (5, include_str!("../../migrations/sqlite/0005_figures.sql")),
    (6, include_str!("../../migrations/sqlite/0006_candidates.sql")),
    (7, include_str!("../../migrations/sqlite/0007_trust.sql")),
    (8, include_str!("../../migrations/sqlite/0008_uses.sql")),
    (9, include_str!("../../migrations/sqlite/0009_past_heads.sql")),
];
const POSTGRES: &[(i64, &str)] = &[
    (1, include_str!("../../migrations/postgres/0001_first.sql")),
    (2, include_str!("../../migrations/postgres/0002_records.sql")),
    (3, include_str!("../../migrations/postgres/0003_filters.sql")),
    (4, include_str!("../../migrations/postgres/0004_live.sql")),
    (5, include_str!("../../migrations/postgres/0005_figures.sql")),
    (6, include_str!("../../migrations/postgres/0006_candidates.sql")),
    (7, include_str!("../../migrations/postgres/0007_trust.sql")),
    (8, include_str!("../../migrations/postgres/0008_uses.sql")),
    (9, include_str!("../../migrations/postgres/0009_past_heads.sql")),
];

/// The lock that processes take on PostgreSQL while they migrate: the letters "tidegate" as a number.
const LOCK: i64 = i64::from_be_bytes(*b"tidegate");

/// How long a node waits for its own migration, or for that of another node that began earlier.
const DEADLINE: Duration = Duration::from_secs(600);

impl Database {
    /// Brings the tables to the newest schema. One process does it; others wait, and find it done.
    pub(crate) async fn migrate(&self) -> Result<(), DatabaseError> {
        self.migrate_if(|_found, _known| true).await
    }

    /// Makes the tables if there are none. Those of an older version may be in use by servers of that version.
    pub(super) async fn make_tables(&self) -> Result<(), DatabaseError> {
        self.migrate_if(|found, known| found == 0 || found == known).await
    }

    async fn migrate_if(&self, may_upgrade: fn(i64, i64) -> bool) -> Result<(), DatabaseError> {
        let work = async {
            let mut session = self.unprepared_writer().await?;
            match migrate(&mut session, may_upgrade).await {
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

async fn migrate(session: &mut SqlSession, may_upgrade: fn(i64, i64) -> bool) -> Result<(), DatabaseError> {
    let steps = if session.is_postgres() { POSTGRES } else { SQLITE };
    if session.is_postgres() {
        // Ends with the transaction. SQLite has the write lock already.
        session.rows("SELECT pg_advisory_xact_lock($1)", values![LOCK]).await?;
    }
    session.run_script("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY)").await?;
    let done = session.rows("SELECT version FROM schema_versions ORDER BY version", vec![]).await?;
    let done = done.iter().map(|row| row.get("version")).collect::<Result<Vec<i64>, _>>()?;
    let found = done.last().copied().unwrap_or_default();
    let known = steps.last().map(|(version, _)| *version).unwrap_or_default();
    if found > known {
        return Err(DatabaseError::SchemaTooNew { found, known });
    }
    if !may_upgrade(found, known) {
        return Err(DatabaseError::SchemaTooOld { found, known });
    }
    // By number, not by the highest one: a number that is left out now may be used later.
    for (version, step) in steps.iter().filter(|(version, _)| !done.contains(version)) {
        session.run_script(*step).await?;
        session.execute("INSERT INTO schema_versions (version) VALUES ($1)", values![*version]).await?;
    }
    Ok(())
}
