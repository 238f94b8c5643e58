//! One PostgreSQL server for all tests, and an empty database on it for each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::postgres::Postgres;

/// The URL of a new, empty database.
pub(crate) async fn new_database() -> String {
    static SERVER: OnceLock<Mutex<Postgres>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(|| Mutex::new(Postgres::start()));
    let url = |name: &str| server.lock().expect("no test panics while it has it").url(name);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut connection = PgConnection::connect(&url("postgres")).await.expect("the server runs");
    let sql = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(sql).execute(&mut connection).await.expect("a new name");
    url(&name)
}
