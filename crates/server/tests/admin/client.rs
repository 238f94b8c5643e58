//! A plain HTTP client that shows the whole response.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn parse(text: &str) -> Reply {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Reply {
            status: status.parse().expect("a number"),
            headers: lines.map(header).collect(),
            body: body.to_owned(),
        }
    }
}

/// Sends these bytes and reads until the other side closes.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut reply = Vec::new();
    // A reset after the response is fine.
    _ = stream.read_to_end(&mut reply).await;
    String::from_utf8(reply).expect("it is text")
}

/// A request with more headers, such as `"A: b\r\n"`.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Reply {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    Reply::parse(&raw(address, &request).await)
}

/// A plain GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Reply {
    ask(address, "GET", path, "").await
}
