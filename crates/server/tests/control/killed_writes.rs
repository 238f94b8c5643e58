//! A server that is killed while it changes its policy: nothing that it has acknowledged is lost, nothing is half done.

use std::net::SocketAddr;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_database::DatabaseKind;

use super::access::client::{ApiReply, ask, try_ask};
use super::place::{Place, on_both};
use crate::support::server::{ANYWHERE, Server};

on_both!(nothing_acknowledged_is_lost_and_no_policy_is_half_written);

const ROUNDS: usize = 6;
/// So often at most, until enough was written.
const ROUNDS_MAX: usize = 60;
/// How many limits a whole document has.
const LIMITS: u64 = 20;
const TOKEN: &str = "token-of-the-killed-0123456789abcdef";

/// The names and the rates of the limits, in order.
type Limits = Vec<(String, u64)>;

fn limit(name: &str, rate: u64) -> Value {
    json!({ "name": name, "key": [], "sustained": { "rate": rate } })
}

/// A write, by its number.
struct NumberedWrite {
    method: &'static str,
    path: String,
    media_type: &'static str,
    key: Option<String>,
    body: String,
}

impl NumberedWrite {
    /// Every fourth write replaces the whole policy; the others change, create and remove one limit.
    fn new(number: u64) -> NumberedWrite {
        let write = |method, path: String, media_type, body: Value| NumberedWrite {
            method,
            path,
            media_type,
            key: None,
            body: body.to_string(),
        };
        match number % 4 {
            0 => {
                let limits: Vec<Value> =
                    (0..LIMITS).map(|index| limit(&format!("l{index}"), number + 1)).collect();
                write(
                    "PUT",
                    "/policy".to_owned(),
                    "application/json",
                    json!({ "version": 1, "limits": limits }),
                )
            }
            1 => {
                let patch = json!({ "sustained": { "rate": number + 1 } });
                write("PATCH", "/limits/l3".to_owned(), "application/merge-patch+json", patch)
            }
            2 => NumberedWrite {
                key: Some(format!("key-{number}")),
                ..write("POST", "/limits".to_owned(), "application/json", limit("extra", number + 1))
            },
            _ => write("DELETE", "/limits/extra".to_owned(), "application/json", Value::Null),
        }
    }

    /// What the write makes of the limits.
    fn apply(number: u64, limits: &mut Limits) {
        match number % 4 {
            0 => *limits = (0..LIMITS).map(|index| (format!("l{index}"), number + 1)).collect(),
            1 => limits[3].1 = number + 1,
            2 => limits.push(("extra".to_owned(), number + 1)),
            _ => limits.retain(|(name, _)| name != "extra"),
        }
    }

    fn send(&self, address: SocketAddr) -> Option<ApiReply> {
        let bearer = format!("Bearer {TOKEN}");
        let key = self.key.iter().map(|key| ("Idempotency-Key", key.as_str()));
        let headers: Vec<_> = [("Authorization", bearer.as_str()), ("Content-Type", self.media_type)]
            .into_iter()
            .chain(key)
            .collect();
        try_ask(address, self.method, &format!("/api/v1{}", self.path), &headers, &self.body)
    }
}

/// What was acknowledged.
struct Acknowledged {
    /// The number of the next write, which was perhaps on its way when the server was killed.
    next: u64,
    /// The last version.
    version: u64,
    limits: Limits,
    /// The answers to writes with a key.
    keyed: Vec<(u64, ApiReply)>,
    /// The ids of new tokens.
    tokens: Vec<String>,
}

fn read(address: SocketAddr, path: &str) -> Value {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str()), ("Accept", "application/json")];
    ask(address, "GET", &format!("/api/v1{path}"), &headers, "").expect(200).json()
}

impl Acknowledged {
    /// Was so much written that something could have been lost?
    fn is_enough(&self) -> bool {
        self.next > 20 && !self.keyed.is_empty() && !self.tokens.is_empty()
    }

    /// Writes until the server is killed.
    fn write(&mut self, address: SocketAddr) {
        while let Some(reply) = NumberedWrite::new(self.next).send(address) {
            assert!([200, 201].contains(&reply.status), "{}: {reply:?}", self.next);
            self.version += 1;
            assert_eq!(reply.version(), self.version, "every write is a version");
            NumberedWrite::apply(self.next, &mut self.limits);
            if reply.status == 201 {
                self.keyed.push((self.next, reply));
            }
            self.next += 1;
        }
    }

