//! Backups of a SQLite file while it is in use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::database::ConnectionPools;
use crate::{Database, DatabaseError};

impl Database {
    /// Writes a copy as of one instant to a file, which appears only when it is whole and replaces one of that name.
    /// Decisions and writes go on.
    ///
    /// # Errors
    /// On PostgreSQL, or when the file cannot be written.
    pub async fn backup_to(&self, path: &Path) -> Result<(), DatabaseError> {
        let ConnectionPools::Sqlite { path: source, .. } = &self.pools else {
            return Err(DatabaseError::Unsupported(
                "a PostgreSQL database is not copied to a file by tidegate: use pg_dump",
            ));
        };
        let partial = partial_path(path);
        let result = write_copy(source, &partial).await;
        let target = path.to_owned();
        let finished = match result {
            Ok(()) => in_background(move || finish(&partial, &target)).await,
            Err(error) => {
                let _ = in_background(move || std::fs::remove_file(&partial)).await;
                Err(error)
            }
        };
        finished
            .map_err(|error| DatabaseError::Unavailable(format!("cannot write {}: {error}", path.display())))
    }
}

/// Beside the file, so that it can be renamed.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(|| OsString::from("backup"), OsString::from);
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

async fn write_copy(source: &Path, partial: &Path) -> std::io::Result<()> {
    // An empty file that only its owner can read is what SQLite writes into.
    let empty = partial.to_owned();
    in_background(move || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(empty).map(drop)
    })
    .await?;
    let name = partial.to_str().ok_or_else(|| std::io::Error::other("the path is not UTF-8"))?;
    let sql = format!("VACUUM INTO '{}'", name.replace('\'', "''"));
    let connect = SqliteConnectOptions::new().filename(source).disable_statement_logging();
    let mut connection = connect.connect().await.map_err(std::io::Error::other)?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.map_err(std::io::Error::other)?;
    connection.close().await.map_err(std::io::Error::other)
}

/// Makes the copy durable, and then visible.
fn finish(partial: &Path, target: &Path) -> std::io::Result<()> {
    std::fs::File::open(partial)?.sync_all()?;
    std::fs::rename(partial, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}

/// Runs what waits for the disk where it does not keep other tasks waiting.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}
