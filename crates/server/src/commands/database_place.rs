//! Commands that work on the database itself: which one, and a connection to it.

use tidegate_database::{Database, DatabaseError, DatabaseOptions};

use super::serve::read_settings;
use crate::commands::flags::DatabasePlace;
use crate::commands::terminal::exit::CommandFailure;
use crate::settings::DatabaseSettings;

/// The URL of the database that the flags and the environment name.
pub(super) fn url(place: &DatabasePlace) -> Result<String, CommandFailure> {
    if let Some(folder) = place.data.as_deref().filter(|folder| !folder.as_os_str().is_empty()) {
        let settings = DatabaseSettings::in_folder(folder);
        if !settings.file_exists() {
            let why = format!("--data: there is no database in {}", folder.display());
            return Err(CommandFailure::Usage(why));
        }
        return Ok(settings.url);
    }
    if let Some(url) = std::env::var("TIDEGATE_DATABASE_URL").ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    let missing = || CommandFailure::Usage("name the database by --data DIR, or by --config FILE".to_owned());
    let config = place.config.as_deref().filter(|file| !file.is_empty()).ok_or_else(missing)?;
    let (settings, _) = read_settings(config)?;
    settings.database.map(|database| database.url).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{config} names no database: add `database: {{ url: … }}`, or use --data DIR"
        ))
    })
}

/// Opens the database, and works on it.
pub(super) fn on_database<T, E: std::fmt::Display>(
    url: &str,
    work: impl AsyncFnOnce(&Database) -> Result<T, E>,
) -> Result<T, CommandFailure> {
    let running = |error: &dyn std::fmt::Display| CommandFailure::Running(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| running(&error))?.block_on(async {
        let opened = Database::open(url, DatabaseOptions::default()).await;
        let database = opened.map_err(|error| match error {
            DatabaseError::Url(error) => CommandFailure::Usage(error),
            error => running(&error),
        })?;
        let done = work(&database).await.map_err(|error| running(&error));
        database.close().await;
        done
    })
}
