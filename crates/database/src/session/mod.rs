//! One connection with one transaction or a few reads. Nothing else in this crate sees which kind of database it is,
//! except where the two differ in what they can do.

mod row;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres, SqlSafeStr, Sqlite};

pub(crate) use row::{FromSql, SqlRow};
pub(crate) use value::{SqlValue, stored_number, stored_text};

use crate::DatabaseError;
use value::bind;

/// The values of a statement, for `$1`, `$2` and so on.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::session::SqlValue::from($value)),*] };
}
pub(crate) use values;

/// A connection that is taken out of its pool. It goes back after `commit`, `rollback` or `release`; if it is dropped
/// before, by an error or because a deadline has passed, it is closed, which also undoes its transaction. A connection
/// on which an answer is outstanding must not be used again.
#[derive(Debug)]
pub(crate) struct SqlSession {
    connection: PooledConnection,
    is_finished: bool,
    /// Tells SQLite to stop what it does for this session.
    stopped: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
pub(crate) enum PooledConnection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// How many steps of its virtual machine SQLite makes before it looks whether it shall stop: far less than a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Rows in one INSERT: few enough for the number of values that a statement may have.
const ROWS_PER_INSERT: usize = 100;

impl SqlSession {
    pub(crate) fn new(connection: PooledConnection) -> SqlSession {
        SqlSession { connection, is_finished: false, stopped: None }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.connection, PooledConnection::Postgres(_))
    }

    /// Begins a transaction that will write. On SQLite it takes the write lock at once: one that waits for the lock
    /// after it has read would fail.
    pub(crate) async fn begin(&mut self) -> Result<(), DatabaseError> {
        let sql = if self.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" };
        self.run_script(sql).await
    }

    pub(crate) async fn commit(mut self) -> Result<(), DatabaseError> {
        self.run_script("COMMIT").await?;
        self.is_finished = true;
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<(), DatabaseError> {
        self.run_script("ROLLBACK").await?;
        self.is_finished = true;
        Ok(())
    }

    /// Gives the connection back after reads without a transaction.
    pub(crate) fn release(mut self) {
        self.is_finished = true;
    }

    /// Makes what comes next stop on the database too, not only here, when the session is dropped before its end, on
    /// PostgreSQL after `most`. Otherwise a long query of somebody who no longer waits would keep the connection.
    pub(crate) async fn stop_when_dropped(&mut self, most: Duration) -> Result<(), DatabaseError> {
        match &mut self.connection {
            PooledConnection::Sqlite(connection) => {
                let stopped = Arc::new(AtomicBool::new(false));
                let watched = Arc::clone(&stopped);
                let mut handle = connection.lock_handle().await?;
                handle.set_progress_handler(STEPS_BETWEEN_LOOKS, move || !watched.load(Ordering::Relaxed));
                drop(handle);
                self.stopped = Some(stopped);
            }
            PooledConnection::Postgres(_) => {
                // A little later than here, where it is known what it means.
                let most = most.saturating_add(Duration::from_secs(1)).as_millis().min(i32::MAX as u128);
                let sql = format!("SET statement_timeout = {most}");
                self.run_script(AssertSqlSafe(sql)).await?;
            }
        }
        Ok(())
    }

    /// Ends what [`SqlSession::stop_when_dropped`] began.
    pub(crate) async fn stop_no_more(&mut self) -> Result<(), DatabaseError> {
        match &mut self.connection {
            PooledConnection::Sqlite(connection) => connection.lock_handle().await?.remove_progress_handler(),
            PooledConnection::Postgres(_) => self.run_script("RESET statement_timeout").await?,
        }
        Ok(())
    }

    /// Runs statements without values.
    pub(crate) async fn run_script(&mut self, sql: impl SqlSafeStr) -> Result<(), DatabaseError> {
        match &mut self.connection {
            PooledConnection::Sqlite(connection) => {
                sqlx::raw_sql(sql).execute(&mut **connection).await?;
            }
            PooledConnection::Postgres(connection) => {
                sqlx::raw_sql(sql).execute(&mut **connection).await?;
            }
        }
        Ok(())
    }

    /// Runs a statement, and returns how many rows it changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<u64, DatabaseError> {
        Ok(match &mut self.connection {
            PooledConnection::Sqlite(connection) => {
                bind::sqlite(sql, values).execute(&mut **connection).await?.rows_affected()
            }
            PooledConnection::Postgres(connection) => {
                bind::postgres(sql, values).execute(&mut **connection).await?.rows_affected()
            }
        })
    }

