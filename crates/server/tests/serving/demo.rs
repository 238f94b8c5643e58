//! `tidegate demo`: a real server, something to see on every screen, and nothing left behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::control::get;
use crate::support::home::Home;
use crate::support::server::{ANYWHERE, Server, run, tidegate};
use crate::support::within;

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn demo(args: &[&str]) -> Command {
    tidegate(&[&["demo"], &ANYWHERE[..], args].concat())
}

/// A demo whose folder for temporary files is this one.
fn demo_in(home: &Home, args: &[&str]) -> Command {
    let mut command = demo(args);
    command.env("TMPDIR", home.path(""));
    command
}

/// The folder of the demo's database.
fn folder(server: &Server) -> PathBuf {
    let told = server.told("data");
    PathBuf::from(told.split(" (").next().expect("the path comes first"))
}

/// A token that it has printed.
fn token(server: &Server, whose: &str) -> String {
    let line = server.banner.lines().find(|line| line.contains(whose) && line.contains(" tga_"));
    let line = line.unwrap_or_else(|| panic!("no token of {whose}: {}", server.banner));
    line.split_whitespace().nth(1).expect("the token comes second").to_owned()
}

/// Asks the admin API.
fn ask(server: &Server, token: &str, path: &str) -> Value {
    get(server, token, path, "application/json").json()
}

fn list(answer: &Value) -> &[Value] {
    answer["items"].as_array().unwrap_or_else(|| panic!("no list: {answer}"))
}

/// Does some entry of a list have this value in this member?
fn has(answer: &Value, member: &str, value: &str) -> bool {
    list(answer).iter().any(|item| item[member] == value)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("it is there").next().is_none()
}

#[test]
fn every_screen_has_something_to_show_and_nothing_is_left_behind() {
    let home = Home::new();
    let server = Server::start_with(demo_in(&home, &[]));
    let admin = token(&server, "admin");
    let get = |path: &str| ask(&server, &admin, path);
    assert!(folder(&server).join("tidegate.db").exists());

    within(PATIENCE, "decisions and denials by several limits", || {
        let history = get("/history");
        let steps = history["steps"].as_array().expect("it has steps");
        let denied = |step: &Value| {
            let limits = step["limits"].as_object().expect("it has limits").values();
            limits.filter(|limit| limit["denied"].as_u64().unwrap_or_default() > 0).count()
        };
        steps.iter().any(|step| step["allowed"].as_u64() > Some(0) && denied(step) >= 2)
    });
    within(PATIENCE, "busy and denied keys", || {
        let keys = get("/hot-keys");
        ["consumers", "denied"].iter().all(|list| keys[list].as_array().is_some_and(|keys| keys.len() > 2))
    });
    within(PATIENCE, "violations in the database", || !list(&get("/violations")).is_empty());
    within(PATIENCE, "the candidate compares", || {
        let candidates = get("/candidates");
        let id = list(&candidates)[0]["id"].as_str().expect("it has an id").to_owned();
        get(&format!("/candidates/{id}/report"))["totals"]["both_admit"].as_u64() > Some(0)
    });

    let tenants = get("/tenants");
    for (id, parent) in [("acme", "system"), ("acme-media", "acme"), ("globex-eu", "globex")] {
        assert!(list(&tenants).iter().any(|one| one["id"] == id && one["parent"] == parent), "{tenants}");
    }
    let audit = get("/audit?limit=100");
    let events =
        ["rate_limit_config_updated", "override_added", "key_blocked", "key_reset", "candidate_added"];
    for event in events {
        assert!(has(&audit, "event", event), "no {event}: {audit}");
    }
    assert!(list(&get("/versions")).len() >= 5);
    assert_eq!((list(&get("/overrides")).len(), list(&get("/keys/live")).len()), (1, 1));

    let theirs = ask(&server, &token(&server, "partner"), "/tenants");
    assert!(has(&theirs, "id", "acme-books") && !has(&theirs, "id", "globex"), "{theirs}");

    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(is_empty(&home.path("")), "the folder is removed");
}

#[test]
fn the_abusive_address_is_blocked_and_ctrl_c_ends_it() {
    let home = Home::new();
    let server = Server::start_with(demo_in(&home, &["--rate", "1000"]));
    let admin = token(&server, "admin");
    within(PATIENCE, "a burst penalty", || has(&ask(&server, &admin, "/penalties"), "detector", "scraping"));
    server.signal(Signal::INT);
    assert_eq!(server.ended().code(), Some(0));
    assert!(is_empty(&home.path("")), "the folder is removed");
}

#[test]
fn it_ends_by_itself_and_keeps_the_folder_that_it_is_given() {
    let home = Home::new();
    let data = home.arg("data");
    let ran = run(demo_in(&home, &["--data", &data, "--seconds", "1"]));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("The demo ends. It admitted "), "{}", ran.out);
    assert!(home.path("data/tidegate.db").exists());

    let again = run(demo_in(&home, &["--data", &data]));
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("has a database already"), "{}", again.err);

    let later = Server::start(&["--data", &data]);
    assert!(later.told("policy").contains("10 tenants"), "{}", later.banner);
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("it is bound").to_string();
    for (flags, code, told) in [
        (["--http", &taken], 1, "is in use by another program"),
        (["--admin", "off"], 2, "--admin: the demo cannot do without this listener"),
        (["--grpc", "0.0.0.0:0"], 2, "write it as 127.0.0.1:0"),
        (["--rate", "0"], 2, "--rate"),
    ] {
        // A flag can be given once.
        let mut usual = vec![("--http", "127.0.0.1:0"), ("--grpc", "off"), ("--admin", "127.0.0.1:0")];
        usual.retain(|(name, _)| *name != flags[0]);
        let mut args = vec!["demo", "--resp", "off"];
        usual.iter().for_each(|(name, value)| args.extend([*name, *value]));
        args.extend(flags);
        let mut command = tidegate(&args);
        command.env("TMPDIR", home.path(""));
        let ran = run(command);
        assert_eq!(ran.code, Some(code), "{flags:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(told), "{flags:?}: {}", ran.err);
    }
    assert!(is_empty(&home.path("")), "no folder is left behind");
}
