//! Malformed requests and request smuggling.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Server;

const ASK: &str = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let count = 1_000;
    let throttle = r#"{"key":"p","capacity":1000,"rate":1,"window":"day"}"#;
    let one = format!(
        "POST /v1/throttle HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{throttle}",
        throttle.len()
    );
    client.send(one.repeat(count));
    for place in 1..=count {
        let remaining = client.answer().json()["remaining"].as_u64();
        assert_eq!(remaining, Some((count - place) as u64));
    }
    let mut other = server.connect();
    other.send(ASK);
    assert_eq!(other.answer().status, 200);
}

#[test]
fn a_connection_is_kept_or_closed_as_asked() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(ASK);
        assert_eq!(client.answer().status, 200);
    }
    client.send(ASK.replace("Host: localhost\r\n", "Host: localhost\r\nConnection: close\r\n"));
    assert_eq!(client.answer().header("connection"), Some("close"));
    assert_eq!(client.rest(), "");
    let mut old = server.connect();
    old.send(ASK.replace("HTTP/1.1", "HTTP/1.0"));
    assert_eq!(old.answer().status, 200);
    assert_eq!(old.rest(), "");
}

#[test]
fn two_lengths_smuggle_nothing() {
    let server = Server::start();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for lengths in
        ["Content-Length: 2\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 2"]
    {
        let mut client = server.connect();
        client.send(format!(
            "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{smuggled}"
        ));
        let answer = client.answer();
        assert_eq!(answer.header("connection"), Some("close"), "{lengths}");
        assert_eq!(client.rest(), "", "{lengths}: nothing that came after it is answered");
    }
    for lengths in [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: +2",
        "Content-Length: -1",
        "Content-Length: 2, 3",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
    ] {
        let mut client = server.connect();
        client.send(format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n{{}}{smuggled}"));
        let answer = client.answer();
        assert!([400, 413, 431].contains(&answer.status), "{lengths}: {answer:?}");
        assert_eq!(client.rest(), "", "{lengths}");
    }
}

#[test]
fn what_is_no_head_is_refused() {
    let server = Server::start();
    for text in [
        "POST /v1/check HTTP/1.1\r\nHost : x\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nBad\0Name: y\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        "POST  /v1/check HTTP/1.1\r\n\r\n",
        "POST /v1/check HTTP/9.9\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
    ] {
        let mut client = server.connect();
        client.send(text);
        client.send("\r\n\r\n");
        assert_eq!(client.answer().status, 400, "{text:?}");
        assert_eq!(client.rest(), "", "{text:?}");
    }
}

#[test]
fn heads_have_an_end() {
    let server = Server::start();
    for count in [64_usize, 65, 90, 150, 5_000] {
        let mut client = server.connect();
        let headers = "a: b\r\n".repeat(count - 2);
        client.try_send(ASK.replace("Host: localhost\r\n", &format!("Host: localhost\r\n{headers}")));
        let expected = if count <= 64 { 200 } else { 431 };
        assert_eq!(client.answer().status, expected, "{count} headers");
    }
    // Heads that fit into one read, heads that would fit into the express lane's buffer, and one larger than both.
    for bytes in [30 * 1_024, 33 * 1_024, 40 * 1_024, 60 * 1_024, 1_024 * 1_024] {
        let mut client = server.connect();
        client.try_send(
            ASK.replace("Host: localhost\r\n", &format!("Host: localhost\r\nx: {}\r\n", "y".repeat(bytes))),
        );
        let expected = if bytes < 32 * 1_024 { 200 } else { 431 };
        assert_eq!(client.answer().status, expected, "{bytes} bytes");
    }
    assert_eq!(server.connect().post("/v1/check", "{}").status, 200, "others do not notice");
}

#[test]
fn a_name_is_not_multiplied_by_its_values() {
    let server = Server::start();
    let name = format!("\\u0061{}", "n".repeat(400_000));
    let values = vec!["1"; 200_000].join(",");
    let hostile = format!("{{\"requests\":[{{\"headers\":{{\"{name}\":[{values}]}}}}]}}");
    let answer = server.connect().post("/v1/check/batch", hostile);
    assert_eq!(answer.status, 400);
    let field = answer.json()["field"].as_str().map(str::to_owned);
    assert!(field.is_some_and(|field| field.starts_with("requests[0].headers.an")), "{}", answer.body);
    assert!(answer.body.len() < 1_000, "it is not sent back whole");
}

#[tokio::test]
async fn half_a_beginning_is_waited_for_once() {
    let server = Server::start();
    let mut stream = tokio::net::TcpStream::connect(server.address).await.expect("the server listens");
    // This test measures real time.
    tokio::time::sleep(Duration::from_secs(3)).await;
    stream.write_all(b"PRI * HT").await.expect("it is still waited for");
    let closed = tokio::time::timeout(Duration::from_millis(4_700), stream.read(&mut [0])).await;
    assert!(!matches!(closed.expect("five seconds in all, not from the first byte on"), Ok(1)));
}
