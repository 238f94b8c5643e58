//! A client of the admin API, and a server with tokens.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tidegate_database::{DatabaseKind, NewVersion};

use crate::control::on_database;
use crate::control::place::Place;
use crate::support::server::Server;

/// A response.
#[derive(Debug)]
pub(in crate::control) struct ApiReply {
    pub(in crate::control) status: u16,
    /// The status line and the headers.
    pub(in crate::control) head: String,
    pub(in crate::control) body: String,
}

impl ApiReply {
    pub(in crate::control) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}{}", self.head, self.body))
    }

    pub(in crate::control) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Panics unless the status is this one.
    #[track_caller]
    pub(in crate::control) fn expect(self, status: u16) -> ApiReply {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The version of the answer to a write, which is also its `ETag`.
    #[track_caller]
    pub(in crate::control) fn version(&self) -> u64 {
        let version = self.json()["version"].as_u64().unwrap_or_else(|| panic!("no version: {}", self.body));
        assert_eq!(self.header("etag"), Some(&*format!("\"{version}\"")));
        version
    }

    pub(in crate::control) fn parse(text: &str) -> ApiReply {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        ApiReply { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// The text of a request.
pub(in crate::control) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").expect("writing to memory does not fail");
    }
    text + "\r\n" + body
}

pub(in crate::control) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> ApiReply {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request(method, path, headers, body).as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers with text");
    ApiReply::parse(&reply)
}

/// The same with a server that may be killed meanwhile: `None` unless the whole answer has arrived.
pub(in crate::control) fn try_ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<ApiReply> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request(method, path, headers, body).as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let reply =
        Some(reply).filter(|reply| reply.contains("\r\n\r\n")).map(|reply| ApiReply::parse(&reply))?;
    let length: usize = reply.header("content-length")?.parse().expect("a number");
    (reply.body.len() == length).then_some(reply)
}

/// A server with a database.
pub(in crate::control) struct Controlled {
    pub(in crate::control) server: Server,
    /// The token of the banner.
    pub(in crate::control) admin: String,
    pub(in crate::control) place: Place,
}

/// Two trees of tenants: `acme` with `shop`, and `other`.
const POLICY: &str = "version: 1\nlimits:\n- { name: per-user, key: [user], sustained: { rate: 5 } }\ntenants:\n\
                      - { id: acme, rate_limit: { sustained: { rate: 9 } } }\n\
                      - { id: shop, parent: acme, rate_limit: { sustained: { rate: 3 } } }\n\
                      - { id: other, rate_limit: { sustained: { rate: 9 } } }\n";

impl Controlled {
    /// Starts a server on a new database whose policy has tenants.
    pub(in crate::control) fn start(kind: DatabaseKind) -> Controlled {
        Controlled::start_in(Place::new(kind), "")
    }

    /// The same on this database, with settings.
    pub(in crate::control) fn start_in(place: Place, settings: &str) -> Controlled {
        on_database(&place.url, async |database| {
            let first =
                NewVersion { text: POLICY.to_owned(), warnings: "[]".to_owned(), ..NewVersion::default() };
            database.publish(first).await.expect("it is written");
        });
        let server = if settings.is_empty() { place.start(&[]) } else { place.start_with_settings(settings) };
        let line = server.printed("first admin token");
        let admin = line.split_whitespace().last().expect("there is one").to_owned();
        Controlled { server, admin, place }
    }

    pub(in crate::control) fn address(&self) -> SocketAddr {
        self.server.socket("admin")
    }

    /// A call with a token.
    pub(in crate::control) fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> ApiReply {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        ask(self.address(), method, &format!("/api/v1{path}"), &headers, &body)
    }

    /// A new token: its name and its secret.
    pub(in crate::control) fn token(&self, role: &str, tenant: Option<&str>) -> (String, String) {
        let reply =
            self.call(&self.admin, "POST", "/tokens", Some(json!({ "role": role, "tenant": tenant })));
        assert_eq!(reply.status, 201, "{reply:?}");
        let text = |name: &str| reply.json()[name].as_str().expect("it is text").to_owned();
        (text("id"), text("token"))
    }
}
