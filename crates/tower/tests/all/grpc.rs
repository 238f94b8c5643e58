//! gRPC refusals, on the wire and as a tonic client sees them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use crate::common::{get, header, layer, send};
use bytes::{Buf, BufMut, Bytes};
use http::{Request, Response, StatusCode};
use tidegate::engine::Policy;
use tidegate_tower::RateLimitLayer;
use tokio::net::TcpListener;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tower::Service;

fn grpc_call() -> http::request::Builder {
    get("/test.Echo/Say").method("POST").header("content-type", "application/grpc+proto")
}

#[test]
fn a_refusal_is_a_status_of_grpc() {
    let (_, layer) = layer(&["name: all, scope: global, sustained: { rate: 1, window: second }"]);
    assert_eq!(header(&send(&layer, grpc_call()), "x-service"), "echo");
    let refused = send(&layer, grpc_call());
    assert_eq!((refused.status(), refused.body().as_str()), (StatusCode::OK, ""));
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("grpc-status", "8"),
        ("grpc-message", "rate limited: token_bucket_exceeded (all), retry after 1 s"),
        ("grpc-retry-pushback-ms", "1000"),
        ("retry-after", "1"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-rule", "all"),
    ] {
        assert_eq!(header(&refused, name), value, "{name}");
    }
}

#[test]
fn what_never_passes_is_not_to_be_retried() {
    let (_, layer) = layer(&["name: all, scope: global, cost: 2, sustained: { rate: 1 }"]);
    let refused = send(&layer, grpc_call());
    assert_eq!((header(&refused, "grpc-status"), header(&refused, "grpc-retry-pushback-ms")), ("8", "-1"));
}

#[test]
fn a_server_that_is_short_of_room_is_unavailable() {
    let (_, layer) =
        layer(&["name: all, scope: global, strategy: queue, queue: { max_depth: 9, max_wait: 1ms }, \
         sustained: { rate: 1, window: second }"]);
    let _ = send(&layer, grpc_call());
    assert_eq!(header(&send(&layer, grpc_call()), "grpc-status"), "14");
}

/// A codec for messages of plain bytes, so that no schema is needed.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A service as tonic generates it, with one method, which returns its input.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = std::future::Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(tonic::Response::new(request.into_inner())))
    }
}

impl Service<Request<tonic::body::Body>> for Echo {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async { Ok(tonic::server::Grpc::new(Raw).unary(Echo, request).await) })
    }
}

async fn say(channel: &Channel, word: &'static str) -> Result<tonic::Response<Bytes>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/test.Echo/Say");
    client.unary(tonic::Request::new(Bytes::from_static(word.as_bytes())), path, Raw).await
}

#[tokio::test]
async fn a_tonic_client_sees_a_proper_status() {
    let policy = Policy::parse(
        "version: 1\n\
         limits:\n\
         - { name: per-ip, key: [ip], match: { path: /test.Echo/* }, sustained: { rate: 1, window: hour } }\n",
    );
    let layer = RateLimitLayer::for_policy(policy.unwrap())
        .unwrap()
        .peer_address(|extensions| extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(Echo);
    let serving = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let said = say(&channel, "hello").await.unwrap();
    assert_eq!(said.get_ref(), "hello");
    assert_eq!(said.metadata().get("x-ratelimit-remaining").unwrap(), "0");

    let refused = say(&channel, "again").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "rate limited: token_bucket_exceeded (per-ip), retry after 3600 s");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "3600");
    serving.abort();
}
