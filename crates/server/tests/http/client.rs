//! A client that sends exactly the bytes it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A timeout, so that a server that hangs fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub(crate) struct Client(TcpStream);

/// One response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header; there is at most one.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.head.lines().filter_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        });
        let first = found.next();
        assert!(found.next().is_none(), "{name} is there twice: {}", self.head);
        first
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client(stream)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("the connection is open");
    }

    /// Sends bytes that the server may not read to the end.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        _ = self.0.write_all(bytes.as_ref());
    }

    pub(crate) fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        self.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        self.send(body);
        self.answer()
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str) -> Answer {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        self.answer_to(method)
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("POST")
    }

    fn answer_to(&mut self, method: &str) -> Answer {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {head:?}"));
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: String::new() };
        let length: usize =
            answer.header("content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        self.0.read_exact(&mut body).expect("the body comes");
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        }
        answer.body = String::from_utf8(body).expect("text");
        answer
    }

    /// A chunk of a body; `None` after the last.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).expect("a chunk comes");
            line.push(byte[0]);
        }
        let length = usize::from_str_radix(String::from_utf8(line).expect("text").trim_end(), 16);
        let length = length.expect("a number");
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).expect("all of it comes");
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// Everything that arrives until the server closes.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        // A connection that is closed with unread input is reset.
        _ = self.0.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}
