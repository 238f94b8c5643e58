//! `tidegate backup` and `tidegate restore`.

use tidegate_database::DatabaseKind;

use super::get;
use super::policy_client::PolicyServer;
use crate::support::home::Home;
use crate::support::server::{ANYWHERE, Ran, Server, run, tidegate};

const TEXT: &str = "version: 1\nlimits:\n- { name: kept, key: [user], sustained: { rate: 1 } }\n";

fn restore(data: &str, from: &str) -> Ran {
    run(tidegate(&["restore", "--yes", "--data", data, "--from", from]))
}

#[test]
fn a_backup_fills_an_empty_folder_and_nothing_else_replaces_a_database() {
    let server = PolicyServer::with_policy(DatabaseKind::Sqlite, TEXT);
    let home = &server.place.home;
    let (data, backup) = (home.arg("data"), home.arg("backup.db"));
    let made = run(tidegate(&["backup", "--data", &data, "--out", &backup]));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let itself = run(tidegate(&["backup", "--data", &data, "--out", &format!("{data}/tidegate.db")]));
    assert_eq!(itself.code, Some(1));
    assert!(itself.err.contains("belongs to the database itself"), "{}", itself.err);
    let empty = restore(&data, &home.write("empty.db", ""));
    assert_eq!(empty.code, Some(1), "{}", empty.err);
    assert_eq!(server.api.policy(), TEXT);
    let asked = run(tidegate(&["restore", "--data", &data, "--from", &backup]));
    assert_eq!(asked.code, Some(2), "there is no terminal to ask on");

    let (home, token) = (Home::new(), server.api.token());
    let elsewhere = home.arg("new/data");
    let restored = restore(&elsewhere, &backup);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    let mut command = tidegate(&[&["serve"], &ANYWHERE[..], &["--data", &elsewhere]].concat());
    command.env("TIDEGATE_ADMIN_TOKEN", token);
    let other = Server::start_with(command);
    assert_eq!(get(&other, token, "/policy", "application/yaml").body, TEXT);
    let known = get(&other, token, "/audit?kind=database_restored", "application/json");
    assert!(known.body.contains("\"actor\":\"command line\""), "{}", known.body);
    assert_eq!(run(tidegate(&["audit", "verify", "--data", &elsewhere])).code, Some(0));
    let nothing = Home::new().arg("nothing");
    assert_eq!(run(tidegate(&["backup", "--data", &nothing, "--out", &backup])).code, Some(2));
}