    /// All rows of a query, which must limit their number.
    pub(crate) async fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<Vec<SqlRow>, DatabaseError> {
        Ok(match &mut self.connection {
            PooledConnection::Sqlite(connection) => {
                let rows = bind::sqlite(sql, values).fetch_all(&mut **connection).await?;
                rows.into_iter().map(SqlRow::Sqlite).collect()
            }
            PooledConnection::Postgres(connection) => {
                let rows = bind::postgres(sql, values).fetch_all(&mut **connection).await?;
                rows.into_iter().map(SqlRow::Postgres).collect()
            }
        })
    }

    /// The first row of a query.
    pub(crate) async fn row(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<Option<SqlRow>, DatabaseError> {
        Ok(match &mut self.connection {
            PooledConnection::Sqlite(connection) => {
                bind::sqlite(sql, values).fetch_optional(&mut **connection).await?.map(SqlRow::Sqlite)
            }
            PooledConnection::Postgres(connection) => {
                bind::postgres(sql, values).fetch_optional(&mut **connection).await?.map(SqlRow::Postgres)
            }
        })
    }

    /// The one value of a query that always has a row.
    pub(crate) async fn value<T: FromSql>(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<T, DatabaseError> {
        let row = self.row(sql, values).await?;
        row.ok_or_else(|| DatabaseError::Invalid("a query that always has a row had none".into()))?.first()
    }

    /// Inserts many rows with few statements. `insert` is `INSERT INTO table (columns)`, each row has a value for each
    /// column, and `rest` comes after the rows.
    pub(crate) async fn insert_rows(
        &mut self,
        insert: &str,
        rest: &str,
        rows: Vec<Vec<SqlValue>>,
    ) -> Result<(), DatabaseError> {
        let mut rows = rows.into_iter();
        loop {
            let chunk: Vec<Vec<SqlValue>> = rows.by_ref().take(ROWS_PER_INSERT).collect();
            let Some(first) = chunk.first() else { return Ok(()) };
            let sql = format!("{insert} VALUES {} {rest}", placeholders(chunk.len(), first.len()));
            self.execute(AssertSqlSafe(sql), chunk.into_iter().flatten().collect()).await?;
        }
    }
}

/// `($1, $2), ($3, $4)` for two rows of two columns.
fn placeholders(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let names: Vec<String> = (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
        format!("({})", names.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        if !self.is_finished {
            if let Some(stopped) = &self.stopped {
                stopped.store(true, Ordering::Relaxed);
            }
            match &mut self.connection {
                PooledConnection::Sqlite(connection) => connection.close_on_drop(),
                PooledConnection::Postgres(connection) => connection.close_on_drop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, DatabaseOptions};

    /// A query without an end keeps no connection once nobody waits for it.
    #[tokio::test]
    async fn what_nobody_waits_for_stops() {
        let folder = std::env::temp_dir().join(format!("tidegate-session-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite:{}", folder.join("tidegate.db").display());
        let options = DatabaseOptions {
            connections: 1,
            deadline: Duration::from_secs(60),
            ..DatabaseOptions::default()
        };
        let database = Database::open(&url, options).await.unwrap();
        let mut session = database.reader().await.unwrap();
        session.stop_when_dropped(Duration::MAX).await.unwrap();
        let endless =
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
        let counting = session.value::<i64>(endless, vec![]);
        assert!(tokio::time::timeout(Duration::from_millis(50), counting).await.is_err());
        drop(session);
        database.ping().await.expect("the only reader is free again");
        let mut session = database.reader().await.unwrap();
        session.stop_when_dropped(Duration::MAX).await.unwrap();
        session.stop_no_more().await.unwrap();
        session.release();
        database.close().await;
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn placeholders_count_through_all_rows() {
        assert_eq!(placeholders(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
