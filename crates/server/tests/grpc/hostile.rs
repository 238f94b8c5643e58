//! Calls that are wrong, by accident or on purpose.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{AUTHZ, Client, RLS, Server, finish, framed};
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};

const POLICY: &str = "version: 1\nlimits: []\n";

async fn is_well(client: &mut Client) {
    let _served: HealthCheckResponse =
        client.ask("/grpc.health.v1.Health/Check", &HealthCheckRequest::default()).await;
}

#[tokio::test]
async fn what_is_no_call_is_refused() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let body = Bytes::from_static(b"\0\0\0\0\0");
    let unknown = client.call("/nowhere.Service/Method", &[], body.clone()).await;
    assert_eq!((unknown.status(), unknown.message()), ("12", "unknown method /nowhere.Service/Method"));
    let long = client.call(&format!("/{}", "a".repeat(4_000)), &[], body.clone()).await;
    assert_eq!(
        long.message(),
        format!("unknown method /{}%E2%80%A6", "a".repeat(127)),
        "it is quoted in part"
    );
    let json = client.call(RLS, &[("content-type", "application/json")], body.clone()).await;
    assert_eq!((json.http, json.status()), (415, "none"));
    for compressed in [
        client.call(RLS, &[("grpc-encoding", "gzip")], body).await,
        client.call(RLS, &[], Bytes::from_static(b"\x01\0\0\0\x01a")).await,
    ] {
        assert_eq!(compressed.status(), "12");
        assert_eq!(compressed.trailers["grpc-accept-encoding"], "identity");
    }
    is_well(&mut client).await;
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    for path in [RLS, AUTHZ] {
        for body in [&b""[..], b"\0\0", b"\0\0\0\0\x05ab", b"\0\0\0\0\x03\xff\xff\xff"] {
            let ended = client.call(path, &[], Bytes::copy_from_slice(body)).await;
            assert_eq!(ended.status(), "3", "{body:?}: {}", ended.message());
        }
    }
    is_well(&mut client).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let said = client.call(RLS, &[], Bytes::from_static(b"\0\0\x01\0\x01")).await;
    assert_eq!((said.status(), said.message()), ("8", "the message is larger than 65536 bytes"));
    let (response, mut stream) = client.open(RLS, &[]).await;
    stream.send_data(vec![0; 100_000].into(), false).expect("open");
    let sent = finish(response).await;
    assert_eq!(sent.status(), "8", "it need not end to be refused");
    let service = "a".repeat(65_000);
    let large = client.call(RLS, &[], framed(&HealthCheckRequest { service })).await;
    assert_eq!(large.message(), "descriptors must not be empty", "64 KiB are read");
    is_well(&mut client).await;
}

#[tokio::test]
async fn a_message_may_come_in_pieces() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let whole = framed(&HealthCheckRequest { service: "else".into() });
    let (response, mut stream) = client.open("/grpc.health.v1.Health/Check", &[]).await;
    for piece in whole.chunks(1) {
        stream.send_data(Bytes::copy_from_slice(piece), false).expect("open");
        tokio::task::yield_now().await;
    }
    stream.send_data(Bytes::new(), true).expect("open");
    assert_eq!(finish(response).await.message(), "unknown service else");
}

#[tokio::test]
async fn who_does_not_speak_http2_is_hung_up_on() {
    let server = Server::start(POLICY);
    let mut socket = TcpStream::connect(server.address).await.expect("it listens");
    socket.write_all(b"GET / HTTP/1.1\r\nHost: tidegate\r\n\r\n").await.expect("it can be sent");
    let mut said = Vec::new();
    // The connection may end by a reset.
    _ = socket.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP/1.1 2"));
    is_well(&mut server.connect().await).await;
}

#[tokio::test]
async fn many_calls_at_once_are_all_answered() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    // After the first response the client knows the server's limit of concurrent streams.
    is_well(&mut client).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let mut client = Client { send: client.send.clone() };
        calls.spawn(async move { is_well(&mut client).await });
    }
    assert_eq!(calls.join_all().await.len(), 1_000);
}
