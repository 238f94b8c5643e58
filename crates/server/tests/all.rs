//! The server as its users meet it: commands, listeners, metrics, and what it does with a Redis.
//!
//! One binary for all of it, since every test binary is linked with the whole server.

mod admin;
mod commands;
mod grpc;
mod http;
mod resp;
mod serving;
mod shared;
mod support;
