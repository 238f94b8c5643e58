//! Databases for tests, and what tests write to them.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use tidegate_database::{
    AuditEntry, Database, DatabaseKind, DatabaseOptions, NewVersion, PersonalData, RecordBatch, RuleRow,
    UnixMillis, Violation,
};

/// Makes a test on SQLite and one on PostgreSQL of each function, which gets a new [`TestDatabase`].
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&crate::support::TestDatabase::sqlite().await).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&crate::support::TestDatabase::postgres().await).await;
                }
            )*
        }
    };
}

/// A database that only one test uses.
pub(crate) struct TestDatabase {
    pub(crate) db: Database,
    pub(crate) url: String,
    _folder: Option<TestFolder>,
}

impl TestDatabase {
    pub(crate) async fn sqlite() -> TestDatabase {
        let folder = TestFolder::new();
        let url = format!("sqlite:{}", folder.join("tidegate.db").display());
        TestDatabase { db: open(&url).await, url, _folder: Some(folder) }
    }

    pub(crate) async fn postgres() -> TestDatabase {
        let url = crate::postgres_server::new_database().await;
        TestDatabase { db: open(&url).await, url, _folder: None }
    }

    /// Runs a statement beside the crate, as somebody with access to the database could. Returns the changed rows.
    pub(crate) async fn raw(&self, sql: &str) -> u64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self.db.kind() {
            DatabaseKind::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.url).await.expect("the file is there");
                sqlx::raw_sql(sql).execute(&mut connection).await.expect("valid SQL").rows_affected()
            }
            DatabaseKind::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.expect("the server runs");
                sqlx::raw_sql(sql).execute(&mut connection).await.expect("valid SQL").rows_affected()
            }
        }
    }

    /// Writes denials, as a node does.
    pub(crate) async fn record_violations(&self, violations: Vec<Violation>) {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).into();
        let batch =
            RecordBatch { writer: [9; 16], number, time: at(0), violations, ..RecordBatch::default() };
        assert!(self.db.record(batch).await.expect("it can be written"), "it is a new batch");
    }

    /// The first column of a query, as text.
    pub(crate) async fn raw_texts(&self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self.db.kind() {
            DatabaseKind::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.url).await.expect("the file is there");
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("valid SQL");
                rows.iter().map(|row| row.get(0)).collect()
            }
            DatabaseKind::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.expect("the server runs");
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("valid SQL");
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }
}

impl TestDatabase {
    /// How SQLite answers a query.
    pub(crate) async fn query_plan(&self, explain: &str) -> String {
        let mut connection = SqliteConnection::connect(&self.url).await.expect("the file is there");
        let rows = sqlx::query(AssertSqlSafe(explain.to_owned())).fetch_all(&mut connection).await;
        let rows = rows.expect("valid SQL");
        rows.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("; ")
    }
}

/// A new folder, which is removed with this value.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tidegate-database-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        TestFolder(folder)
    }
}

impl Deref for TestFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn open(url: &str) -> Database {
    Database::open(url, options()).await.expect("a database that can be opened")
}

/// The deadline is long: the machine may be busy with other tests.
pub(crate) fn options() -> DatabaseOptions {
    DatabaseOptions { deadline: std::time::Duration::from_secs(60), ..DatabaseOptions::default() }
}

pub(crate) fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(1_700_000_000_000 + millis)
}

/// The same time in microseconds, and so many more: the least sequence of a change then.
pub(crate) fn sequence(millis: u64, more: u64) -> u64 {
    (1_700_000_000_000 + millis) * 1_000 + more
}

/// An entry with every field, different for each `number`.
pub(crate) fn entry(number: u64) -> AuditEntry {
    let text = |name: &str| Some(format!("{name}-{number}"));
    AuditEntry {
        time: at(number.cast_signed()),
        event: "rate_limit_config_updated".into(),
        severity: "info".into(),
        node: text("node"),
        policy_version: Some(number),
        actor: text("actor"),
        count: number + 1,
        first: at(number.cast_signed() - 5),
        last: at(number.cast_signed() - 1),
        limit_name: text("limit"),
        kind: text("kind"),
        endpoint: text("/endpoint"),
        remaining: Some(number + 2),
        retry_after_ms: Some(number + 3),
        trace_id: text("trace"),
        reason: text("reason"),
        personal: PersonalData {
            user_id: text("user"),
            client: text("client"),
            ip: Some(format!("2001:db8::{number}")),
            tenant: text("tenant"),
            bucket_key: text("key"),
            detail: Some(format!("{{\"number\":{number}}}")),
        },
    }
}

/// A violation with every field, different for each `number`.
pub(crate) fn violation(number: u64) -> Violation {
    let text = |name: &str| Some(format!("{name}-{number}"));
    Violation {
        event: "rate_limit_exceeded".into(),
        bucket_key: text("key"),
        user_id: text("user"),
        ip: Some(format!("2001:db8::{number}").parse().expect("an address")),
        endpoint: text("/endpoint"),
        requested_at: at(number.cast_signed()),
        tokens_at_time: Some(0.5),
        limit_name: text("limit"),
        tenant: text("tenant"),
        client: text("client"),
        kind: text("kind"),
        reason: text("reason"),
        count: number + 1,
        first: at(number.cast_signed() - 5),
        last: at(number.cast_signed()),
        retry_after_ms: Some(number + 3),
        node: text("node"),
        policy_version: Some(number),
        trace_id: text("trace"),
    }
}

pub(crate) fn rule(name: &str, plan: Option<&str>, rate: f64) -> RuleRow {
    RuleRow {
        key_pattern: format!("user:{{{name}}}"),
        scope: "user".into(),
        rate_per_second: rate,
        burst_capacity: 50,
        plan: plan.map(Into::into),
        description: None,
        limit_name: name.into(),
    }
}

/// A version whose text and one rule come from a number.
pub(crate) fn version(number: u64) -> NewVersion {
    NewVersion {
        text: format!("version: 1 # the text {number}\n"),
        author: "ada".into(),
        reason: Some("a test".into()),
        warnings: "[]".into(),
        time: at(number.cast_signed()),
        rules: vec![rule("only", None, number as f64)],
        entry: entry(number),
        ..NewVersion::default()
    }
}
