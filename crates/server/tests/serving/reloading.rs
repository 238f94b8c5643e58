//! Policies that change while the server runs.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::support::home::{Home, policy};
use crate::support::server::{Server, run, tidegate};

#[test]
fn a_good_edit_is_put_into_force_and_a_bad_one_is_not() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let server = Server::start(&["--policy", &file]);
    home.write("policy.yaml", &policy(2));
    server.logged(&["policy reloaded", "version=2"]);
    home.write("policy.yaml", "version: 1\nlimts: []\n");
    let line = server.logged(&["stays in force"]);
    for part in [&*format!("{file}:2:1"), "limts", "version=2"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    home.replace("policy.yaml", &policy(3));
    server.logged(&["policy reloaded", "version=3"]);
    std::fs::remove_file(home.path("policy.yaml")).expect("it is there");
    server.logged(&["stays in force", "cannot read"]);
}

#[test]
fn a_directory_is_swapped_as_kubernetes_does() {
    let home = Home::new();
    for (version, burst) in [("..v1", 1), ("..v2", 2)] {
        std::fs::create_dir(home.path(version)).expect("it can be made");
        home.write(&format!("{version}/policy.yaml"), &policy(burst));
    }
    symlink("..v1", home.path("..data")).expect("it can be linked");
    symlink("..data/policy.yaml", home.path("policy.yaml")).expect("it can be linked");
    let server = Server::start(&["--policy", &home.arg("policy.yaml")]);
    symlink("..v2", home.path("..data_tmp")).expect("it can be linked");
    std::fs::rename(home.path("..data_tmp"), home.path("..data")).expect("it can be renamed");
    std::fs::remove_dir_all(home.path("..v1")).expect("it can be removed");
    server.logged(&["policy reloaded", "version=2"]);
}

#[test]
fn a_hangup_reloads_at_once() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(1));
    let server = Server::start(&["--policy", &file]);
    server.signal(Signal::HUP);
    server.logged(&["policy reloaded", "version=2"]);
    let embedded = Server::start(&[]);
    embedded.signal(Signal::HUP);
    embedded.logged(&["no file to reload"]);
}

#[test]
fn api_keys_are_reloaded_and_a_bad_edit_keeps_them() {
    let home = Home::new();
    let keys = home.write("keys.yaml", "keys: []\n");
    let settings = home.write(
        "settings.yaml",
        "identity: { client: [api_key] }\napi_keys: { file: keys.yaml, unknown: deny }\n",
    );
    let server = Server::start(&["--config", &settings]);
    let made = run(tidegate(&["key", "create", "--file", &keys, "--client", "app-1"]));
    assert_eq!(made.code, Some(0), "{}", made.err);
    server.logged(&["reloaded", "api_keys"]);
    let status = |key: &str| {
        let request = format!(
            "GET /v1/forward-auth HTTP/1.1\r\nHost: x\r\nX-Api-Key: {}\r\nConnection: close\r\n\r\n",
            key.trim()
        );
        exchange(server.socket("http"), &request)[9..12].to_owned()
    };
    assert_eq!((status(&made.out), status("tg_guess")), ("204".to_owned(), "401".to_owned()));
    home.write("keys.yaml", "keys: [{ hash: oops }]\n");
    let line = server.logged(&["stays in force", "api_keys"]);
    assert!(line.contains("keys.yaml:1:") && !line.contains("oops"), "{line}");
    assert_eq!(status(&made.out), "204", "the keys from before");
    let ready = exchange(
        server.socket("admin"),
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert!(ready.contains("api_keys") && ready.contains("keys.yaml:1:"), "{ready}");
    let metrics = exchange(
        server.socket("admin"),
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    for line in [
        "tidegate_file_reload_failures_total{file=\"api_keys\"} 1",
        "tidegate_api_keys_total{status=\"unknown\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn a_file_of_api_keys_that_is_not_there_stops_the_start() {
    let home = Home::new();
    let settings = home.write("settings.yaml", "api_keys: { file: keys.yaml, unknown: deny }\n");
    let ran = run(tidegate(&["serve", "--config", &settings]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("keys.yaml") && ran.err.contains("tidegate key create --file"), "{}", ran.err);
}

/// Sends a request and returns the whole response.
fn exchange(address: std::net::SocketAddr, request: &str) -> String {
    let mut connection = std::net::TcpStream::connect(address).expect("it listens");
    connection.write_all(request.as_bytes()).expect("it can be sent");
    let mut response = String::new();
    connection.read_to_string(&mut response).expect("it answers");
    response
}
