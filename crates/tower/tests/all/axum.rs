//! End to end: axum on a real port, called over a TCP connection.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tidegate::engine::Policy;
use tidegate_tower::{Degraded, RateLimitLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const POLICY: &str = "
version: 1
limits:
  - { name: per-ip, key: [ip], match: { path: /api/** }, sustained: { rate: 2, window: hour } }
  - name: search
    scope: global
    match: { path: /search }
    sustained: { rate: 1, window: hour }
    strategy: degrade
    degrade: { tag: cached }
";

/// Starts the server; it ends with the test's runtime.
async fn serve() -> SocketAddr {
    let layer = RateLimitLayer::for_policy(Policy::parse(POLICY).unwrap()).unwrap();
    let search = async |degraded: Option<axum::Extension<Degraded>>| {
        degraded.map_or("fresh".to_owned(), |tag| tag.0.0.to_string())
    };
    let router = Router::new()
        .nest("/api", Router::new().route("/videos", get(async || "videos")).layer(layer.clone()))
        .route("/search", get(search).layer(layer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// The whole response, as text.
async fn send(server: SocketAddr, path: &str, headers: &str) -> String {
    let mut connection = TcpStream::connect(server).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    response
}

fn has(response: &str, parts: &[&str]) {
    for part in parts {
        assert!(response.contains(part), "no {part:?} in {response}");
    }
}

#[tokio::test]
async fn axum_on_a_real_port() {
    let server = serve().await;

    // The connection comes from this machine, which is a trusted proxy.
    let client = "x-forwarded-for: 203.0.113.7\r\n";
    has(
        &send(server, "/api/videos", client).await,
        &[
            "HTTP/1.1 200 OK\r\n",
            "\r\nx-ratelimit-limit: 2\r\n",
            "\r\nx-ratelimit-remaining: 1\r\n",
            "\r\n\r\nvideos",
        ],
    );
    has(&send(server, "/api/videos", client).await, &["200 OK", "x-ratelimit-remaining: 0"]);
    let refused = send(server, "/api/videos", client).await;
    has(
        &refused,
        &[
            "HTTP/1.1 429 Too Many Requests\r\n",
            "\r\nretry-after: 1800\r\n",
            "\r\ncontent-type: application/problem+json\r\n",
            "\r\nx-ratelimit-rule: per-ip\r\n",
        ],
    );
    let (_, body) = refused.split_once("\r\n\r\n").unwrap();
    has(&refused, &[&format!("\r\ncontent-length: {}\r\n", body.len())]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["violated_rule"], "per-ip");
    has(&send(server, "/api/videos", "x-forwarded-for: 203.0.113.8\r\n").await, &["200 OK"]);

    has(&send(server, "/search", "").await, &["200 OK", "\r\n\r\nfresh"]);
    has(
        &send(server, "/search", "").await,
        &["200 OK", "\r\nx-ratelimit-degraded: cached\r\n", "\r\n\r\ncached"],
    );
}
