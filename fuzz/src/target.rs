//! The parsers that are fuzzed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;

use crate::{bodies, cost, dictionary, forwarded, http2, identity, policy, resp, trace, wire_words};

/// A parser of untrusted input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FuzzTarget {
    /// The policy parser, and the engine with the parsed policy
    Policy,
    /// The trace parser, and the engine behind it
    Trace,
    /// Commands of Redis clients, and the replies to them
    Resp,
    /// `X-Forwarded-For` and `Forwarded`
    Forwarded,
    /// Request bodies in JSON
    Bodies,
    /// Costs in headers, `TG.CHECK` fields and JSON members
    Cost,
    /// Headers, queries and hosts that say who is asking
    Identity,
    /// HTTP/2 frames of gRPC clients
    Http2,
}

/// A description of what went wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FuzzFailure(pub(crate) String);

impl FuzzFailure {
    /// Fails unless the condition is true.
    pub(crate) fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), FuzzFailure> {
        if holds { Ok(()) } else { Err(FuzzFailure(what())) }
    }
}

impl FuzzTarget {
    /// All of them.
    pub const ALL: [FuzzTarget; 8] = [
        FuzzTarget::Policy,
        FuzzTarget::Trace,
        FuzzTarget::Resp,
        FuzzTarget::Forwarded,
        FuzzTarget::Bodies,
        FuzzTarget::Cost,
        FuzzTarget::Identity,
        FuzzTarget::Http2,
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
            FuzzTarget::Identity => "identity",
            FuzzTarget::Http2 => "http2",
        }
    }

    /// The example files that are its seeds.
    pub(crate) fn seed_file(self) -> Option<&'static str> {
        match self {
            FuzzTarget::Policy => Some("policy.yaml"),
            FuzzTarget::Trace => Some("trace.jsonl"),
            FuzzTarget::Resp
            | FuzzTarget::Forwarded
            | FuzzTarget::Bodies
            | FuzzTarget::Cost
            | FuzzTarget::Identity
            | FuzzTarget::Http2 => None,
        }
    }

    /// Seeds in the code.
    pub(crate) fn seeds(self) -> &'static [&'static str] {
        match self {
            FuzzTarget::Policy | FuzzTarget::Trace => &[],
            FuzzTarget::Resp => wire_words::COMMANDS,
            FuzzTarget::Forwarded => wire_words::FORWARDED_LINES,
            FuzzTarget::Bodies => wire_words::REQUESTS,
            FuzzTarget::Cost => wire_words::COSTS,
            FuzzTarget::Identity => wire_words::IDENTITIES,
            FuzzTarget::Http2 => wire_words::FRAMES,
        }
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            FuzzTarget::Policy => dictionary::POLICY,
            FuzzTarget::Trace | FuzzTarget::Bodies => dictionary::TRACE,
            FuzzTarget::Resp => wire_words::RESP,
            FuzzTarget::Forwarded => wire_words::FORWARDED,
            FuzzTarget::Cost => wire_words::COST,
            FuzzTarget::Identity => wire_words::IDENTITY,
            FuzzTarget::Http2 => wire_words::FRAMES,
        }
    }

    /// Runs an input; returns a hash of the kind of outcome.
    ///
    /// # Errors
    /// When the target panics, or its result is wrong.
    pub fn try_input(self, input: &[u8]) -> Result<u64, FuzzFailure> {
        let tried = catch_unwind(AssertUnwindSafe(|| match self {
            FuzzTarget::Policy => policy::try_input(input),
            FuzzTarget::Trace => trace::try_input(input),
            FuzzTarget::Resp => resp::try_input(input),
            FuzzTarget::Forwarded => forwarded::try_input(input),
            FuzzTarget::Bodies => bodies::try_input(input),
            FuzzTarget::Cost => cost::try_input(input),
            FuzzTarget::Identity => identity::try_input(input),
            FuzzTarget::Http2 => http2::try_input(input),
        }));
        tried.unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(FuzzFailure(format!("it panicked: {message}")))
        })
    }
}

/// A hash of the kind of outcome: quoted names and digits in the texts do not count.
pub(crate) fn kind_of<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let mut kind = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
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
