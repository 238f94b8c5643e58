//! Where the server of a test has its data: in SQLite in a folder, or in PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use tidegate_database::DatabaseKind;

use super::on_runtime;
use crate::support::home::Home;
use crate::support::postgres::Postgres;
use crate::support::server::{ANYWHERE, Ran, Server, run, tidegate};

/// Makes a test on SQLite and one on PostgreSQL of each function, which gets the kind of the database.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[test]
                fn $name() {
                    super::$name(tidegate_database::DatabaseKind::Sqlite);
                }
            )*
        }
        mod postgres {
            $(
                #[test]
                fn $name() {
                    super::$name(tidegate_database::DatabaseKind::Postgres);
                }
            )*
        }
    };
}
pub(super) use on_both;

/// An empty database for one test, and a folder for its files.
pub(crate) struct Place {
    pub(crate) home: Home,
    pub(crate) url: String,
    pub(crate) kind: DatabaseKind,
}

impl Place {
    pub(crate) fn new(kind: DatabaseKind) -> Place {
        let home = Home::new();
        std::fs::create_dir(home.path("data")).expect("a new folder");
        let url = match kind {
            DatabaseKind::Sqlite => format!("sqlite:{}", home.path("data/tidegate.db").display()),
            DatabaseKind::Postgres => new_postgres_database(),
        };
        home.write("database.yaml", &database_settings(&url));
        Place { home, url, kind }
    }

    /// The flags that name the database.
    fn flags(&self) -> [String; 2] {
        match self.kind {
            DatabaseKind::Sqlite => ["--data".to_owned(), self.home.arg("data")],
            DatabaseKind::Postgres => ["--config".to_owned(), self.home.arg("database.yaml")],
        }
    }

    /// Starts a server on the database, with more settings than that.
    pub(crate) fn start_with_settings(&self, settings: &str) -> Server {
        let settings = database_settings(&self.url) + settings;
        Server::start(&["--config", &self.home.write("settings.yaml", &settings)])
    }

    /// Starts a server on the database, with more flags.
    pub(crate) fn start(&self, more: &[&str]) -> Server {
        Server::start_with(self.command(&[&["serve"], &ANYWHERE[..], more].concat()))
    }

    /// Runs a command on the database.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args))
    }

    /// A command with the flags that name the database.
    pub(crate) fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = tidegate(args);
        command.args(self.flags());
        command
    }

    /// Runs statements as somebody with access to the database could.
    pub(crate) fn tamper(&self, sql: &'static str) {
        self.execute(sql).expect("valid SQL");
    }

    /// Can the database be written to, or does somebody hold its lock?
    pub(crate) fn is_writable(&self) -> bool {
        let write = match self.kind {
            DatabaseKind::Sqlite => "PRAGMA busy_timeout = 2000; BEGIN IMMEDIATE; ROLLBACK",
            DatabaseKind::Postgres => "SET lock_timeout = '2s'; UPDATE audit_head SET seq = seq",
        };
        self.execute(write).is_ok()
    }

    fn execute(&self, sql: &'static str) -> Result<(), sqlx::Error> {
        on_runtime(async {
            match self.kind {
                DatabaseKind::Sqlite => {
                    let mut connection = SqliteConnection::connect(&self.url).await?;
                    sqlx::raw_sql(sql).execute(&mut connection).await?;
                    connection.close().await
                }
                DatabaseKind::Postgres => {
                    let mut connection = PgConnection::connect(&self.url).await?;
                    sqlx::raw_sql(sql).execute(&mut connection).await?;
                    connection.close().await
                }
            }
        })
    }

    /// The first column of a query, as text.
    pub(crate) fn texts(&self, sql: &'static str) -> Vec<String> {
        on_runtime(async {
            match self.kind {
                DatabaseKind::Sqlite => {
                    let mut connection = SqliteConnection::connect(&self.url).await.expect("it is there");
                    let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("valid SQL");
                    rows.iter().map(|row| row.get(0)).collect()
                }
                DatabaseKind::Postgres => {
                    let mut connection = PgConnection::connect(&self.url).await.expect("it is there");
                    let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("valid SQL");
                    rows.iter().map(|row| row.get(0)).collect()
                }
            }
        })
    }
}

fn database_settings(url: &str) -> String {
    format!("database: {{ url: \"{url}\" }}\n")
}

/// The URL of a new database, on the one PostgreSQL server that all tests of this process share.
fn new_postgres_database() -> String {
    static SERVER: OnceLock<Mutex<Postgres>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(|| Mutex::new(Postgres::start()));
    let url = |name: &str| server.lock().expect("no test panics while it has it").url(name);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    on_runtime(async {
        let mut connection = PgConnection::connect(&url("postgres")).await.expect("the server runs");
        let sql = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(sql).execute(&mut connection).await.expect("a new name");
    });
    url(&name)
}
