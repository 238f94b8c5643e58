//! The event log of a run: one line for each event.

use std::fmt::{self, Write};

use tidegate_core::Nanos;

/// The lines of the event log, in their order; only counted if it is not kept.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    kept: bool,
    text: String,
    lines: u64,
}

impl EventLog {
    /// A log that keeps its lines, or only counts them.
    pub fn new(kept: bool) -> EventLog {
        EventLog { kept, text: String::new(), lines: 0 }
    }

    /// Adds a line: seconds since the beginning, the node, the event.
    pub fn note(&mut self, since: Nanos, node: Option<usize>, what: fmt::Arguments<'_>) {
        self.lines += 1;
        if !self.kept {
            return;
        }
        let (seconds, micros) = (since.get() / 1_000_000_000, since.get() / 1_000 % 1_000_000);
        let written = match node {
            Some(node) => writeln!(self.text, "{seconds}.{micros:06} n{node} {what}"),
            None => writeln!(self.text, "{seconds}.{micros:06} - {what}"),
        };
        written.expect("writing to a string cannot fail");
    }

    /// How many lines there were, kept or not.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The lines.
    pub fn into_text(self) -> String {
        self.text
    }
}
