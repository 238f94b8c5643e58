//! Backups.

use tidegate_database::{AuditEntry, BrowserSession, Database, DatabaseError, StoredToken};

use crate::support::{TestDatabase, TestFolder, at, entry, open, options, version};

#[tokio::test]
async fn a_copy_of_a_file_in_use_is_whole() {
    let test = TestDatabase::sqlite().await;
    test.db.publish(version(1)).await.unwrap();
    let writer = {
        let db = test.db.clone();
        tokio::spawn(async move {
            for number in 0..200 {
                db.append(vec![entry(number)]).await.unwrap();
            }
        })
    };
    let folder = TestFolder::new();
    let copy = folder.join("it's a copy.db");
    // The second replaces the first.
    for _ in 0..2 {
        test.db.backup_to(&copy).await.unwrap();
    }
    writer.await.unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 1, "only the copy is left");
    let restored = open(&format!("sqlite:{}", copy.display())).await;
    assert_eq!(restored.active_version().await.unwrap(), test.db.active_version().await.unwrap());
    assert_eq!(restored.verify(|_, _| {}).await.unwrap().broken, None);
    restored.close().await;
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let test = TestDatabase::sqlite().await;
    let folder = TestFolder::new();
    let missing = folder.join("missing").join("copy.db");
    let error = test.db.backup_to(&missing).await.unwrap_err().to_string();
    assert!(error.contains("missing/copy.db"), "{error}");
}

#[tokio::test]
async fn postgres_has_its_own_backups() {
    let test = TestDatabase::postgres().await;
    let folder = TestFolder::new();
    let error = test.db.backup_to(&folder.join("copy.db")).await.unwrap_err();
    assert!(
        matches!(error, DatabaseError::Unsupported(_)) && error.to_string().contains("pg_dump"),
        "{error}"
    );
}

#[tokio::test]
async fn a_backup_replaces_everything_in_a_database_in_use() {
    let (test, folder) = (TestDatabase::sqlite().await, TestFolder::new());
    let backup = folder.join("backup.db");
    test.db.publish(version(1)).await.unwrap();
    test.db.append(vec![entry(1)]).await.unwrap();
    test.db.backup_to(&backup).await.unwrap();
    let before = test.db.active_version().await.unwrap();
    test.db.publish(version(2)).await.unwrap();
    test.db.append(vec![entry(2), entry(3)]).await.unwrap();
    let mut changes = test.db.changes();
    changes.next().await;
    test.db.restore_from(&backup, "ada", at(9)).await.unwrap();
    assert_eq!(changes.next().await, tidegate_database::VersionChange::Version(1));
    assert_eq!(test.db.active_version().await.unwrap(), before);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.broken, report.entries), (None, 3), "what the backup has, and that it was restored");
    // It goes on from there.
    test.db.publish(version(3)).await.unwrap();
    test.db.append(vec![entry(4)]).await.unwrap();
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
}

/// Files that are no backup, by name.
async fn files_that_are_no_backup(folder: &TestFolder, backup: &std::path::Path) -> Vec<&'static str> {
    let whole = std::fs::read(backup).unwrap();
    std::fs::write(folder.join("empty.db"), "").unwrap();
    std::fs::write(folder.join("text.db"), "this is not a database, but long enough to be read as one")
        .unwrap();
    std::fs::write(folder.join("cut.db"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(folder.join("head.db"), &whole[..4_096.min(whole.len())]).unwrap();
    let new = open(&format!("sqlite:{}", folder.join("new.db").display())).await;
    new.close().await;
    use sqlx::{ConnectOptions, Connection};
    let foreign = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join("foreign.db"));
    let mut foreign = foreign.create_if_missing(true).connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE notes (text TEXT)").execute(&mut foreign).await.unwrap();
    foreign.close().await.unwrap();
    vec!["missing.db", "empty.db", "text.db", "cut.db", "head.db", "new.db", "foreign.db"]
}

