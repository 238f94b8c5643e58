//! Server reflection: describes the services, so that tools such as grpcurl need no proto files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use tokio::time::timeout;

use super::http2::call_stream::ResponseStream;
use super::proto::DESCRIPTORS;
use super::proto::grpc::reflection::v1::server_reflection_request::MessageRequest;
use super::proto::grpc::reflection::v1::server_reflection_response::MessageResponse;
use super::proto::grpc::reflection::v1::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use super::transport::body::Body;
use super::transport::error::{CallError, Code};
use super::transport::{frame, reply};
use crate::bounds::{BODY_TIMEOUT, IDLE_TIMEOUT};
use crate::serve::ResponseBacklog;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// Answers the requests of a stream, one after the other.
pub(super) async fn converse(mut body: Body, mut stream: ResponseStream, backlog: &Arc<ResponseBacklog>) {
    reply::open(&mut stream);
    let error = loop {
        let message = match next_request(&mut body).await {
            Ok(Some(message)) => message,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let request = match ServerReflectionRequest::decode(message) {
            Ok(request) => request,
            Err(error) => break Some(error.into()),
        };
        // Unread responses must not pile up: the next request is read when the response before is sent.
        if let Err(full) = backlog.wait_for_capacity().await {
            break Some(full.into());
        }
        let answer = backlog.count_until_sent(frame::encode(&CATALOGUE.answer(request)));
        if stream.send_data(answer).is_err() {
            return;
        }
        // A response that the client does not read in time is given up with its stream.
        match timeout(IDLE_TIMEOUT, std::future::poll_fn(|cx| stream.poll_sent(cx))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    };
    reply::close(stream, error.as_ref());
}

/// Waits for the next request. A client may be idle between requests, but one that has begun must come in time.
async fn next_request(body: &mut Body) -> Result<Option<Bytes>, CallError> {
    timeout(IDLE_TIMEOUT, body.begun()).await.unwrap_or(Err(CallError::TooSlow))?;
    timeout(BODY_TIMEOUT, body.next()).await.unwrap_or(Err(CallError::TooSlow))
}

/// All proto files, by name and by symbol.
struct Catalogue {
    files: Vec<DescribedFile>,
    by_name: BTreeMap<String, usize>,
    by_symbol: BTreeMap<String, usize>,
    services: Vec<String>,
}

/// A proto file, and the indexes of those that it imports.
struct DescribedFile {
    encoded: Bytes,
    imports: Vec<usize>,
}

impl Catalogue {
    fn new() -> Catalogue {
        let set =
            FileDescriptorSet::decode(DESCRIPTORS).expect("a test checks that the file is valid and current");
        let by_name: BTreeMap<String, usize> =
            set.file.iter().enumerate().map(|(index, file)| (file.name().to_owned(), index)).collect();
        let (mut by_symbol, mut services) = (BTreeMap::new(), Vec::new());
        for (index, file) in set.file.iter().enumerate() {
            by_symbol.extend(symbols(file).into_iter().map(|symbol| (symbol, index)));
            let package = file.package();
            services.extend(file.service.iter().map(|service| format!("{package}.{}", service.name())));
        }
        let imports = |file: &FileDescriptorProto| {
            file.dependency.iter().filter_map(|name| by_name.get(name).copied()).collect()
        };
        let described = |file: &FileDescriptorProto| DescribedFile {
            encoded: file.encode_to_vec().into(),
            imports: imports(file),
        };
        Catalogue { files: set.file.iter().map(described).collect(), by_name, by_symbol, services }
    }

    fn answer(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
        let answer = match &request.message_request {
            Some(MessageRequest::ListServices(_)) => {
                let named = |name: &String| ServiceResponse { name: name.clone() };
                let service = self.services.iter().map(named).collect();
                MessageResponse::ListServicesResponse(ListServiceResponse { service })
            }
            Some(MessageRequest::FileByFilename(name)) => self.file(self.by_name.get(name), name),
            Some(MessageRequest::FileContainingSymbol(name)) => {
                self.file(self.by_symbol.get(name.trim_start_matches('.')), name)
            }
            Some(MessageRequest::FileContainingExtension(extension)) => not_found(&extension.containing_type),
            Some(MessageRequest::AllExtensionNumbersOfType(name)) => not_found(name),
            None => MessageResponse::ErrorResponse(error(
                Code::InvalidArgument,
                "the request is empty".to_owned(),
            )),
        };
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(answer),
        }
    }

    /// A file and all files that it imports, directly or not.
    fn file(&self, index: Option<&usize>, name: &str) -> MessageResponse {
        let Some(&index) = index else { return not_found(name) };
        let (mut seen, mut ahead) = (BTreeSet::from([index]), vec![index]);
        let mut file_descriptor_proto = Vec::new();
        while let Some(index) = ahead.pop() {
            let file = &self.files[index];
            file_descriptor_proto.push(file.encoded.clone());
            ahead.extend(file.imports.iter().filter(|import| seen.insert(**import)));
        }
        MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
    }
}

fn not_found(name: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(error(Code::NotFound, format!("{name} does not exist")))
}

fn error(code: Code, error_message: String) -> ErrorResponse {
    ErrorResponse { error_code: code as i32, error_message }
}

/// The full names of everything that a file defines.
fn symbols(file: &FileDescriptorProto) -> Vec<String> {
    let mut symbols = Vec::new();
    let within = |name: &str| format!("{}.{name}", file.package());
    file.enum_type.iter().for_each(|kind| symbols.push(within(kind.name())));
    for service in &file.service {
        let service_name = within(service.name());
        symbols.extend(service.method.iter().map(|method| format!("{service_name}.{}", method.name())));
        symbols.push(service_name);
    }
    file.message_type.iter().for_each(|message| message_symbols(file.package(), message, &mut symbols));
    symbols
}

fn message_symbols(scope: &str, message: &DescriptorProto, symbols: &mut Vec<String>) {
    let name = format!("{scope}.{}", message.name());
    message.enum_type.iter().for_each(|kind| symbols.push(format!("{name}.{}", kind.name())));
    message.field.iter().for_each(|field| symbols.push(format!("{name}.{}", field.name())));
    message.nested_type.iter().for_each(|nested| message_symbols(&name, nested, symbols));
    symbols.push(name);
}
