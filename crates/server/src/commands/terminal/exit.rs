//! How a command ends.

use std::io::Write;
use std::process::ExitCode;

/// Why a command failed. What there is to say has been said or is in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    /// Something went wrong while it ran.
    #[error("{0}")]
    Running(String),
    /// It was asked for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The answer was no, and it is printed.
    #[error("")]
    Denied,
    /// A document is invalid, and its problems are already told.
    #[error("")]
    Invalid,
}

impl CommandFailure {
    /// 1 for what failed while running, 2 for bad usage and invalid documents.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            CommandFailure::Running(_) | CommandFailure::Denied => ExitCode::from(1),
            CommandFailure::Usage(_) | CommandFailure::Invalid => ExitCode::from(2),
        }
    }
}

/// Writes to standard error. That nobody listens any more is no reason to fail in another way.
pub(crate) fn complain(said: std::fmt::Arguments<'_>) {
    let _said = std::io::stderr().write_fmt(said);
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read_text(path: &str) -> Result<String, CommandFailure> {
    let read =
        if path == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    read.map_err(|error| CommandFailure::Usage(format!("cannot read {}: {error}", shown(path))))
}

/// A path as people know it.
pub(crate) fn shown(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}
