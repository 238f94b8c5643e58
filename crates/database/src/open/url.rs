//! The URL of a database.

use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::DatabaseError;

/// A URL that was understood.
#[derive(Debug)]
pub(super) enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

const WANTED: &str =
    "write `sqlite:PATH`, such as sqlite:tidegate.db, or `postgres://USER:PASSWORD@HOST:5432/DATABASE`";

/// Reads a URL. The errors do not repeat it: it may have a password.
pub(super) fn parse(url: &str) -> Result<DatabaseUrl, DatabaseError> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return sqlite_path(path.strip_prefix("//").unwrap_or(path)).map(DatabaseUrl::Sqlite);
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return match PgConnectOptions::from_str(url) {
            Ok(options) => Ok(DatabaseUrl::Postgres(Box::new(options))),
            Err(_) => Err(DatabaseError::Url(format!(
                "the URL of the PostgreSQL database is not valid: {WANTED}; special characters of a password are \
                 percent-encoded"
            ))),
        };
    }
    Err(DatabaseError::Url(format!(
        "the URL of the database is neither one of SQLite nor of PostgreSQL: {WANTED}"
    )))
}

fn sqlite_path(path: &str) -> Result<PathBuf, DatabaseError> {
    let problem = match path {
        "" => "the URL of the SQLite database has no path",
        ":memory:" => "a SQLite database in memory would be lost with the process",
        path if path.contains(['?', '\0']) => "the path of a SQLite database has no parameters",
        path => return Ok(PathBuf::from(path)),
    };
    Err(DatabaseError::Url(format!("{problem}: {WANTED}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_urls_are_a_scheme_and_a_path() {
        for (url, path) in [
            ("sqlite:tidegate.db", "tidegate.db"),
            ("sqlite:/var/lib/tidegate.db", "/var/lib/tidegate.db"),
            ("sqlite:///var/lib/tidegate.db", "/var/lib/tidegate.db"),
        ] {
            let DatabaseUrl::Sqlite(found) = parse(url).expect(url) else { panic!("{url} is not SQLite") };
            assert_eq!(found, PathBuf::from(path));
        }
    }

    #[test]
    fn errors_say_what_is_wanted_and_never_repeat_a_password() {
        for url in [
            "",
            "mysql://root:geheim@host/x",
            "sqlite:",
            "sqlite::memory:",
            "sqlite:geheim?mode=ro",
            "postgres://user:geheim@host:port/x",
            "postgres://user:geheim@host/x?sslmode=geheim",
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains("write `sqlite:PATH`") && !error.contains("geheim"), "{url}: {error}");
        }
    }
}
