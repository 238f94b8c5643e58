//! Opening: at once, newer schemas, bad places.

use std::path::Path;

use tidegate_database::{Database, DatabaseError, DatabaseKind, HistoryFilter, PageRequest};

use crate::postgres_server;
use crate::support::{TestDatabase, TestFolder, at, open, options, version};

/// Ten nodes with connections of their own make the tables of one empty database.
async fn ten_at_once(url: String) {
    let mut nodes = Vec::new();
    for number in 1..=10 {
        let url = url.clone();
        nodes.push(tokio::spawn(async move {
            let db = open(&url).await;
            db.publish(version(number)).await.unwrap();
            db.close().await;
        }));
    }
    for node in nodes {
        node.await.unwrap();
    }
    let db = open(&url).await;
    assert_eq!(db.active_number().await.unwrap(), Some(10));
    let report = db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.broken), (10, None));
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_nodes_open_an_empty_sqlite_file_at_once() {
    let folder = TestFolder::new();
    ten_at_once(format!("sqlite:{}", folder.join("tidegate.db").display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_nodes_open_an_empty_postgres_database_at_once() {
    ten_at_once(postgres_server::new_database().await).await;
}

on_both!(
    a_newer_schema_is_refused,
    a_step_that_was_left_out_is_made_later,
    what_was_written_is_there_after_opening_again
);

async fn a_newer_schema_is_refused(test: &TestDatabase) {
    test.raw("INSERT INTO schema_versions VALUES (77)").await;
    let error = Database::open(&test.url, options()).await.unwrap_err();
    assert!(matches!(error, DatabaseError::SchemaTooNew { found: 77, known: 9 }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("the database has schema 77; this version of tidegate knows up to 9: run the newer")
    );
}

async fn a_step_that_was_left_out_is_made_later(test: &TestDatabase) {
    test.raw("DROP TABLE record_writers").await;
    test.raw("DROP TABLE leases").await;
    test.raw("DELETE FROM schema_versions WHERE version = 2").await;
    let again = open(&test.url).await;
    assert!(again.take_lease("work", "me", at(1), at(2)).await.unwrap());
}

async fn what_was_written_is_there_after_opening_again(test: &TestDatabase) {
    test.db.ping().await.unwrap();
    test.db.publish(version(1)).await.unwrap();
    test.db.close().await;
    assert!(matches!(test.db.ping().await, Err(DatabaseError::Unavailable(_))));
    let again = open(&test.url).await;
    assert_eq!(again.active_version().await.unwrap().unwrap().text, Some(version(1).text));
}

#[tokio::test]
async fn a_sqlite_file_is_private_and_durable() {
    let test = TestDatabase::sqlite().await;
    test.db.publish(version(1)).await.unwrap();
    assert_eq!(test.db.kind(), DatabaseKind::Sqlite);
    #[cfg(unix)]
    for name in ["", "-wal", "-shm"] {
        use std::os::unix::fs::PermissionsExt;
        let path = format!("{}{name}", test.url.strip_prefix("sqlite:").unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
    assert_eq!(test.raw_texts("PRAGMA journal_mode").await, ["wal"]);
}

#[tokio::test]
async fn places_that_cannot_be_opened_are_named_without_the_password() {
    let folder = TestFolder::new();
    let missing = folder.join("missing").join("tidegate.db");
    let error =
        Database::open(&format!("sqlite:{}", missing.display()), options()).await.unwrap_err().to_string();
    assert!(error.contains("missing/tidegate.db") && error.contains("the folder must exist"), "{error}");

    let no_database = folder.join("text.db");
    std::fs::write(&no_database, "this is no database\n".repeat(100)).unwrap();
    let error = Database::open(&format!("sqlite:{}", no_database.display()), options()).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Invalid(_)), "{error}");

    // Nobody listens on port 1.
    let short =
        tidegate_database::DatabaseOptions { deadline: std::time::Duration::from_secs(1), ..options() };
    let error = Database::open("postgres://user:geheim@127.0.0.1:1/x", short).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Unavailable(_)), "{error}");
    assert!(!format!("{error} {error:?}").contains("geheim"));
}

/// A file that the first released schema made, with rows in every table: each later migration starts from it.
#[tokio::test]
async fn the_first_schema_can_be_opened() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_schema.sqlite");
    let folder = TestFolder::new();
    let copy = folder.join("tidegate.db");
    std::fs::copy(kept, &copy).unwrap();
    let db = open(&format!("sqlite:{}", copy.display())).await;
    assert_eq!(db.active_version().await.unwrap().unwrap().text, Some(version(3).text));
    assert_eq!(db.version(1).await.unwrap().unwrap().text, Some(version(1).text));
    let report = db.verify(|_, _| {}).await.unwrap();
    assert_eq!((report.entries, report.erased, report.first_kept, report.broken), (5, 1, 2, None));
    assert_eq!(
        db.violations(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len(),
        2
    );
    let tokens = db.tokens(&PageRequest::default()).await.unwrap().items;
    assert!(tokens.iter().any(|token| token.role == "admin" && token.revoked_at.is_none()));
    assert_eq!(db.nodes(i64::MAX, &PageRequest::default()).await.unwrap().items.len(), 1);
    assert!(db.session(&[1; 32], at(50)).await.unwrap().is_some());
    assert!(db.remembered(&[1; 32], &[2; 32], at(50)).await.unwrap().is_some());
    db.publish(version(4)).await.unwrap();
    // Later schemas are there too: those of records, and the indexes of lists.
    assert!(db.take_lease("keeper", "me", at(0), at(1)).await.unwrap());
    let filter = HistoryFilter { limit_name: Some("none".into()), ..HistoryFilter::default() };
    assert_eq!(db.events(&filter, &PageRequest::default()).await.unwrap().items, []);
    db.close().await;
}
