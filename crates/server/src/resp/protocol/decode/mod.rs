//! Finds commands in the input: arrays of bulk strings, and inline commands.
//!
//! A command may arrive in any number of pieces. The decoder remembers how far it has read, so that no byte of an
//! array is parsed twice. A command that is too large is skipped and not kept: its framing is valid, so the next
//! command can still be answered.

use smallvec::SmallVec;

use super::inline;
use super::number::{self, NumberLine};
use crate::bounds::{RESP_ARG_BYTES_MAX, RESP_ARGS_MAX, RESP_COMMAND_BYTES_MAX};

/// An array that declares more elements is a framing error.
const DECLARED_ARGS_MAX: i64 = 1_024 * 1_024;
/// A bulk string that declares more bytes is a framing error.
const DECLARED_BYTES_MAX: i64 = 512 * 1_024 * 1_024;

/// The position of an argument in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgRange {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl ArgRange {
    pub(crate) fn new(start: usize, end: usize) -> ArgRange {
        let offset = |at: usize| u32::try_from(at).expect("a command is shorter than 4 GiB");
        ArgRange { start: offset(start), end: offset(end) }
    }
}

pub(crate) type ArgRanges = SmallVec<[ArgRange; 8]>;

/// A complete command: its name and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct CommandArgs<'a> {
    bytes: &'a [u8],
    spans: &'a [ArgRange],
}

impl<'a> CommandArgs<'a> {
    /// The command whose arguments are at these positions of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [ArgRange]) -> CommandArgs<'a> {
        CommandArgs { bytes, spans }
    }

    /// How many arguments the command has, the name included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Is the command empty, without even a name?
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at an index; the name is at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.start as usize..span.end as usize])
    }

    /// The name and all arguments, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start as usize..span.end as usize])
    }
}

/// The result of one decoding step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// A complete command of this many bytes; [`Decoder::args`] returns it. It may be empty.
    Command(usize),
    /// A command that is too large, whose last part has this many bytes.
    Refused(usize, CommandRefusal),
    /// The command is incomplete. This many bytes are no longer needed; the next call must begin with the rest.
    More(usize),
    /// The framing is invalid, so nothing that follows can be decoded.
    Broken(FramingError),
}

/// Why a command is refused without being executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// It has too many arguments.
    #[error("too many arguments: at most {RESP_ARGS_MAX}")]
    Args,
    /// One of its arguments is too long.
    #[error("an argument is too long: at most {RESP_ARG_BYTES_MAX} bytes")]
    ArgBytes,
    /// The whole command is too long.
    #[error("the command is too long: at most {RESP_COMMAND_BYTES_MAX} bytes")]
    CommandBytes,
}

/// Why the framing is invalid. Most messages are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// What follows `*` is not a number, or out of range.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// What follows `$` is not a number, or out of range.
    #[error("invalid bulk length")]
    BulkLength,
    /// An element of the array is not a bulk string.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    /// A bulk string is not as long as it declares.
    #[error("expected CRLF after a bulk string")]
    NoLineEnd,
    /// An inline command without an end.
    #[error("too big inline request")]
    LongLine,
    /// A quote that is not closed, or is followed by something other than a blank.
    #[error("unbalanced quotes in request")]
    Quotes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Array,
    Line,
}

/// Finds commands in the input.
#[derive(Debug)]
pub struct Decoder {
    stage: Stage,
    /// How many bytes of the input are decoded.
    read: usize,
    /// How many arguments are not decoded yet.
    missing: u32,
    /// How many bytes of the current argument are missing, once its length is decoded.
    ahead: Option<usize>,
    refused: Option<CommandRefusal>,
    spans: ArgRanges,
    /// The words of an inline command, without quotes; `None` if the command is an array.
    words: Option<Vec<u8>>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new() -> Decoder {
        Decoder {
            stage: Stage::Start,
            read: 0,
            missing: 0,
            ahead: None,
            refused: None,
            spans: ArgRanges::new(),
            words: None,
        }
    }

    /// Looks for one command in the input, which must begin with the bytes that the last [`DecodeStep`] left.
    pub fn step(&mut self, input: &[u8]) -> DecodeStep {
        if self.stage == Stage::Start {
            self.spans.clear();
            self.words = None;
            (self.read, self.refused, self.ahead) = (0, None, None);
            match input.first() {
                None => return DecodeStep::More(0),
                Some(b'*') => match self.begin_array(input) {
                    None => {}
                    Some(step) => return step,
                },
                Some(_) => self.stage = Stage::Line,
            }
        }
        match self.stage {
            Stage::Line => self.line(input),
            Stage::Start | Stage::Array => self.array(input),
        }
    }

