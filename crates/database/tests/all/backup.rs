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
