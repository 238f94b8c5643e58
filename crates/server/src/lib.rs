//! The parts of the `tidegate` binary.

mod cli;
mod commands;
mod exit;
pub mod import;
mod paint;
pub mod reference;
mod report;
pub mod simulate;
pub mod wire;

pub use cli::command;
pub use commands::run;