    /// The command that the last step completed.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> CommandArgs<'a> {
        CommandArgs::new(self.words.as_deref().unwrap_or(input), &self.spans)
    }

    fn begin_array(&mut self, input: &[u8]) -> Option<DecodeStep> {
        match number::line(&input[1..]) {
            NumberLine::Partial => Some(DecodeStep::More(0)),
            NumberLine::Number(count, used) if count <= DECLARED_ARGS_MAX => {
                self.read = 1 + used;
                // An empty or null array is skipped without a reply.
                self.missing = u32::try_from(count).unwrap_or(0);
                if self.missing as usize > 1 + RESP_ARGS_MAX {
                    self.refused = Some(CommandRefusal::Args);
                }
                self.stage = Stage::Array;
                None
            }
            NumberLine::Number(..) | NumberLine::Bad => Some(DecodeStep::Broken(FramingError::ArrayLength)),
        }
    }

    fn array(&mut self, input: &[u8]) -> DecodeStep {
        while self.missing > 0 {
            let length = match self.ahead {
                Some(length) => length,
                None => match self.bulk_length(&input[self.read..]) {
                    Ok(Some(length)) => length,
                    Ok(None) => return self.more(),
                    Err(broken) => return DecodeStep::Broken(broken),
                },
            };
            let here = input.len() - self.read;
            if self.refused.is_some() {
                let passed = length.min(here);
                self.read += passed;
                self.ahead = Some(length - passed);
                if here < length + 2 {
                    return self.more();
                }
            } else {
                if here < length + 2 {
                    return self.more();
                }
                self.spans.push(ArgRange::new(self.read, self.read + length));
                self.read += length;
            }
            if input[self.read..self.read + 2] != *b"\r\n" {
                return DecodeStep::Broken(FramingError::NoLineEnd);
            }
            self.read += 2;
            self.ahead = None;
            self.missing -= 1;
        }
        self.end(self.read)
    }

    /// The length of the next argument; `None` if its line is incomplete.
    #[inline]
    fn bulk_length(&mut self, rest: &[u8]) -> Result<Option<usize>, FramingError> {
        match rest.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(FramingError::NoBulk(*other)),
        }
        let (length, used) = match number::line(&rest[1..]) {
            NumberLine::Partial => return Ok(None),
            NumberLine::Number(length, used) if (0..=DECLARED_BYTES_MAX).contains(&length) => {
                (length as usize, used)
            }
            NumberLine::Number(..) | NumberLine::Bad => return Err(FramingError::BulkLength),
        };
        self.read += 1 + used;
        self.ahead = Some(length);
        if self.refused.is_none() {
            if length > RESP_ARG_BYTES_MAX {
                self.refused = Some(CommandRefusal::ArgBytes);
            } else if self.read + length + 2 > RESP_COMMAND_BYTES_MAX {
                self.refused = Some(CommandRefusal::CommandBytes);
            }
        }
        Ok(Some(length))
    }

    fn line(&mut self, input: &[u8]) -> DecodeStep {
        let end = input[self.read..].iter().position(|byte| *byte == b'\n').map(|more| self.read + more);
        if end.unwrap_or(input.len()) > RESP_COMMAND_BYTES_MAX {
            return DecodeStep::Broken(FramingError::LongLine);
        }
        let Some(end) = end else {
            self.read = input.len();
            return DecodeStep::More(0);
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let words = self.words.insert(Vec::new());
        if inline::split(line, words, &mut self.spans).is_err() {
            return DecodeStep::Broken(FramingError::Quotes);
        }
        if self.spans.len() > 1 + RESP_ARGS_MAX {
            self.refused = Some(CommandRefusal::Args);
        } else if self.spans.iter().any(|span| (span.end - span.start) as usize > RESP_ARG_BYTES_MAX) {
            self.refused = Some(CommandRefusal::ArgBytes);
        }
        self.end(end + 1)
    }

    fn more(&mut self) -> DecodeStep {
        // The bytes of a refused command are not kept.
        if self.refused.is_some() {
            DecodeStep::More(std::mem::take(&mut self.read))
        } else {
            DecodeStep::More(0)
        }
    }

    fn end(&mut self, bytes: usize) -> DecodeStep {
        self.stage = Stage::Start;
        match self.refused {
            None => DecodeStep::Command(bytes),
            Some(refusal) => DecodeStep::Refused(bytes, refusal),
        }
    }
}

#[cfg(test)]
mod tests;
