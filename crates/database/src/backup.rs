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
    /// Decisions and writes go on. The tables are copied as they are, whatever schema they have.
    ///
    /// # Errors
    /// On PostgreSQL, when the file is one of the database itself, or when it cannot be written.
    pub async fn backup_to(&self, path: &Path) -> Result<(), DatabaseError> {
        let ConnectionPools::Sqlite { path: source, .. } = &self.pools else {
            return Err(DatabaseError::Unsupported(
                "a PostgreSQL database is not copied to a file by tidegate: use pg_dump",
            ));
        };
        if is_file_of(source, path) {
            return Err(DatabaseError::Invalid(format!(
                "{} belongs to the database itself: name another file for the backup",
                path.display()
            )));
        }
        let partial = partial_path(path, "partial");
        let result = write_copy(SqliteConnectOptions::new().filename(source), &partial).await;
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

/// Is a path the file of a database, or one of those that SQLite keeps beside it?
fn is_file_of(database: &Path, path: &Path) -> bool {
    let Ok(database) = database.canonicalize() else { return false };
    let own = ["", "-wal", "-shm", "-journal"].map(|ending| with_ending(&database, ending));
    // A file that is not there yet is known by its folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_folder = folder.canonicalize().ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
    [path.canonicalize().ok(), in_folder].iter().flatten().any(|path| own.contains(path))
}

/// The path of a file beside another one, whose name has an ending more.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// A file of this process beside another one, so that it can be renamed.
pub(crate) fn partial_path(path: &Path, ending: &str) -> PathBuf {
    with_ending(path, &format!(".{}.{ending}", std::process::id()))
}

/// Copies a database as of one instant to a file that only its owner can read.
pub(crate) async fn write_copy(connect: SqliteConnectOptions, partial: &Path) -> std::io::Result<()> {
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
    let mut connection =
        connect.disable_statement_logging().connect().await.map_err(std::io::Error::other)?;
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
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}
