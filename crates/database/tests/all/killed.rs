//! A process that is killed while it writes: nothing that was acknowledged is lost, nothing is half written.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use tidegate_database::{HistoryFilter, NewVersion, PageRequest};

use crate::support::{TestDatabase, entry, open, rule, version};

const URL_VARIABLE: &str = "TIDEGATE_TEST_WRITER_URL";
const RULES: u64 = 20;

/// Runs in a process of its own: writes for ever, and says what was acknowledged. The number of a version is in its text
/// and in all its rules.
async fn write_for_ever(url: &str) {
    let db = open(url).await;
    let mut number = db.active_number().await.unwrap().unwrap_or(0);
    loop {
        number += 1;
        let rules = (0..RULES).map(|name| rule(&format!("r{name}"), None, number as f64)).collect();
        db.publish(NewVersion { rules, ..version(number) }).await.unwrap();
        say("version", number);
        db.append((0..5).map(|part| entry(number * 100 + part)).collect()).await.unwrap();
        say("entries", number);
    }
}

fn say(what: &str, number: u64) {
    println!("{what} {number}");
    std::io::stdout().flush().expect("the parent reads");
}

/// Starts the writer, kills it right after it has acknowledged `lines` writes, and returns the last of each.
fn kill_after(url: &str, lines: usize) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "killed::nothing_acknowledged_is_lost_on_sqlite", "--nocapture"])
        .env(URL_VARIABLE, url)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program again");
    let (mut last_version, mut last_entries, mut seen) = (0, 0, 0);
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        let Some((what, number)) = line.split_once(' ') else { continue };
        match what {
            "version" => last_version = number.parse().expect("a number"),
            "entries" => last_entries = number.parse().expect("a number"),
            _ => continue,
        }
        seen += 1;
        if seen == lines {
            child.kill().expect("it runs");
        }
    }
    child.wait().expect("it was killed");
    assert!(seen >= lines, "the writer ended by itself after {seen} writes");
    (last_version, last_entries)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_on_sqlite() {
    // This test is also the process that is killed.
    match std::env::var(URL_VARIABLE) {
        Ok(url) => write_for_ever(&url).await,
        Err(_) => nothing_acknowledged_is_lost(&TestDatabase::sqlite().await).await,
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_on_postgres() {
    nothing_acknowledged_is_lost(&TestDatabase::postgres().await).await;
}

async fn nothing_acknowledged_is_lost(test: &TestDatabase) {
    let mut runner = TestRunner::new(Config::default());
    let rounds = prop::collection::vec(1..40_usize, 6).new_tree(&mut runner).expect("numbers").current();
    let mut whole_batches = 0;
    for lines in rounds {
        let url = test.url.clone();
        let (acknowledged, entries) =
            tokio::task::spawn_blocking(move || kill_after(&url, lines)).await.unwrap();
        // A server may still be finishing what the killed process had sent: this waits for its lock.
        assert_eq!(test.raw("UPDATE audit_head SET seq = seq").await, 1);
        let active = test.db.active_version().await.unwrap().unwrap();
        let number = active.head.version;
        assert!(
            (acknowledged..=acknowledged + 1).contains(&number),
            "{number} is active, not {acknowledged}"
        );
        assert_eq!(active.text, Some(version(number).text));
        let rates =
            "SELECT CAST(CAST(rate_per_second AS INTEGER) AS TEXT) FROM rate_limit_rules WHERE is_active";
        assert_eq!(test.raw_texts(rates).await, vec![number.to_string(); RULES as usize]);
        let report = test.db.verify(|_, _| {}).await.unwrap();
        assert_eq!(report.broken, None);
        // An entry for each version, and batches of five that are there whole or not at all.
        let batches = (report.entries - number) / 5;
        assert_eq!(number + batches * 5, report.entries);
        assert!(batches > whole_batches || entries == 0);
        whole_batches = batches;
        if entries > 0 {
            let last = HistoryFilter {
                user: Some(format!("user-{}", entries * 100 + 4)),
                ..HistoryFilter::default()
            };
            assert_eq!(test.db.audit(&last, &PageRequest::default()).await.unwrap().items.len(), 1);
        }
    }
}
