//! Server reflection: what can be asked for, so that tools need no files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use tokio::time::timeout;

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
use crate::bounds::IDLE_TIMEOUT;
use crate::serve::{CountedBytes, ResponseBacklog};

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// Answers one question after the other.
pub(super) async fn converse(
    mut body: Body,
    respond: SendResponse<CountedBytes>,
    backlog: &Arc<ResponseBacklog>,
) {
    let Some(mut stream) = reply::open(respond) else { return };
    let error = loop {
        let message = match timeout(IDLE_TIMEOUT, body.next()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => break None,
            Ok(Err(error)) => break Some(error),
            Err(_) => break Some(CallError::TooSlow),
        };
        let asked = match ServerReflectionRequest::decode(message) {
            Ok(asked) => asked,
            Err(error) => break Some(error.into()),
        };
        // What a client does not read must not pile up: each answer waits until the last was taken.
        if let Err(no_room) = backlog.wait_for_capacity().await {
            break Some(no_room.into());
        }
        let answer = backlog.count_until_sent(frame::encode(&CATALOGUE.answer(asked)));
        let bytes = answer.remaining();
        stream.reserve_capacity(bytes);
        match timeout(IDLE_TIMEOUT, room(&mut stream, bytes)).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => break Some(CallError::TooSlow),
        }
        if stream.send_data(answer, false).is_err() {
            return;
        }
    };
    reply::close(stream, error.as_ref());
}

/// Waits until the client takes so much; `false` if it is gone.
async fn room(stream: &mut h2::SendStream<CountedBytes>, bytes: usize) -> bool {
    while stream.capacity() < bytes {
        if !matches!(std::future::poll_fn(|cx| stream.poll_capacity(cx)).await, Some(Ok(_))) {
            return false;
        }
    }
    true
}

/// All files, by what is in them.
struct Catalogue {
    files: Vec<Described>,
    by_name: BTreeMap<String, usize>,
    by_symbol: BTreeMap<String, usize>,
    services: Vec<String>,
}

/// A file, and the places of those that it imports.
struct Described {
    encoded: Bytes,
    imports: Vec<usize>,
}

impl Catalogue {
    fn new() -> Catalogue {
        let set = FileDescriptorSet::decode(DESCRIPTORS).expect("a test checks that it is current");
        let by_name: BTreeMap<String, usize> =
            set.file.iter().enumerate().map(|(place, file)| (file.name().to_owned(), place)).collect();
        let (mut by_symbol, mut services) = (BTreeMap::new(), Vec::new());
        for (place, file) in set.file.iter().enumerate() {
            by_symbol.extend(symbols(file).into_iter().map(|symbol| (symbol, place)));
            let package = file.package();
            services.extend(file.service.iter().map(|service| format!("{package}.{}", service.name())));
        }
        let imports = |file: &FileDescriptorProto| {
            file.dependency.iter().filter_map(|name| by_name.get(name).copied()).collect()
        };
        let described = |file: &FileDescriptorProto| Described {
            encoded: file.encode_to_vec().into(),
            imports: imports(file),
        };
        Catalogue { files: set.file.iter().map(described).collect(), by_name, by_symbol, services }
    }

    fn answer(&self, asked: ServerReflectionRequest) -> ServerReflectionResponse {
        let answer = match &asked.message_request {
            Some(MessageRequest::ListServices(_)) => {
                let named = |name: &String| ServiceResponse { name: name.clone() };
                let service = self.services.iter().map(named).collect();
                MessageResponse::ListServicesResponse(ListServiceResponse { service })
            }
            Some(MessageRequest::FileByFilename(name)) => self.file(self.by_name.get(name), name),
            Some(MessageRequest::FileContainingSymbol(name)) => {
                self.file(self.by_symbol.get(name.trim_start_matches('.')), name)
            }
            Some(MessageRequest::FileContainingExtension(asked)) => not_found(&asked.containing_type),
            Some(MessageRequest::AllExtensionNumbersOfType(name)) => not_found(name),
            None => {
                MessageResponse::ErrorResponse(error(Code::InvalidArgument, "nothing is asked".to_owned()))
            }
        };
        ServerReflectionResponse {
            valid_host: asked.host.clone(),
            original_request: Some(asked),
            message_response: Some(answer),
        }
    }

    /// A file with all that it needs.
    fn file(&self, place: Option<&usize>, name: &str) -> MessageResponse {
        let Some(&place) = place else { return not_found(name) };
        let (mut seen, mut ahead) = (BTreeSet::from([place]), vec![place]);
        let mut file_descriptor_proto = Vec::new();
        while let Some(place) = ahead.pop() {
            let file = &self.files[place];
            file_descriptor_proto.push(file.encoded.clone());
            ahead.extend(file.imports.iter().filter(|import| seen.insert(**import)));
        }
        MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
    }
}

fn not_found(name: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(error(Code::NotFound, format!("there is no {name}")))
}

fn error(code: Code, error_message: String) -> ErrorResponse {
    ErrorResponse { error_code: code as i32, error_message }
}

/// Everything that a file names.
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
