//! Spans reach an OTLP collector, with the right attributes.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tidegate::engine::Request;
use tidegate_server::node::Node;
use tidegate_server::observe::{Origin, Protocol, SpanOutcome, Traces, TracesError};
use tidegate_server::settings::Settings;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{POLICY, node};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// A collector that parses gRPC by hand, so that the test does not rely on the sender's own library.
async fn collector() -> (SocketAddr, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(collect(stream, sender.clone()));
        }
    });
    (address, received)
}

async fn collect(stream: TcpStream, to: mpsc::UnboundedSender<ExportTraceServiceRequest>) {
    let mut connection = h2::server::handshake(stream).await.expect("it speaks HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let to = to.clone();
        tokio::spawn(async move {
            assert_eq!(request.uri().path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
            let mut body = request.into_body();
            let mut message = BytesMut::new();
            while let Some(chunk) = body.data().await {
                let chunk = chunk.expect("it arrives");
                body.flow_control().release_capacity(chunk.len()).expect("it was received");
                message.extend_from_slice(&chunk);
            }
            assert_eq!(
                (message.get_u8(), message.get_u32() as usize),
                (0, message.len()),
                "one plain message"
            );
            let spans = ExportTraceServiceRequest::decode(message.freeze()).expect("it is what it says");
            let headers = http::Response::builder().header("content-type", "application/grpc").body(());
            let mut stream = respond.send_response(headers.expect("it is valid"), false).expect("it listens");
            stream.send_data(framed(&ExportTraceServiceResponse::default()), false).expect("it listens");
            let status = [("grpc-status", "0")].map(|(name, value)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            });
            stream.send_trailers(status.into_iter().collect()).expect("it listens");
            // The receiver is gone if the test has ended.
            _ = to.send(spans);
        });
    }
}

fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("it is small"));
    message.encode(&mut frame).expect("there is room");
    frame.freeze()
}

fn attribute<'s>(span: &'s Span, name: &str) -> Option<&'s Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    found.value.as_ref()?.value.as_ref()
}

fn text(text: &str) -> Option<Value> {
    Some(Value::StringValue(text.to_owned()))
}

/// A node that sends its spans to this collector.
fn traced(endpoint: &str) -> Node {
    let mut node = node(POLICY, Settings::default());
    node.set_traces(Traces::to(endpoint).expect("the endpoint is one"));
    node
}

/// Shuts down on a blocking thread.
async fn shut_down(node: Node) -> Node {
    tokio::task::spawn_blocking(move || {
        node.traces().shutdown();
        node
    })
    .await
    .expect("it does not panic")
}

#[tokio::test]
async fn decisions_arrive_as_spans() {
    let (address, mut received) = collector().await;
    let node = traced(&format!("http://{address}"));
    let origin = Origin { protocol: Protocol::Http, traceparent: Some(PARENT) };
    let request = Request::new().user("secret-user");
    for _ in 0..3 {
        let _ = node.check(origin, &request).await;
    }
    let _ = node.check(Origin { traceparent: Some(UNSAMPLED), ..origin }, &request).await;
    let _ = node.check(Origin { protocol: Protocol::Rls, traceparent: Some("nonsense") }, &request).await;
    let node = shut_down(node).await;
    let mut spans = Vec::new();
    while spans.len() < 4 {
        let request = received.recv().await.expect("the collector lives");
        assert!(!format!("{request:?}").contains("secret"), "spans do not identify the client");
        let resource = request.resource_spans[0].resource.clone().expect("it says what it is");
        assert!(resource.attributes.iter().any(|attribute| attribute.key == "service.name"));
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    assert_eq!(spans.len(), 4, "the one that is not sampled is not sent");
    let denied = &spans[2];
    assert_eq!(denied.name, "tidegate.decide");
    assert_eq!(denied.trace_id[..2], [0x4b, 0xf9]);
    assert_eq!(denied.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert!(denied.end_time_unix_nano >= denied.start_time_unix_nano);
    assert!(denied.start_time_unix_nano > 1_000_000_000_000_000_000);
    assert_eq!(attribute(denied, "tidegate.protocol").cloned(), text("http"));
    assert_eq!(attribute(denied, "tidegate.reason").cloned(), text("token_bucket_exceeded"));
    assert_eq!(attribute(denied, "tidegate.violated_rule").cloned(), text("per-user"));
    assert_eq!(attribute(denied, "tidegate.allowed"), Some(&Value::BoolValue(false)));
    assert_eq!(attribute(denied, "tidegate.limits"), Some(&Value::IntValue(2)));
    assert_eq!(attribute(&spans[0], "tidegate.violated_rule"), None);
    let orphan = &spans[3];
    assert!(orphan.parent_span_id.is_empty() && orphan.trace_id != denied.trace_id, "it begins a trace");
    assert_eq!(
        [SpanOutcome::Made, SpanOutcome::Exported].map(|outcome| node.traces().spans(outcome)),
        [4, 4]
    );
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_nothing_but_spans() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let node = traced(&format!("http://{address}"));
    let decision =
        node.check(Origin { protocol: Protocol::Resp, traceparent: None }, &Request::new().user("a")).await;
    assert!(decision.is_allowed());
    drop(decision);
    let node = shut_down(node).await;
    let counts = [SpanOutcome::Made, SpanOutcome::Exported].map(|outcome| node.traces().spans(outcome));
    assert_eq!(counts, [1, 0]);
}

#[test]
fn endpoints_that_are_none_are_refused_at_start() {
    for endpoint in
        ["", "127.0.0.1:4317", "https://me:s3cret@collector:4317", "ftp://x", "http://", "http://:1"]
    {
        let error = Traces::to(endpoint).expect_err(endpoint);
        assert!(matches!(error, TracesError::Endpoint) && !error.to_string().contains("s3cret"), "{error}");
    }
    assert!(!Traces::default().is_on());
}
