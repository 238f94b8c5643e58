//! One of several servers on one database, and a client of its admin API.

use std::net::SocketAddr;

use serde_json::Value;

use super::access::client::{ApiReply, ask};
use crate::support::home::Home;
use crate::support::server::{ANYWHERE, Server, tidegate};

/// The token of all servers of a fleet.
const TOKEN: &str = "token-of-the-fleet-0123456789abcdef";

pub(super) struct FleetNode {
    pub(super) server: Server,
}

impl FleetNode {
    /// A server with these flags.
    pub(super) fn start(flags: &[&str]) -> FleetNode {
        let mut command = tidegate(&[&["serve"], &ANYWHERE[..], flags].concat());
        command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
        FleetNode { server: Server::start_with(command) }
    }

    /// Sends a request with a body of this type, and more headers.
    pub(super) fn send(&self, call: &str, media: &str, more: &[(&str, &str)], body: &str) -> ApiReply {
        send_to(self.server.socket("admin"), call, media, more, body)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> ApiReply {
        self.send(&format!("POST {path}"), "application/json", &[], &body.to_string())
    }

    /// What a GET answers.
    #[track_caller]
    pub(super) fn read(&self, path: &str) -> ApiReply {
        self.send(&format!("GET {path}"), "application/json", &[], "").expect(200)
    }

    /// Replaces the policy, and returns the new version.
    #[track_caller]
    pub(super) fn put_policy(&self, text: &str) -> u64 {
        self.send("PUT /policy", "application/yaml", &[], text).expect(200).version()
    }

    /// The value of a metric without labels.
    pub(super) fn metric(&self, name: &str) -> u64 {
        let page = ask(self.server.socket("admin"), "GET", "/metrics", &[], "").body;
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The version that it runs.
    pub(super) fn runs(&self) -> u64 {
        self.metric("tidegate_policy_version")
    }
}

/// The same to the admin listener of any node, for threads.
pub(super) fn send_to(
    address: SocketAddr,
    call: &str,
    media: &str,
    more: &[(&str, &str)],
    body: &str,
) -> ApiReply {
    let (method, path) = call.split_once(' ').expect("a method and a path");
    let bearer = format!("Bearer {TOKEN}");
    let own = [("Authorization", bearer.as_str()), ("Content-Type", media)];
    let headers: Vec<(&str, &str)> = own.into_iter().chain(more.iter().copied()).collect();
    ask(address, method, &format!("/api/v1{path}"), &headers, body)
}

/// A new folder for a database.
pub(super) fn data_folder(home: &Home) -> String {
    let data = home.arg("data");
    std::fs::create_dir_all(&data).expect("it can be made");
    data
}
