//! What is longer than the rule allows, each with its size. The list only shrinks: an entry may
//! be lowered or removed, and `tidy` insists on both as soon as they are possible.

use std::panic::Location;

/// A file or a function that may be long, as long as it does not grow.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// The file, relative to the root.
    pub file: &'static str,
    /// The function; `None` means the file itself. If several in the file share the name, the
    /// longest is meant.
    pub function: Option<&'static str>,
    /// How long it was when last recorded.
    pub lines: usize,
    /// The line of this list the entry is on.
    pub entry_line: u32,
}

impl Exception {
    /// A file longer than the rule.
    #[track_caller]
    pub const fn file(file: &'static str, lines: usize) -> Exception {
        let entry_line = Location::caller().line();
        Exception { file, function: None, lines, entry_line }
    }

    /// A function longer than the rule.
    #[track_caller]
    pub const fn function(file: &'static str, name: &'static str, lines: usize) -> Exception {
        let entry_line = Location::caller().line();
        Exception { file, function: Some(name), lines, entry_line }
    }
}

/// Where this list is.
pub const HOME: &str = "xtask/src/tidy/exceptions.rs";

/// The list: `Exception::file("crates/a/src/b.rs", 431)`,
/// `Exception::function("crates/a/src/b.rs", "decide", 74)`.
pub const EXCEPTIONS: &[Exception] = &[];
