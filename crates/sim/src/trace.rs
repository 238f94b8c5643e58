//! Everything that happened, a line each.

use std::fmt::{self, Write};

use tidegate_core::Nanos;

/// The events of a world, in their order; empty unless it is kept.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    kept: bool,
    text: String,
    lines: u64,
}

impl Trace {
    /// A trace that keeps its lines, or not.
    pub fn new(kept: bool) -> Trace {
        Trace { kept, text: String::new(), lines: 0 }
    }

    /// One more line: seconds since the beginning, who, what.
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
        written.expect("a string takes all that is written");
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
