//! Backups.

use tidegate_database::DatabaseError;

use crate::support::{TestDatabase, TestFolder, entry, open, version};

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
    test.db.restore_from(&backup).await.unwrap();
    assert_eq!(changes.next().await, tidegate_database::VersionChange::Version(1));
    assert_eq!(test.db.active_version().await.unwrap(), before);
    let report = test.db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.broken, report.entries), (None, 2));
    // It goes on from there.
    test.db.publish(version(3)).await.unwrap();
    test.db.append(vec![entry(4)]).await.unwrap();
    assert_eq!(test.db.verify(|_, _| {}).await.unwrap().broken, None);
}

#[tokio::test]
async fn a_backup_that_is_none_changes_nothing() {
    let (test, folder) = (TestDatabase::sqlite().await, TestFolder::new());
    test.db.publish(version(1)).await.unwrap();
    let before = test.db.active_version().await.unwrap();
    let error = test.db.restore_from(&folder.join("missing.db")).await.unwrap_err().to_string();
    assert!(error.contains("missing.db") && error.contains("no such file"), "{error}");
    std::fs::write(folder.join("text.db"), "this is not a database, but long enough to be read as one")
        .unwrap();
    assert!(test.db.restore_from(&folder.join("text.db")).await.is_err());
    assert_eq!(test.db.active_version().await.unwrap(), before);
}
