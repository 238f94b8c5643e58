//! The parts of the `tidegate` binary: listeners (`http`, `grpc`, `resp`, `admin`), the node that decides for all of
//! them (`node`), settings, the control plane with the admin API (`control`), metrics, logs and traces (`observe`), and
//! the commands. A library only so that integration tests and fuzzers can use it.

pub mod admin;
pub mod bounds;
mod commands;
pub mod control;
pub mod grpc;
mod http;
pub mod identity;
pub mod node;
pub mod observe;
pub mod reference;
pub mod replay;
pub mod resp;
mod serve;
pub mod settings;
mod trust_file;
pub mod wire;

pub use commands::flags::command;
pub use commands::run;
