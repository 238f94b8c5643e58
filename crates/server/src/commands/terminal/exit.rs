//! How a command fails: the failure, its exit code, and output on standard error.

use std::io::Write;
use std::process::ExitCode;

/// Why a command failed. A variant without a message has already printed everything.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    /// An error at run time.
    #[error("{0}")]
    Running(String),
    /// Wrong flags, arguments, settings or input.
    #[error("{0}")]
    Usage(String),
    /// `tidegate check` got a denial, and has printed it.
    #[error("")]
    Denied,
    /// A document is invalid, and its problems are already printed.
    #[error("")]
    Invalid,
}

impl CommandFailure {
    /// 1 for run-time errors and denials, 2 for wrong usage and invalid documents.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            CommandFailure::Running(_) | CommandFailure::Denied => ExitCode::from(1),
            CommandFailure::Usage(_) | CommandFailure::Invalid => ExitCode::from(2),
        }
    }
}

/// Writes to standard error, and ignores that it may be closed.
pub(crate) fn print_stderr(message: std::fmt::Arguments<'_>) {
    let _written = std::io::stderr().write_fmt(message);
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read_text(path: &str) -> Result<String, CommandFailure> {
    let read =
        if path == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    read.map_err(|error| CommandFailure::Usage(format!("cannot read {}: {error}", display_path(path))))
}

/// A path for messages: `-` is shown as "standard input".
pub(crate) fn display_path(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}
