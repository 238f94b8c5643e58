//! The layer in front of services, as an app uses it. One binary, since linking takes longer than the tests.

mod answers;
mod axum;
mod clients;
mod common;
mod grpc;
mod queue;
mod service;
