//! The gRPC listener of the real binary, on a real socket.

mod authz;
mod client;
mod hostile;
mod rls;
mod services;

#[path = "../../src/grpc/proto/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::enum_variant_names,
    reason = "it is generated"
)]
mod proto;
