//! The control plane: the admin API as its clients see it.

mod access;
mod audited;
mod away;
mod candidates;
mod commands;
mod entries;
mod exports;
mod fleet;
mod fleet_node;
mod glance;
mod glance_missing;
mod killed;
mod killed_writes;
mod live;
mod model;
mod place;
mod policy;
mod policy_client;
mod records;
mod repeated;
mod restoring;
mod restricted;
mod routes;
mod tenants;
mod trials;
mod trust;
mod versions;
mod waking;
mod writers;

use serde_json::{Value, json};
use tidegate_database::{
    Database, DatabaseOptions, HistoryFilter, PageRequest, RecordBatch, Violation, ViolationRow,
};

use crate::http::client::{Answer, Client};
use crate::support::server::Server;

/// A limit for each user.
fn limit(name: &str, rate: u32) -> Value {
    json!({ "name": name, "key": ["user"], "sustained": { "rate": rate } })
}

/// The names of the entries of a list.
fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item[field].as_str().expect("a name").to_owned()).collect()
}

/// Runs asynchronous work of a test.
pub(crate) fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// Works on a database as a program beside the server does.
pub(crate) fn on_database<T>(url: &str, work: impl AsyncFnOnce(&Database) -> T) -> T {
    on_runtime(async {
        let database = Database::open(url, DatabaseOptions::default()).await.expect("it can be opened");
        let done = work(&database).await;
        database.close().await;
        done
    })
}

/// Writes denials, as a node does.
pub(crate) async fn record_violations(database: &Database, violations: Vec<Violation>) {
    let batch = RecordBatch { number: 1, violations, ..RecordBatch::default() };
    assert!(database.record(batch).await.expect("it can be written"), "it is a new batch");
}

/// All violations.
pub(crate) async fn violations(database: &Database) -> Vec<ViolationRow> {
    let (filter, mut page) = (HistoryFilter::default(), PageRequest { limit: 1_000, cursor: None });
    let mut rows = Vec::new();
    loop {
        let found = database.violations(&filter, &page).await.expect("it can be read");
        rows.extend(found.items);
        page.cursor = found.next;
        if page.cursor.is_none() {
            return rows;
        }
    }
}

/// The token that a server prints at its first start.
pub(crate) fn admin_token(server: &Server) -> String {
    let line = server.printed("admin token");
    line.split_whitespace().last().expect("the token is the last word").to_owned()
}

/// Asks the admin API.
pub(crate) fn get(server: &Server, token: &str, path: &str, accept: &str) -> Answer {
    let mut client = Client::connect(server.socket("admin"));
    client.send(format!(
        "GET /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\naccept: {accept}\r\n\r\n"
    ));
    client.answer()
}
