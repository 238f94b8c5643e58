//! Files and functions that are longer than the limit, each with its size. The list only shrinks: an
//! entry may be lowered or removed, and `tidy` demands both as soon as they are possible.

use std::panic::Location;

/// A file or a function that may be long, as long as it does not grow.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// The file, relative to the root.
    pub file: &'static str,
    /// The function; `None` means the file itself. If several functions of the file have this name, the
    /// longest one counts.
    pub function: Option<&'static str>,
    /// How long it was when last recorded.
    pub lines: usize,
    /// The line of the entry in this file.
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

/// The path of this file.
pub const HOME: &str = "xtask/src/tidy/exceptions.rs";

/// The list: `Exception::file("crates/a/src/b.rs", 431)`,
/// `Exception::function("crates/a/src/b.rs", "decide", 74)`.
pub const EXCEPTIONS: &[Exception] = &[];
