//! What is fuzzed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;

use crate::{bodies, cost, dictionary, forwarded, policy, resp, trace, wire_words};

/// Something that reads what others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FuzzTarget {
    /// The document parser, and all that a document leads to
    Policy,
    /// The trace reader, and the engine behind it
    Trace,
    /// The commands of Redis clients, and the answers to them
    Resp,
    /// `X-Forwarded-For` and `Forwarded`
    Forwarded,
    /// Requests as JSON
    Bodies,
    /// Costs in headers, fields and members
    Cost,
}

/// What an input did wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FuzzFailure(pub(crate) String);

impl FuzzFailure {
    /// Fails unless it holds.
    pub(crate) fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), FuzzFailure> {
        if holds { Ok(()) } else { Err(FuzzFailure(what())) }
    }
}

impl FuzzTarget {
    /// All of them.
    pub const ALL: [FuzzTarget; 6] = [
        FuzzTarget::Policy,
        FuzzTarget::Trace,
        FuzzTarget::Resp,
        FuzzTarget::Forwarded,
        FuzzTarget::Bodies,
        FuzzTarget::Cost,
    ];

    /// Its name on the command line and in the corpus.
    pub fn name(self) -> &'static str {
        match self {
            FuzzTarget::Policy => "policy",
            FuzzTarget::Trace => "trace",
            FuzzTarget::Resp => "resp",
            FuzzTarget::Forwarded => "forwarded",
            FuzzTarget::Bodies => "bodies",
            FuzzTarget::Cost => "cost",
        }
    }

    /// The example files that are its seeds.
    pub(crate) fn seed_file(self) -> Option<&'static str> {
        match self {
            FuzzTarget::Policy => Some("policy.yaml"),
            FuzzTarget::Trace => Some("trace.jsonl"),
            FuzzTarget::Resp | FuzzTarget::Forwarded | FuzzTarget::Bodies | FuzzTarget::Cost => None,
        }
    }

    /// Seeds that are no files.
    pub(crate) fn seeds(self) -> &'static [&'static str] {
        match self {
            FuzzTarget::Policy | FuzzTarget::Trace => &[],
            FuzzTarget::Resp => wire_words::COMMANDS,
            FuzzTarget::Forwarded => wire_words::FORWARDED_LINES,
            FuzzTarget::Bodies => wire_words::REQUESTS,
            FuzzTarget::Cost => wire_words::COSTS,
        }
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            FuzzTarget::Policy => dictionary::POLICY,
            FuzzTarget::Trace | FuzzTarget::Bodies => dictionary::TRACE,
            FuzzTarget::Resp => wire_words::RESP,
            FuzzTarget::Forwarded => wire_words::FORWARDED,
            FuzzTarget::Cost => wire_words::COST,
        }
    }

    /// Tries an input. What it returns tells kinds of answers apart.
    ///
    /// # Errors
    /// When the target panics, or what it says is wrong.
    pub fn try_input(self, input: &[u8]) -> Result<u64, FuzzFailure> {
        let tried = catch_unwind(AssertUnwindSafe(|| match self {
            FuzzTarget::Policy => policy::try_input(input),
            FuzzTarget::Trace => trace::try_input(input),
            FuzzTarget::Resp => resp::try_input(input),
            FuzzTarget::Forwarded => forwarded::try_input(input),
            FuzzTarget::Bodies => bodies::try_input(input),
            FuzzTarget::Cost => cost::try_input(input),
        }));
        tried.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("something");
            Err(FuzzFailure(format!("it panicked: {said}")))
        })
    }
}

/// A number for a kind of answer: names and numbers in it do not count.
pub(crate) fn kind_of<'a>(said: impl Iterator<Item = &'a str>) -> u64 {
    let mut kind = 0xcbf2_9ce4_8422_2325_u64;
    for text in said {
        let mut quoted = false;
        for byte in text.bytes() {
            quoted ^= byte == b'`';
            if !quoted && byte.is_ascii_alphabetic() {
                kind = (kind ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    kind
}
