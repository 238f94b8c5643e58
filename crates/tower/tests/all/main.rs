//! The layer in front of services, as applications use it. One test binary, since linking takes longer than the tests.

mod addresses;
mod answers;
mod axum;
mod building;
mod clients;
mod common;
mod grpc;
mod identity;
mod queue;
mod service;