#[tokio::test]
async fn a_file_that_is_no_backup_changes_nothing_and_is_not_changed() {
    let (test, folder) = (TestDatabase::sqlite().await, TestFolder::new());
    test.db.publish(version(1)).await.unwrap();
    let backup = folder.join("backup.db");
    test.db.backup_to(&backup).await.unwrap();
    test.db.publish(version(2)).await.unwrap();
    let before = test.db.active_version().await.unwrap();
    for name in files_that_are_no_backup(&folder, &backup).await {
        let file = folder.join(name);
        let bytes = std::fs::read(&file).ok();
        let error = test.db.restore_from(&file, "ada", at(9)).await.unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert_eq!(std::fs::read(&file).ok(), bytes, "{name} is as it was");
        assert_eq!(test.db.active_version().await.unwrap(), before, "{name}");
        assert_eq!(test.db.verify(|_, _| {}).await.unwrap().entries, 2, "{name}");
    }
    let bytes = std::fs::read(&backup).unwrap();
    test.db.restore_from(&backup, "ada", at(9)).await.unwrap();
    assert_eq!(std::fs::read(&backup).unwrap(), bytes, "a backup is only read");
    let files = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().count();
    let home = std::path::Path::new(test.url.strip_prefix("sqlite:").unwrap()).parent().unwrap();
    assert_eq!(files(home), 3, "the database and what SQLite keeps beside it");
}

#[tokio::test]
async fn a_restore_is_audited_and_brings_back_no_access_that_was_taken_away() {
    let (test, folder) = (TestDatabase::sqlite().await, TestFolder::new());
    test.db.publish(version(1)).await.unwrap();
    let token = |id: &str, hash: u8| StoredToken {
        id: id.into(),
        sha256: [hash; 32],
        role: "admin".into(),
        created_by: "ada".into(),
        ..StoredToken::default()
    };
    for (id, hash) in [("kept", 1), ("lost", 2)] {
        test.db.create_token(token(id, hash), entry(2)).await.unwrap();
    }
    let session = BrowserSession {
        hash: [7; 32],
        token_id: "kept".into(),
        created_at: at(0),
        expires_at: at(1_000_000),
    };
    test.db.create_session(session).await.unwrap();
    assert!(test.db.session(&[7; 32], at(1)).await.unwrap().is_some());
    let backup = folder.join("backup.db");
    test.db.backup_to(&backup).await.unwrap();
    test.db.revoke_token("lost", at(5), entry(3)).await.unwrap();
    test.db.restore_from(&backup, "ada", at(9)).await.unwrap();
    let revoked = async |id| test.db.token(id).await.unwrap().unwrap().revoked_at;
    assert_eq!((revoked("kept").await, revoked("lost").await), (None, Some(at(5))));
    assert!(test.db.session(&[7; 32], at(1)).await.unwrap().is_none());
    let last = "SELECT event || ' ' || actor || ' ' || kind FROM audit_entries ORDER BY seq DESC LIMIT 1";
    assert_eq!(test.raw_texts(last).await, ["database_restored ada backup.db"]);
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
}

#[tokio::test]
async fn a_backup_never_replaces_the_database_itself() {
    let test = TestDatabase::sqlite().await;
    test.db.publish(version(1)).await.unwrap();
    let database = test.url.strip_prefix("sqlite:").unwrap();
    let folder = TestFolder::new();
    let link = folder.join("link.db");
    #[cfg(unix)]
    std::os::unix::fs::symlink(database, &link).unwrap();
    let wal = format!("{database}-wal");
    for path in [database, &wal, link.to_str().unwrap()] {
        let error = test.db.backup_to(std::path::Path::new(path)).await.unwrap_err().to_string();
        assert!(error.contains("belongs to the database itself"), "{error}");
    }
    test.db.publish(version(2)).await.unwrap();
    assert_eq!(open(&test.url).await.active_number().await.unwrap(), Some(2));
}

on_both!(older_tables_are_upgraded_by_servers_only);

async fn older_tables_are_upgraded_by_servers_only(test: &TestDatabase) {
    test.db.append(vec![AuditEntry::default()]).await.unwrap();
    Database::open_without_upgrade(&test.url, options()).await.unwrap().ping().await.unwrap();
    test.raw("DELETE FROM schema_versions WHERE version > 1").await;
    let error = Database::open_without_upgrade(&test.url, options()).await.unwrap_err();
    assert!(matches!(error, DatabaseError::SchemaTooOld { found: 1, .. }), "{error}");
    assert!(error.to_string().contains("start the server of this version once"), "{error}");
    assert_eq!(test.raw_texts("SELECT CAST(max(version) AS TEXT) FROM schema_versions").await, ["1"]);
}
