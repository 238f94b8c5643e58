//! Colours, used if the output is a terminal and `NO_COLOR` is not set.

use std::fmt;
use std::io::IsTerminal;

/// The text with control characters escaped, so that data of a client cannot send commands to the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

/// A colour, named after its meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    /// Success.
    Good,
    /// An error or a denial.
    Bad,
    /// A warning.
    Warn,
    /// The name of something.
    Name,
    /// A detail.
    Faint,
    /// A heading.
    Strong,
}

impl Paint {
    /// For standard output.
    pub(crate) fn stdout() -> Paint {
        Paint(wanted(std::io::stdout().is_terminal()))
    }

    /// For standard error.
    pub(crate) fn stderr() -> Paint {
        Paint(wanted(std::io::stderr().is_terminal()))
    }

    /// Without colours.
    #[cfg(test)]
    pub(crate) fn never() -> Paint {
        Paint(false)
    }

    /// The text in a colour.
    pub(crate) fn tone<T: fmt::Display>(self, tone: Tone, text: T) -> Painted<T> {
        Painted { code: self.0.then_some(code(tone)), text }
    }
}

/// Follows the conventions `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`.
fn wanted(is_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return false;
    }
    set("CLICOLOR_FORCE") || (is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"))
}

fn code(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "32;1",
        Tone::Bad => "31;1",
        Tone::Warn => "33;1",
        Tone::Name => "36",
        Tone::Faint => "2",
        Tone::Strong => "1",
    }
}

/// A text and its colour.
pub(crate) struct Painted<T> {
    code: Option<&'static str>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "\x1b[{code}m{}\x1b[0m", self.text),
            None => self.text.fmt(f),
        }
    }
}
