//! HTTP/2 by prior knowledge.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::Server;

type Sender = http2::SendRequest<Full<Bytes>>;

async fn connect(server: &Server) -> Sender {
    let stream = tokio::net::TcpStream::connect(server.address).await.expect("the server listens");
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn post(sender: &mut Sender, path: &str, body: impl Into<Bytes>) -> (u16, String) {
    let request = http::Request::post(format!("http://localhost{path}"))
        .body(Full::new(body.into()))
        .expect("a request");
    let answer = sender.send_request(request).await.expect("it is answered");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn decisions_come_by_http2_too() {
    let server = Server::start();
    let mut sender = connect(&server).await;
    for expected in [200, 200, 200, 429] {
        let (status, body) = post(&mut sender, "/v1/check", r#"{"user":"h2"}"#).await;
        assert_eq!(status, expected, "{body}");
    }
    let (status, body) = post(&mut sender, "/v1/nothing", "").await;
    assert!(status == 404 && body.contains("/v1/check/batch"), "{body}");
    let (status, _) = post(&mut sender, "/v1/check", vec![b' '; 64 * 1_024 + 1]).await;
    assert_eq!(status, 413);
    let batch = format!("{{\"requests\":[{}]}}", vec!["{}"; 1_000].join(","));
    let (status, body) = post(&mut sender, "/v1/check/batch", batch).await;
    assert!(status == 200 && body.starts_with("{\"decisions\":[{"));
}

#[tokio::test]
async fn many_at_once_are_all_answered() {
    let server = Server::start();
    let sender = connect(&server).await;
    let asking: Vec<_> = (0..300)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let ask = r#"{"key":"many","capacity":100,"rate":1,"window":"day"}"#;
                post(&mut sender, "/v1/throttle", ask).await.0
            })
        })
        .collect();
    let mut admitted = 0;
    for answer in asking {
        admitted += usize::from(answer.await.expect("it is answered") == 200);
    }
    assert_eq!(admitted, 100);
}
