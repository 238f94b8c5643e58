//! Helpers to start a server and call it over plain TCP connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::home::Home;
use crate::support::server::{ANYWHERE, Server, tidegate};

/// Starts a server with these settings and this policy.
pub(crate) fn serve(settings: &str, policy: &str) -> (Server, Home) {
    let home = Home::new();
    let (settings, policy) = (home.write("settings.yaml", settings), home.write("policy.yaml", policy));
    let args = [&["serve", "--config", &settings, "--policy", &policy], &ANYWHERE[..]].concat();
    (Server::start_with(tidegate(&args)), home)
}

fn exchange(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(request.as_bytes()).expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Sends a POST by HTTP; returns the status and the JSON body.
pub(crate) fn post(server: &Server, path: &str, body: &str) -> (u16, Value) {
    let address = server.address("http");
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let (status, body) = exchange(&address, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status} {body}: {error}")))
}

/// Is a request of a user admitted?
pub(crate) fn admits(server: &Server, user: &str) -> bool {
    post(server, "/v1/check", &format!("{{\"user\":\"{user}\"}}")).0 == 200
}

/// A page of the admin listener.
pub(crate) fn admin(server: &Server, path: &str) -> (u16, String) {
    let address = server.address("admin");
    exchange(&address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"))
}

/// Sends a DELETE to the admin listener; returns the status.
pub(crate) fn delete(server: &Server, path: &str) -> u16 {
    let address = server.address("admin");
    exchange(&address, &format!("DELETE {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).0
}

/// The value of a metric series, named as `name{label="value"}`.
pub(crate) fn metric(server: &Server, series: &str) -> f64 {
    let page = admin(server, "/metrics").1;
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().expect("it is a number")
}

/// Sends these commands and `QUIT` to a RESP listener in one write; returns all replies.
pub(crate) fn pipeline(address: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}
