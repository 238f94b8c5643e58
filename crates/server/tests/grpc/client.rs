//! A server, and a plain gRPC client for it.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;

use crate::support::home::Home;
use crate::support::server;

/// The binary, with nothing but its gRPC listener.
pub(crate) struct Server {
    _running: server::Server,
    _home: Home,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(policy: &str) -> Server {
        let home = Home::new();
        let mut command = server::listening_only("grpc", "127.0.0.1:0");
        command.args(["--policy", &home.write("policy.yaml", policy)]);
        let running = server::Server::start_with(command);
        Server { address: running.socket("grpc"), _running: running, _home: home }
    }

    pub(crate) async fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).await.expect("it listens");
        let (send, connection) = h2::client::handshake(socket).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Client { send }
    }
}

pub(crate) const RLS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub(crate) const AUTHZ: &str = "/envoy.service.auth.v3.Authorization/Check";

/// One connection.
pub(crate) struct Client {
    pub(crate) send: SendRequest<Bytes>,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) http: u16,
    pub(crate) messages: BytesMut,
    /// The trailers, or the headers of a trailers-only response.
    pub(crate) trailers: HeaderMap,
}

impl Ended {
    pub(crate) fn status(&self) -> &str {
        self.trailers.get("grpc-status").map_or("none", |status| status.to_str().expect("a number"))
    }

    pub(crate) fn message(&self) -> &str {
        self.trailers.get("grpc-message").map_or("", |message| message.to_str().expect("a text"))
    }
}

impl Client {
    /// A unary call.
    pub(crate) async fn ask<A: Message, B: Message + Default>(&mut self, path: &str, message: &A) -> B {
        let ended = self.call(path, &[], framed(message)).await;
        assert_eq!((ended.http, ended.status()), (200, "0"), "{}", ended.message());
        B::decode(&ended.messages[5..]).expect("it can be read")
    }

    /// A call with this body and additional headers.
    pub(crate) async fn call(&mut self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Ended {
        let (response, mut stream) = self.open(path, headers).await;
        // A server that has refused the call already may not accept the body.
        _ = stream.send_data(body, true);
        finish(response).await
    }

    /// A call whose body is sent later.
    pub(crate) async fn open(
        &mut self,
        path: &str,
        more: &[(&str, &str)],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request =
            Request::post(format!("http://tidegate{path}")).header("te", "trailers").body(()).expect("sound");
        request.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
        for (name, value) in more {
            let name: http::HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        self.send = self.send.clone().ready().await.expect("the connection is open");
        self.send.send_request(request, false).expect("it can be sent")
    }
}

pub(crate) async fn finish(response: ResponseFuture) -> Ended {
    let response = response.await.expect("it is answered");
    let (head, mut body) = response.into_parts();
    let messages = rest(&mut body).await;
    let trailers = body.trailers().await.expect("it ends well").unwrap_or(head.headers);
    Ended { http: head.status.as_u16(), messages, trailers }
}

async fn rest(body: &mut RecvStream) -> BytesMut {
    let mut messages = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("it comes");
        body.flow_control().release_capacity(piece.len()).expect("it was taken");
        messages.extend_from_slice(&piece);
    }
    messages
}

pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.encoded_len() as u32);
    message.encode(&mut frame).expect("there is room");
    frame.freeze()
}
