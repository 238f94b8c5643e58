//! How the server starts, and errors that keep it from starting.

use std::net::TcpListener;

use crate::support::home::{Home, policy};
use crate::support::server::{Server, run, tidegate};

#[test]
fn the_banner_tells_every_address_and_two_commands() {
    let server = Server::start(&[]);
    assert!(server.banner.starts_with(concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n")));
    assert!(server.told("policy").contains("quick start"), "{}", server.banner);
    for (name, scheme) in [("http", "http://"), ("grpc", ""), ("resp", "redis://"), ("admin", "http://")] {
        let told = server.told(name);
        let address = told.strip_prefix(scheme).unwrap_or_else(|| panic!("{told}"));
        let address: std::net::SocketAddr = address.parse().expect("it is an address");
        assert_ne!(address.port(), 0);
        std::net::TcpStream::connect(address).expect("somebody listens there");
    }
    let tries = server.banner.lines().skip_while(|line| *line != "Try:").skip(1);
    let tries: Vec<&str> = tries.filter(|line| !line.is_empty()).collect();
    assert_eq!(tries.len(), 2, "{}", server.banner);
}

#[test]
fn a_policy_of_ones_own_is_named_with_its_size() {
    let home = Home::new();
    let file = home.write("policy.yaml", &policy(3));
    let server = Server::start(&["--policy", &file]);
    assert_eq!(server.told("policy"), format!("{file}, 1 limit"));
}

#[test]
fn a_taken_port_is_told_and_nothing_runs() {
    let theirs = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = theirs.local_addr().expect("it is bound").to_string();
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", &taken, "--resp", "off", "--admin", "off"];
    let ran = run(tidegate(&args));
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    for part in ["grpc: ", &taken, "in use by another program", "--grpc", "TIDEGATE_GRPC"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn an_invalid_policy_is_told_with_every_problem() {
    let home = Home::new();
    let file =
        home.write("policy.yaml", "version: 1\nlimts: []\nlimits:\n- { name: a, sustaned: { rate: 1 } }\n");
    let ran = run(tidegate(&["serve", "--policy", &file]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    for part in [&*format!("{file}:2:1"), "did you mean `limits`?", "sustaned", "errors"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = run(tidegate(&["serve", "--policy", &home.arg("none.yaml")]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("cannot read the policy") && ran.err.contains("none.yaml"), "{}", ran.err);
}

#[test]
fn invalid_settings_are_told_without_their_secrets() {
    let home = Home::new();
    let file = home.write(
        "settings.yaml",
        "lsten: {}\nauth: { http_tokn: s3cret }\nstore: { mode: hybrid, nodes: 2 }\n",
    );
    let ran = run(tidegate(&["serve", "--config", &file]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    for part in [
        "did you mean `listen`?",
        "did you mean `http_token`?",
        "nodes that share a Redis find each other there",
        "3 errors",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert!(!ran.err.contains("s3cret"), "{}", ran.err);
}

#[test]
fn resp_is_not_opened_to_the_world_without_a_password() {
    let ran = run(tidegate(&["serve", "--resp", "0.0.0.0:0"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("TIDEGATE_RESP_PASSWORD"), "{}", ran.err);
    let mut command =
        tidegate(&["serve", "--http", "0.0.0.0:0", "--resp", "0.0.0.0:0", "--grpc", "off", "--admin", "off"]);
    command.env("TIDEGATE_RESP_PASSWORD", "s3cret");
    let server = Server::start_with(command);
    assert!(server.banner.contains("/v1/refund, /v1/throttle and /v1/identify are off"), "{}", server.banner);
    assert!(!server.banner.contains("s3cret"));
}

#[test]
fn a_flag_beats_the_environment_and_both_beat_the_file() {
    let home = Home::new();
    home.write("policy.yaml", &policy(3));
    home.write("other.yaml", &policy(4));
    // 192.0.2.1 is not an address of this machine, so a server that used the file's value could not start.
    let settings = home.write(
        "settings.yaml",
        "listen: { http: 192.0.2.1:1, grpc: off, resp: off, admin: 127.0.0.1:0 }\npolicy: { file: policy.yaml }\n",
    );
    let mut command = tidegate(&["serve", "--grpc", "127.0.0.1:0"]);
    command
        .env("TIDEGATE_CONFIG", &settings)
        .env("TIDEGATE_HTTP", "127.0.0.1:0")
        .env("TIDEGATE_GRPC", "192.0.2.1:1");
    let server = Server::start_with(command);
    assert_eq!(server.told("resp"), "off");
    assert_eq!(
        server.told("policy"),
        format!("{}, 1 limit", home.arg("policy.yaml")),
        "relative to the file"
    );
    for name in ["http", "grpc", "admin"] {
        assert!(server.address(name).starts_with("127.0.0.1:"), "{}", server.banner);
    }

    let mut command = tidegate(&["serve", "--config", &settings, "--http", "off"]);
    command.env("TIDEGATE_POLICY", home.arg("other.yaml"));
    let server = Server::start_with(command);
    assert!(server.told("policy").contains("other.yaml"), "{}", server.banner);
}

#[test]
fn the_kill_switch_is_said_aloud() {
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"];
    let mut command = tidegate(&args);
    command.env("TIDEGATE_KILL_SWITCH", "allow");
    let server = Server::start_with(command);
    assert!(server.banner.contains("every request is admitted"), "{}", server.banner);
    server.logged(&["every request is admitted"]);
    let mut command = tidegate(&args);
    command.env("TIDEGATE_KILL_SWITCH", "on");
    let ran = run(command);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("set it to `allow`"), "{}", ran.err);
}

#[test]
fn limits_are_divided_among_nodes() {
    let home = Home::new();
    home.write("policy.yaml", &policy(3));
    let settings = home.write("settings.yaml", "policy: { file: policy.yaml }\nstore: { nodes: 4 }\n");
    let server = Server::start(&["--config", &settings]);
    assert!(server.banner.contains("divided among 4 nodes"), "{}", server.banner);
    server.logged(&["the burst of `per-user` is 3, but each of 4 nodes gets 1"]);
}
