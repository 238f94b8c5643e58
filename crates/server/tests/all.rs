//! Tests of the server as users run it: commands, listeners, metrics, and limits that are shared on Redis.
//!
//! One binary for all of them, since every test binary is linked with the whole server.

mod admin;
mod commands;
mod control;
mod grpc;
mod http;
mod resp;
mod serving;
mod shared;
mod support;
