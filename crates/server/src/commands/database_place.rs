//! Commands that work on the database itself: which one, and a connection to it.

use tidegate_database::{Database, DatabaseError, DatabaseOptions};

use super::serve::read_settings;
use crate::commands::flags::DatabasePlace;
use crate::commands::terminal::exit::CommandFailure;
use crate::settings::{DatabaseSettings, Retention};

/// The URL of the database that the flags and the environment name.
///
/// # Errors
/// When they name none, or a folder without one.
pub(super) fn url(place: &DatabasePlace) -> Result<String, CommandFailure> {
    let settings = settings(place)?;
    match &settings.folder {
        Some(folder) if !settings.file_exists() => {
            let why = format!("--data: there is no database in {}", folder.display());
            Err(CommandFailure::Usage(why))
        }
        _ => Ok(settings.url),
    }
}

/// The same, and the folder of a database that is not there yet is made.
pub(super) fn url_of_new(place: &DatabasePlace) -> Result<String, CommandFailure> {
    let settings = settings(place)?;
    settings.make_folder().map_err(CommandFailure::Running)?;
    Ok(settings.url)
}

fn settings(place: &DatabasePlace) -> Result<DatabaseSettings, CommandFailure> {
    if let Some(folder) = place.data.as_deref().filter(|folder| !folder.as_os_str().is_empty()) {
        return Ok(DatabaseSettings::in_folder(folder));
    }
    if let Some(url) = std::env::var("TIDEGATE_DATABASE_URL").ok().filter(|url| !url.is_empty()) {
        return Ok(DatabaseSettings { url, cache: None, folder: None, retention: Retention::default() });
    }
    let missing = || CommandFailure::Usage("name the database by --data DIR, or by --config FILE".to_owned());
    let config = place.config.as_deref().filter(|file| !file.is_empty()).ok_or_else(missing)?;
    let (settings, _) = read_settings(config)?;
    settings.database.ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{config} names no database: add `database: {{ url: … }}`, or use --data DIR"
        ))
    })
}

/// Opens the database, and works on it. Tables of an older version are refused: servers of that version may use them.
pub(super) fn on_database<T, E: std::fmt::Display>(
    url: &str,
    work: impl AsyncFnOnce(&Database) -> Result<T, E>,
) -> Result<T, CommandFailure> {
    on_opened(async || Database::open_without_upgrade(url, DatabaseOptions::default()).await, work)
}

/// The same, whatever version the tables have: `work` must not depend on that.
pub(super) fn on_any_database<T, E: std::fmt::Display>(
    url: &str,
    work: impl AsyncFnOnce(&Database) -> Result<T, E>,
) -> Result<T, CommandFailure> {
    on_opened(async || Database::open_later(url, DatabaseOptions::default()).await, work)
}

fn on_opened<T, E: std::fmt::Display>(
    open: impl AsyncFnOnce() -> Result<Database, DatabaseError>,
    work: impl AsyncFnOnce(&Database) -> Result<T, E>,
) -> Result<T, CommandFailure> {
    let running = |error: &dyn std::fmt::Display| CommandFailure::Running(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| running(&error))?.block_on(async {
        let database = open().await.map_err(|error| match error {
            DatabaseError::Url(error) => CommandFailure::Usage(error),
            error => running(&error),
        })?;
        let done = work(&database).await.map_err(|error| running(&error));
        database.close().await;
        done
    })
}
