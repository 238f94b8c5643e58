//! A server with a database, and a client of its admin API.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tidegate_database::DatabaseKind;

use super::access::client::{ApiReply, ask};
use super::place::Place;
use crate::support::server::{ANYWHERE, Server, tidegate};

/// The token of servers without a database.
const TOKEN: &str = "test-admin-token-0123456789abcdef";

/// A server, its data, and its admin address.
pub(crate) struct PolicyServer {
    pub(crate) server: Server,
    pub(crate) place: Place,
    pub(crate) api: Api,
}

impl PolicyServer {
    /// A server with an empty database.
    pub(crate) fn start(kind: DatabaseKind) -> PolicyServer {
        PolicyServer::start_in(Place::new(kind), &[])
    }

    /// A server with this policy in its database.
    pub(crate) fn with_policy(kind: DatabaseKind, text: &str) -> PolicyServer {
        let server = PolicyServer::start(kind);
        server.api.ask("PUT", "/policy", &["Content-Type: application/yaml"], text).expect(200);
        server
    }

    /// A server on a database, with more flags.
    pub(crate) fn start_in(place: Place, more: &[&str]) -> PolicyServer {
        let command = place.command(&[&["serve"], &ANYWHERE[..], more].concat());
        PolicyServer::of(place, command)
    }

    /// A server without a database.
    pub(crate) fn without_database() -> PolicyServer {
        let command = tidegate(&[&["serve"], &ANYWHERE[..]].concat());
        PolicyServer::of(Place::new(DatabaseKind::Sqlite), command)
    }

    fn of(place: Place, mut command: Command) -> PolicyServer {
        command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
        let server = Server::start_with(command);
        let first = server.banner.lines().find(|line| line.contains("first admin token"));
        let token = first.and_then(|line| line.split_whitespace().last()).unwrap_or(TOKEN);
        // The tests copy the client into threads.
        let api = Api { address: server.socket("admin"), token: token.to_owned().leak() };
        PolicyServer { server, place, api }
    }
}

/// A client of the admin API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    address: SocketAddr,
    token: &'static str,
}

impl Api {
    pub(crate) fn token(&self) -> &'static str {
        self.token
    }

    /// Sends a request with more headers, such as `If-Match: "8"`.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> ApiReply {
        let bearer = format!("Bearer {}", self.token);
        let more = headers.iter().map(|header| header.split_once(": ").expect("a name and a value"));
        let headers: Vec<(&str, &str)> = more.chain([("Authorization", bearer.as_str())]).collect();
        ask(self.address, method, &format!("/api/v1{path}"), &headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> ApiReply {
        self.ask("GET", path, &[], "")
    }

    /// The JSON of a GET that succeeds.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Value {
        self.get(path).expect(200).json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> ApiReply {
        self.ask("POST", path, &["Content-Type: application/json"], &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> ApiReply {
        self.ask("PUT", path, &["Content-Type: application/json"], &body.to_string())
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> ApiReply {
        self.ask("PATCH", path, &["Content-Type: application/merge-patch+json"], &body.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> ApiReply {
        self.ask("DELETE", path, &[], "")
    }

    /// The policy as it is written.
    #[track_caller]
    pub(crate) fn policy(&self) -> String {
        self.get("/policy").expect(200).body
    }
}
