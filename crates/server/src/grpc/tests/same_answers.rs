//! Calls over the wire get the same answers as without it, however the client's library and its socket cut them up.

use std::collections::VecDeque;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture};
use http::{HeaderMap, Request, Response};
use proptest::prelude::*;

use super::*;
use crate::grpc::health;

/// A call, and what is wanted of it.
#[derive(Clone, Debug)]
struct Asked {
    kind: Kind,
    text: String,
    /// Bytes of each piece of the body.
    piece: usize,
    has_trailers: bool,
    more_headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Health,
    RateLimit,
    /// Two descriptors are decoded by prost, in a future.
    JointRateLimit,
    NoMethod,
    NoMessage,
    /// The client resets it at once.
    Cancelled,
}

fn asked() -> impl Strategy<Value = Asked> {
    let kind = prop::sample::select(vec![
        Kind::Health,
        Kind::RateLimit,
        Kind::JointRateLimit,
        Kind::NoMethod,
        Kind::NoMessage,
        Kind::Cancelled,
    ]);
    let header = ("x-[a-z]{1,5}", "[!-~]{0,100}");
    (kind, "[a-z]{1,300}", 1_usize..500, any::<bool>(), prop::collection::vec(header, 0..4)).prop_map(
        |(kind, text, piece, has_trailers, more_headers)| Asked {
            kind,
            text,
            piece,
            has_trailers,
            more_headers,
        },
    )
}

impl Asked {
    fn path(&self) -> String {
        match self.kind {
            Kind::Health => "/grpc.health.v1.Health/Check".to_owned(),
            Kind::NoMethod => format!("/{}", self.text),
            Kind::RateLimit | Kind::JointRateLimit | Kind::NoMessage | Kind::Cancelled => {
                "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".to_owned()
            }
        }
    }

    fn message(&self) -> Vec<u8> {
        let entry = Entry { key: "user_id".into(), value: self.text.clone() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
        let asking = |count: usize| {
            let (domain, descriptors) = ("d".into(), vec![descriptor; count]);
            RateLimitRequest { domain, descriptors, ..RateLimitRequest::default() }.encode_to_vec()
        };
        match self.kind {
            Kind::Health => HealthCheckRequest { service: self.text.clone() }.encode_to_vec(),
            Kind::RateLimit | Kind::NoMethod | Kind::Cancelled => asking(1),
            Kind::JointRateLimit => asking(2),
            Kind::NoMessage => vec![0xff; self.text.len()],
        }
    }

    /// The status and the message of the answer, without a wire.
    fn wanted(&self, node: &Node) -> (String, Vec<u8>) {
        let message = Bytes::from(self.message());
        let answer = match self.kind {
            Kind::Health => health::check(node, message),
            Kind::NoMethod => return ("12".to_owned(), Vec::new()),
            Kind::RateLimit | Kind::JointRateLimit | Kind::NoMessage | Kind::Cancelled => {
                let origin = Origin { protocol: Protocol::Rls, traceparent: None };
                let peer = Peer { address: [127, 0, 0, 1].into(), on_loopback: true, alpn_http2: None };
                let answer = rls::should_rate_limit(node, origin, peer, message);
                answer.now_or_never().expect("memory answers at once")
            }
        };
        match answer {
            Ok(message) => ("0".to_owned(), message.to_vec()),
            Err(error) => ((error.code() as u16).to_string(), Vec::new()),
        }
    }

    /// Sends the call.
    async fn send(&self, client: &mut SendRequest<Bytes>) -> ResponseFuture {
        let uri = format!("http://tidegate{}", self.path());
        let mut request =
            Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        for (name, value) in &self.more_headers {
            request = request.header(name, value);
        }
        *client = client.clone().ready().await.expect("it is open");
        let (response, mut stream) =
            client.send_request(request.body(()).expect("sound"), false).expect("it is open");
        if self.kind == Kind::Cancelled {
            stream.send_reset(h2::Reason::CANCEL);
            return response;
        }
        let message = self.message();
        let prefix = u32::try_from(message.len()).expect("short").to_be_bytes();
        let body = [&[0], &prefix[..], &message[..]].concat();
        let mut pieces: VecDeque<&[u8]> = body.chunks(self.piece).collect();
        while let Some(piece) = pieces.pop_front() {
            let ends = pieces.is_empty() && !self.has_trailers;
            // A call that is refused by its head does not accept its body.
            _ = stream.send_data(Bytes::copy_from_slice(piece), ends);
        }
        if self.has_trailers {
            _ = stream.send_trailers(HeaderMap::from_iter([(
                http::HeaderName::from_static("checksum"),
                http::HeaderValue::from_static("1"),
            )]));
        }
        response
    }
}

/// The status and the message of a response.
async fn finish(response: Response<RecvStream>) -> Result<(String, Vec<u8>), h2::Error> {
    let (head, mut body) = response.into_parts();
    let message = all(&mut body).await?;
    let trailers = body.trailers().await?.unwrap_or(head.headers);
    Ok((trailers["grpc-status"].to_str().expect("a number").to_owned(), message))
}

async fn all(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut message = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        message.extend_from_slice(&piece);
    }
    Ok(message)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn calls_get_the_answers_that_they_get_without_a_wire(
        calls in prop::collection::vec(asked(), 1..60),
        pipe in 1_usize..4_000,
        window in 1_u32..70_000,
        connection_window in 65_535_u32..1_000_000,
        table in 0_u32..8_192,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let node = node();
            // The pipe holds so few bytes that every read and write is cut.
            let (client, server) = tokio::io::duplex(pipe);
            let peer = Peer { address: [127, 0, 0, 1].into(), on_loopback: true, alpn_http2: None };
            tokio::spawn(connection::serve(Arc::clone(&node), server, peer));
            let (mut client, connection) = Builder::new()
                .initial_window_size(window)
                .initial_connection_window_size(connection_window)
                .header_table_size(table)
                .handshake::<_, Bytes>(client)
                .await
                .expect("it speaks HTTP/2");
            tokio::spawn(connection);
            let mut answers = Vec::new();
            for call in &calls {
                let response = call.send(&mut client).await;
                answers.push(tokio::spawn(async { response.await.map(finish)?.await }));
            }
            for (call, answer) in calls.iter().zip(answers) {
                let answer = answer.await.expect("it ends");
                match call.kind {
                    Kind::Cancelled => assert!(answer.is_err(), "{answer:?}"),
                    _ => assert_eq!(answer.expect("it is answered"), call.wanted(&node), "{call:?}"),
                }
            }
        });
    }
}
