//! A server with a database, and a client of its admin API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::support::home::Home;
use crate::support::server::{ANYWHERE, Server, tidegate};

/// The token of servers without a database.
const TOKEN: &str = "test-admin-token-0123456789abcdef";

/// A server, its data, and its admin address.
pub(crate) struct PolicyServer {
    pub(crate) server: Server,
    pub(crate) home: Home,
    pub(crate) api: Api,
}

impl PolicyServer {
    /// A server with an empty database.
    pub(crate) fn start() -> PolicyServer {
        let home = Home::new();
        let data = data_folder(&home);
        PolicyServer::start_in(home, &["--data", &data])
    }

    /// A server with this policy in its database.
    pub(crate) fn with_policy(text: &str) -> PolicyServer {
        let server = PolicyServer::start();
        server.api.ask("PUT", "/policy", &["Content-Type: application/yaml"], text).expect(200);
        server
    }

    /// A server with these flags.
    pub(crate) fn start_in(home: Home, args: &[&str]) -> PolicyServer {
        let mut command = tidegate(&[&["serve"], &ANYWHERE[..], args].concat());
        command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
        let server = Server::start_with(command);
        let first = server.banner.lines().find(|line| line.contains("first admin token"));
        let token = first.and_then(|line| line.split_whitespace().last()).unwrap_or(TOKEN);
        // The tests copy the client into threads.
        let api = Api { address: server.socket("admin"), token: token.to_owned().leak() };
        PolicyServer { server, home, api }
    }
}

/// A folder for a database.
pub(crate) fn data_folder(home: &Home) -> String {
    let data = home.arg("data");
    std::fs::create_dir_all(&data).expect("it can be made");
    data
}

/// A client of the admin API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    address: SocketAddr,
    token: &'static str,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct PolicyReply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl PolicyReply {
    /// Panics unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> PolicyReply {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The version of the answer to a write, which is also its `ETag`.
    #[track_caller]
    pub(crate) fn version(&self) -> u64 {
        let version = self.json()["version"].as_u64().unwrap_or_else(|| panic!("no version: {}", self.body));
        assert_eq!(self.header("etag"), Some(&*format!("\"{version}\"")));
        version
    }
}

impl Api {
    pub(crate) fn token(&self) -> &'static str {
        self.token
    }

    /// Sends a request with more headers, such as `If-Match: "8"`.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> PolicyReply {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{headers}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("it answers");
        let reply = String::from_utf8(reply).expect("it is text");
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {reply:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        PolicyReply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> PolicyReply {
        self.ask("GET", path, &[], "")
    }

    /// The JSON of a GET that succeeds.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Value {
        self.get(path).expect(200).json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> PolicyReply {
        self.ask("POST", path, &["Content-Type: application/json"], &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> PolicyReply {
        self.ask("PUT", path, &["Content-Type: application/json"], &body.to_string())
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> PolicyReply {
        self.ask("PATCH", path, &["Content-Type: application/merge-patch+json"], &body.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> PolicyReply {
        self.ask("DELETE", path, &[], "")
    }

    /// The policy as it is written.
    #[track_caller]
    pub(crate) fn policy(&self) -> String {
        self.get("/policy").expect(200).body
    }
}
