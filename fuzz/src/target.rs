//! What is fuzzed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;

use crate::{bodies, cost, dictionary, forwarded, policy, resp, trace, wire_words};

/// Something that reads what others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
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
pub struct Failure(pub(crate) String);

impl Failure {
    /// Fails unless it holds.
    pub(crate) fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
        if holds { Ok(()) } else { Err(Failure(what())) }
    }
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 6] =
        [Target::Policy, Target::Trace, Target::Resp, Target::Forwarded, Target::Bodies, Target::Cost];

    /// Its name on the command line and in the corpus.
    pub fn name(self) -> &'static str {
        match self {
            Target::Policy => "policy",
            Target::Trace => "trace",
            Target::Resp => "resp",
            Target::Forwarded => "forwarded",
            Target::Bodies => "bodies",
            Target::Cost => "cost",
        }
    }

    /// The example files that are its seeds.
    pub(crate) fn seed_file(self) -> Option<&'static str> {
        match self {
            Target::Policy => Some("policy.yaml"),
            Target::Trace => Some("trace.jsonl"),
            Target::Resp | Target::Forwarded | Target::Bodies | Target::Cost => None,
        }
    }

    /// Seeds that are no files.
    pub(crate) fn seeds(self) -> &'static [&'static str] {
        match self {
            Target::Policy | Target::Trace => &[],
            Target::Resp => wire_words::COMMANDS,
            Target::Forwarded => wire_words::FORWARDED_LINES,
            Target::Bodies => wire_words::REQUESTS,
            Target::Cost => wire_words::COSTS,
        }
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Target::Policy => dictionary::POLICY,
            Target::Trace | Target::Bodies => dictionary::TRACE,
            Target::Resp => wire_words::RESP,
            Target::Forwarded => wire_words::FORWARDED,
            Target::Cost => wire_words::COST,
        }
    }

    /// Tries an input. What it returns tells kinds of answers apart.
    ///
    /// # Errors
    /// When the target panics, or what it says is wrong.
    pub fn try_input(self, input: &[u8]) -> Result<u64, Failure> {
        let tried = catch_unwind(AssertUnwindSafe(|| match self {
            Target::Policy => policy::try_input(input),
            Target::Trace => trace::try_input(input),
            Target::Resp => resp::try_input(input),
            Target::Forwarded => forwarded::try_input(input),
            Target::Bodies => bodies::try_input(input),
            Target::Cost => cost::try_input(input),
        }));
        tried.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("something");
            Err(Failure(format!("it panicked: {said}")))
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
