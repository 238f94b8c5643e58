//! The parts of the `tidegate` binary.

pub mod admin;
pub mod bounds;
mod bounds_page;
mod budget;
mod cli;
mod commands;
mod exit;
mod grpc;
mod http;
pub mod identity;
pub mod import;
pub mod lifecycle;
pub mod node;
pub mod observe;
mod paint;
mod question;
pub mod reference;
mod report;
pub mod resp;
mod serve;
pub mod settings;
pub mod shared;
pub mod simulate;
pub mod wire;

pub use cli::command;
pub use commands::run;