    /// Compares what is there after a restart. The write that was on its way is done whole, or not at all.
    fn check(&mut self, place: &Place, address: SocketAddr) {
        let newest = read(address, "/versions?limit=1")["items"][0]["version"].as_u64().expect("a version");
        let wanted = self.version..=self.version + 1;
        assert!(wanted.contains(&newest), "{newest} is active, and {} was acknowledged", self.version);
        if newest > self.version {
            self.version = newest;
            NumberedWrite::apply(self.next, &mut self.limits);
            let write = NumberedWrite::new(self.next);
            if write.key.is_some() {
                let answer = write.send(address).expect("it runs").expect(201);
                assert_eq!(answer.version(), newest, "it is not done again");
                self.keyed.push((self.next, answer));
            }
            self.next += 1;
        }
        let expected: Vec<Value> = self.limits.iter().map(|(name, rate)| limit(name, *rate)).collect();
        assert_eq!(read(address, "/policy"), json!({ "version": 1, "limits": expected }));
        let mut rows: Vec<String> = self.limits.iter().map(|(name, rate)| format!("{name}={rate}")).collect();
        let mut seen = place.texts(
            "SELECT limit_name || '=' || CAST(CAST(rate_per_second AS INTEGER) AS TEXT) \
             FROM rate_limit_rules WHERE is_active",
        );
        rows.sort();
        seen.sort();
        assert_eq!(seen, rows, "the table has the limits of the active version");
        for (number, reply) in &self.keyed {
            let again = NumberedWrite::new(*number).send(address).expect("it runs");
            assert_eq!((again.status, &again.body), (reply.status, &reply.body), "{number}");
            assert_eq!(again.header("location"), reply.header("location"));
        }
        let tokens = read(address, "/tokens?limit=1000").to_string();
        let lost: Vec<&String> =
            self.tokens.iter().filter(|token| !tokens.contains(token.as_str())).collect();
        assert!(lost.is_empty(), "these tokens were acknowledged: {lost:?}");
        let verified = place.run(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    }
}

/// Makes tokens until the server is killed.
fn make_tokens(address: SocketAddr) -> Vec<String> {
    let write = NumberedWrite {
        method: "POST",
        path: "/tokens".to_owned(),
        media_type: "application/json",
        key: None,
        body: "{\"role\":\"viewer\"}".to_owned(),
    };
    let made = std::iter::from_fn(|| write.send(address));
    made.map(|reply| reply.expect(201).json()["id"].as_str().expect("an id").to_owned()).collect()
}

fn start(place: &Place) -> Server {
    let mut command = place.command(&[&["serve"], &ANYWHERE[..]].concat());
    command.env("TIDEGATE_ADMIN_TOKEN", TOKEN);
    Server::start_with(command)
}

fn nothing_acknowledged_is_lost_and_no_policy_is_half_written(kind: DatabaseKind) {
    let place = Place::new(kind);
    let mut server = start(&place);
    let first = NumberedWrite::new(0).send(server.socket("admin")).expect("it runs").expect(200);
    let mut done = Acknowledged {
        next: 1,
        version: first.version(),
        limits: Limits::new(),
        keyed: Vec::new(),
        tokens: Vec::new(),
    };
    NumberedWrite::apply(0, &mut done.limits);
    let mut runner = TestRunner::new(Config::default());
    let instants =
        prop::collection::vec(20..400_u64, ROUNDS_MAX).new_tree(&mut runner).expect("numbers").current();
    for (round, millis) in instants.into_iter().enumerate() {
        // On a busy machine little is written before the kill, and it takes more rounds.
        if round >= ROUNDS && done.is_enough() {
            break;
        }
        let address = server.socket("admin");
        let tokens = std::thread::scope(|scope| {
            let tokens = scope.spawn(|| make_tokens(address));
            scope.spawn(|| done.write(address));
            // The instant of the kill is the subject.
            std::thread::park_timeout(std::time::Duration::from_millis(millis));
            server.signal(Signal::KILL);
            tokens.join().expect("tokens are made until the end")
        });
        done.tokens.extend(tokens);
        server.ended();
        // A database server may still be finishing what the killed process had sent: this waits for its lock.
        assert!(place.is_writable());
        server = start(&place);
        done.check(&place, server.socket("admin"));
    }
    assert!(done.is_enough(), "{} writes", done.next);
}
