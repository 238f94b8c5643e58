//! Health and reflection.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use prost::Message;
use prost_types::FileDescriptorProto;

use super::client::{Server, finish, framed};
use super::proto::grpc::health::v1::health_check_response::ServingStatus;
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};
use super::proto::grpc::reflection::v1::server_reflection_request::MessageRequest;
use super::proto::grpc::reflection::v1::server_reflection_response::MessageResponse;
use super::proto::grpc::reflection::v1::{ServerReflectionRequest, ServerReflectionResponse};

const POLICY: &str = "version: 1\nlimits: []\n";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

#[tokio::test]
async fn health_is_told_by_service() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let rls = "envoy.service.ratelimit.v3.RateLimitService";
    for service in ["", rls, "envoy.service.auth.v3.Authorization"] {
        let asked = HealthCheckRequest { service: service.into() };
        let answer: HealthCheckResponse = client.ask(HEALTH, &asked).await;
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = framed(&HealthCheckRequest { service: "else".into() });
    assert_eq!(client.call(HEALTH, &[], unknown).await.status(), "5");
}

#[tokio::test]
async fn health_can_be_watched() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    for (service, wanted) in [("", ServingStatus::Serving), ("else", ServingStatus::ServiceUnknown)] {
        let (response, mut stream) = client.open("/grpc.health.v1.Health/Watch", &[]).await;
        stream.send_data(framed(&HealthCheckRequest { service: service.into() }), true).expect("open");
        let mut body = response.await.expect("it is answered").into_body();
        let first = body.data().await.expect("at once").expect("sound");
        let status = HealthCheckResponse::decode(&first[5..]).expect("it can be read");
        assert_eq!(status.status(), wanted);
    }
}

/// The responses of reflection to several requests in one stream.
async fn reflect(version: &str, questions: &[MessageRequest]) -> Vec<MessageResponse> {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
    let (response, mut stream) = client.open(&path, &[]).await;
    for question in questions {
        let asked = ServerReflectionRequest { host: "h".into(), message_request: Some(question.clone()) };
        stream.send_data(framed(&asked), false).expect("open");
    }
    stream.send_data(Bytes::new(), true).expect("open");
    let ended = finish(response).await;
    assert_eq!(ended.status(), "0");
    let (mut answers, mut rest) = (Vec::new(), ended.messages.freeze());
    while rest.has_remaining() {
        rest.advance(1);
        let length = rest.get_u32() as usize;
        let answer = ServerReflectionResponse::decode(rest.split_to(length)).expect("it can be read");
        answers.push(answer.message_response.expect("it says something"));
    }
    assert_eq!(answers.len(), questions.len());
    answers
}

fn files(answer: &MessageResponse) -> BTreeSet<String> {
    let MessageResponse::FileDescriptorResponse(files) = answer else { panic!("{answer:?}") };
    let name =
        |file: &Bytes| FileDescriptorProto::decode(file.clone()).expect("a description").name().to_owned();
    files.file_descriptor_proto.iter().map(name).collect()
}

#[tokio::test]
async fn reflection_describes_every_service() {
    for version in ["v1", "v1alpha"] {
        let answers = reflect(
            version,
            &[
                MessageRequest::ListServices(String::new()),
                MessageRequest::FileContainingSymbol("envoy.service.ratelimit.v3.RateLimitService".into()),
                MessageRequest::FileByFilename("google/protobuf/duration.proto".into()),
                MessageRequest::FileContainingSymbol("nowhere.Nothing".into()),
                MessageRequest::AllExtensionNumbersOfType("google.rpc.Status".into()),
            ],
        )
        .await;
        let MessageResponse::ListServicesResponse(listed) = &answers[0] else { panic!("{answers:?}") };
        let listed: BTreeSet<&str> = listed.service.iter().map(|service| service.name.as_str()).collect();
        let wanted = [
            "envoy.service.auth.v3.Authorization",
            "envoy.service.ratelimit.v3.RateLimitService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(listed, BTreeSet::from(wanted));
        let rls = files(&answers[1]);
        assert!(rls.contains("envoy/service/ratelimit/v3/rls.proto") && rls.len() == 7, "{rls:?}");
        assert_eq!(files(&answers[2]).len(), 1);
        for refused in &answers[3..] {
            assert!(matches!(refused, MessageResponse::ErrorResponse(error) if error.error_code == 5));
        }
    }
}
