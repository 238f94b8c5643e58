//! A database that does not answer in time, and comes back.

use std::time::Duration;

use sqlx::{Connection, PgConnection, SqliteConnection};
use tidegate_database::{Database, DatabaseError, DatabaseKind, DatabaseOptions, HistoryFilter, PageRequest};

use crate::support::{TestDatabase, entry};

on_both!(a_database_that_is_locked_is_not_available_until_it_is_free, every_operation_can_run_in_a_task);

/// A connection beside the crate that keeps everybody else from writing.
enum WriteLock {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl WriteLock {
    async fn take(test: &TestDatabase) -> WriteLock {
        match test.db.kind() {
            DatabaseKind::Sqlite => {
                let mut connection = SqliteConnection::connect(&test.url).await.unwrap();
                sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
                WriteLock::Sqlite(connection)
            }
            DatabaseKind::Postgres => {
                let mut connection = PgConnection::connect(&test.url).await.unwrap();
                let sql = "BEGIN; SELECT seq FROM audit_head FOR UPDATE";
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                WriteLock::Postgres(connection)
            }
        }
    }

    async fn release(self) {
        match self {
            WriteLock::Sqlite(connection) => connection.close().await.unwrap(),
            WriteLock::Postgres(connection) => connection.close().await.unwrap(),
        }
    }
}

async fn a_database_that_is_locked_is_not_available_until_it_is_free(test: &TestDatabase) {
    let options = DatabaseOptions { deadline: Duration::from_secs(1), ..DatabaseOptions::default() };
    let db = Database::open(&test.url, options).await.unwrap();
    let lock = WriteLock::take(test).await;
    for number in 1..=3 {
        let refused = db.append(vec![entry(number)]).await;
        assert!(matches!(refused, Err(DatabaseError::Unavailable(_))), "{refused:?}");
    }
    // Readers do not wait for writers.
    assert_eq!(db.active_number().await.unwrap(), None);
    lock.release().await;
    // The connections that were given up may take a moment to go.
    while let Err(error) = db.append(vec![entry(4)]).await {
        assert!(matches!(error, DatabaseError::Unavailable(_)), "{error}");
    }
    let rows = test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| row.entry.clone()).collect::<Vec<_>>(), [entry(4)]);
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
}

async fn every_operation_can_run_in_a_task(test: &TestDatabase) {
    let db = test.db.clone();
    let everything = async move {
        let (filter, page) = (HistoryFilter::default(), PageRequest::default());
        db.events(&filter, &page).await.unwrap();
        db.versions(&page).await.unwrap();
        db.tokens(&page).await.unwrap();
        db.changes().next().await;
        db.erase("nobody", "root", crate::support::at(0)).await.unwrap();
        db.trim(crate::support::at(0), u64::MAX, crate::support::at(0)).await.unwrap();
        db.trim_violations(crate::support::at(0), 10).await.unwrap();
        db.verify(|_, _| {}).await.unwrap().entries
    };
    assert_eq!(tokio::spawn(everything).await.unwrap(), 1);
}
