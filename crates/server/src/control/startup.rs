//! The start of a server with a database: opens it, and finds the policy to run.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Nanos;
use tidegate_database::{
    AuditEntry, Database, DatabaseError, DatabaseOptions, NewVersion, PolicyVersion, PublishError, RuleRow,
    UnixMillis,
};
use tidegate_document::{DocumentNode, parse};
use tidegate_policy::Policy;

use super::projection::rule_rows;
use super::{PolicySource, RunningPolicy, cache};
use crate::commands::terminal::exit::print_stderr;
use crate::settings::DatabaseSettings;

/// Why a server cannot start with its database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupError {
    /// The database cannot be opened.
    #[error("database: {0}")]
    Database(#[from] DatabaseError),
    /// The first version could not be published.
    #[error("database: {0}")]
    Publish(#[from] PublishError),
    /// The text of the active version is gone, which retention never does.
    #[error("database: the text of the active version {0} is missing")]
    NoText(u64),
}

impl StartupError {
    /// May the same succeed later?
    pub(super) fn is_temporary(&self) -> bool {
        matches!(
            self,
            StartupError::Database(DatabaseError::Unavailable(_))
                | StartupError::Publish(PublishError::Database(DatabaseError::Unavailable(_)))
        )
    }
}

/// The pause before the database is tried again.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// An open database, and the policy that it has.
#[derive(Debug)]
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    /// The active version, or the one that the node ran last.
    pub(crate) policy: RunningPolicy,
    /// Why the database does not answer, if the policy is the one that the node ran last.
    pub(crate) problem: Option<String>,
}

/// Opens the database. While it does not answer, this waits for it, unless there is a cached policy to start with.
///
/// # Errors
/// When the database is not one that this version can use: waiting would not help.
pub(crate) async fn open(
    settings: &DatabaseSettings,
    first: &str,
    now: Nanos,
) -> Result<OpenedDatabase, StartupError> {
    let mut has_waited = false;
    let database = loop {
        let why = match Database::open_later(&settings.url, DatabaseOptions::default()).await {
            Ok(database) => break database,
            Err(error) => StartupError::from(error),
        };
        wait_for(why, &mut has_waited).await?;
    };
    loop {
        let why = match active_policy(&database, first, now).await {
            Ok(policy) => return Ok(OpenedDatabase { database, policy, problem: None }),
            Err(error) if !error.is_temporary() => return Err(error),
            Err(error) => error,
        };
        if let Some(policy) = settings.cache.as_deref().and_then(|file| cache::read(file, now)) {
            return Ok(OpenedDatabase { database, policy, problem: Some(why.to_string()) });
        }
        wait_for(why, &mut has_waited).await?;
    }
}

/// Waits before the next attempt, and says so once. An error that will come again is returned.
async fn wait_for(why: StartupError, has_waited: &mut bool) -> Result<(), StartupError> {
    if !why.is_temporary() {
        return Err(why);
    }
    if !std::mem::replace(has_waited, true) {
        // There is no log yet.
        print_stderr(format_args!(
            "{why}\nthere is no cached policy to start with: waiting for the database\n"
        ));
    }
    tokio::time::sleep(RETRY_PAUSE).await;
    Ok(())
}

/// The active version. If there is none yet, `first` becomes version 1.
async fn active_policy(database: &Database, first: &str, now: Nanos) -> Result<RunningPolicy, StartupError> {
    let active = match database.active_version().await? {
        Some(active) => active,
        None => publish_first(database, first, now).await?,
    };
    running(active, now)
}

/// Publishes the first version. Of several nodes that do this at once, one succeeds, and all run its version.
async fn publish_first(database: &Database, text: &str, now: Nanos) -> Result<PolicyVersion, StartupError> {
    let time = unix_millis(now);
    let author = "tidegate".to_owned();
    let entry = AuditEntry {
        time,
        event: "rate_limit_config_updated".to_owned(),
        severity: "info".to_owned(),
        actor: Some(author.clone()),
        count: 1,
        first: time,
        last: time,
        reason: Some("first start".to_owned()),
        ..AuditEntry::default()
    };
    let new = NewVersion {
        text: text.to_owned(),
        author,
        reason: Some("first start".to_owned()),
        warnings: "[]".to_owned(),
        time,
        entry,
        expected: Some(0),
        rules: first_rows(text),
        ..NewVersion::default()
    };
    match database.publish(new).await {
        // Another node was faster, and its version is as good.
        Ok(_) | Err(PublishError::Stale { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(database.active_version().await?.expect("a version was published, and versions are never removed"))
}

/// The rows of the first version; none if it is not valid, which is reported when it is put in force.
fn first_rows(text: &str) -> Vec<RuleRow> {
    let rows = |root: DocumentNode| {
        let policy = Policy::of_parsed(&root, text, Nanos::ZERO).ok()?;
        Some(rule_rows(&policy.rules, &root))
    };
    parse(text).ok().and_then(rows).unwrap_or_default()
}

/// A version of the database as the policy to run.
pub(super) fn running(version: PolicyVersion, now: Nanos) -> Result<RunningPolicy, StartupError> {
    let number = version.head.version;
    let text: Arc<str> = version.text.ok_or(StartupError::NoText(number))?.into();
    Ok(RunningPolicy { source: PolicySource::Database, text, version: number, since: now })
}

/// An instant of the wall clock, as the database has it.
pub(crate) fn unix_millis(wall: Nanos) -> UnixMillis {
    UnixMillis::new(i64::try_from(wall.get() / 1_000_000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::reload::policy_file::QUICK_START;

    #[test]
    fn the_first_version_has_rows_that_people_can_read() {
        assert_eq!(first_rows(QUICK_START).len(), 3);
        assert!(first_rows("no policy").is_empty());
    }
}
