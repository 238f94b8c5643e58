//! What can go wrong.

use std::time::Duration;

/// An operation on the database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The database cannot be reached, is busy, or did not answer within the deadline: the same may succeed later. A write
    /// whose answer did not arrive may have been done or not.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database answered with an error that will come again: its tables are not as expected, or this is a bug.
    #[error("the database refused an operation: {0}")]
    Invalid(String),
    /// The URL is not one of a database.
    #[error("{0}")]
    Url(String),
    /// The tables were made by a newer version of this program.
    #[error(
        "the database has schema {found}; this version of tidegate knows up to {known}: run the newer version, or restore \
         a backup from before the upgrade"
    )]
    SchemaTooNew {
        /// The schema of the database.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// The tables were made by an older version of this program, and servers of that version may use them.
    #[error(
        "the database has schema {found}, and this command needs {known}: start the server of this version once, which \
         upgrades the tables, or use the command of the version that runs"
    )]
    SchemaTooOld {
        /// The schema of the database.
        found: i64,
        /// The schema of this version.
        known: i64,
    },
    /// The cursor of a list was not made by this program.
    #[error("the cursor is not valid: use the one from the answer before, or none for the first page")]
    Cursor,
    /// The search took too long.
    #[error("the search takes more than {0:?}: narrow it with `since` and `until`, or with another filter")]
    SearchTooLong(Duration),
    /// There are as many as there may be.
    #[error("{0}")]
    Full(String),
    /// This kind of database cannot do it.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// A new version of the policy was not published, and nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Another version is active than the one that was changed.
    #[error("{}", describe_stale(*.active))]
    Stale {
        /// The version that is active, if there is one.
        active: Option<u64>,
    },
    /// The key of the answer to remember was used by another request meanwhile.
    #[error("the idempotency key was used by another request at the same time")]
    KeyUsed,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

fn describe_stale(active: Option<u64>) -> String {
    match active {
        Some(active) => format!("version {active} is active by now: read it, and repeat the change on it"),
        None => "there is no version yet: publish the first one without naming an earlier one".into(),
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> DatabaseError {
        use sqlx::Error;
        let is_temporary = match &error {
            Error::Io(_) | Error::Tls(_) | Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => {
                true
            }
            Error::BeginFailed | Error::Protocol(_) => true,
            Error::Database(error) => error.code().is_some_and(|code| is_temporary(&code)),
            _ => false,
        };
        let text = error.to_string();
        if is_temporary { DatabaseError::Unavailable(text) } else { DatabaseError::Invalid(text) }
    }
}

/// Whether an error code means that the same may succeed later: five characters on PostgreSQL, a number on SQLite.
fn is_temporary(code: &str) -> bool {
    // PostgreSQL: connections, rolled back by a conflict, resources, locks, operator intervention, I/O, and a server
    // that is a read-only standby for now.
    const CLASSES: [&str; 6] = ["08", "40", "53", "55", "57", "58"];
    const READ_ONLY: &str = "25006";
    // SQLite: busy, locked, read-only, interrupted, I/O, full, cannot open, the protocol of locks.
    const PRIMARY: [u32; 8] = [5, 6, 8, 9, 10, 13, 14, 15];
    if code.len() == 5 {
        return code == READ_ONLY || CLASSES.iter().any(|class| code.starts_with(class));
    }
    code.parse::<u32>().is_ok_and(|code| PRIMARY.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_may_go_away_are_told_from_those_that_stay() {
        // Busy, busy of a snapshot, full, I/O; connection lost, server shut down, deadlock, too many connections.
        for code in ["5", "517", "13", "10", "08006", "57P01", "40P01", "53300", "25006"] {
            assert!(is_temporary(code), "{code}");
        }
        // Constraint, no database, corrupt; unique, syntax, password, no such table.
        for code in ["19", "26", "11", "1", "23505", "42601", "28P01", "42P01", ""] {
            assert!(!is_temporary(code), "{code}");
        }
    }
}
