//! Reads the usual request and writes its response without prost.
//!
//! Nearly every call of a proxy has one descriptor, decided by the policy, and most are admitted. Such a request is
//! parsed in place, and its response is written straight into the frame: no text is copied and nothing is allocated for
//! it. Everything else, and everything that is malformed, is left to prost, so this file refuses nothing. Property
//! tests check that both paths give the same bytes.

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;
use tidegate::engine::Decision;

use super::{duration, units};
use crate::bounds::DESCRIPTOR_ENTRIES_MAX;
use crate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::grpc::transport::frame;

/// A request with one descriptor, without a limit of its own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UsualRequest<'m> {
    pub(super) domain: &'m str,
    /// Keys and values.
    pub(super) entries: SmallVec<[(&'m str, &'m str); 8]>,
    pub(super) hits_addend: u32,
}

/// How a field is encoded.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl<'m> UsualRequest<'m> {
    /// Reads a `RateLimitRequest`; `None` if it is not a usual one.
    pub(super) fn read(mut message: &'m [u8]) -> Option<UsualRequest<'m>> {
        let mut request = UsualRequest::default();
        let mut has_descriptor = false;
        while !message.is_empty() {
            match field(&mut message)? {
                (1, LENGTH_DELIMITED) => request.domain = text(&mut message)?,
                (2, LENGTH_DELIMITED) if !has_descriptor => {
                    has_descriptor = true;
                    request.read_descriptor(slice(&mut message)?)?;
                }
                (3, VARINT) => request.hits_addend = u32::try_from(varint(&mut message)?).ok()?,
                _ => return None,
            }
        }
        let is_usual = has_descriptor && !request.domain.is_empty();
        is_usual.then_some(request)
    }

    fn read_descriptor(&mut self, mut message: &'m [u8]) -> Option<()> {
        while !message.is_empty() {
            let (1, LENGTH_DELIMITED) = field(&mut message)? else { return None };
            if self.entries.len() == DESCRIPTOR_ENTRIES_MAX {
                return None;
            }
            self.entries.push(entry(slice(&mut message)?)?);
        }
        Some(())
    }
}

fn entry(mut message: &[u8]) -> Option<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    while !message.is_empty() {
        match field(&mut message)? {
            (1, LENGTH_DELIMITED) => key = text(&mut message)?,
            (2, LENGTH_DELIMITED) => value = text(&mut message)?,
            _ => return None,
        }
    }
    Some((key, value))
}

/// The number of the next field, and how it is encoded.
fn field(message: &mut &[u8]) -> Option<(u64, u64)> {
    let key = varint(message)?;
    Some((key >> 3, key & 7))
}

/// A number of up to nine bytes; longer ones are unusual.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn slice<'m>(message: &mut &'m [u8]) -> Option<&'m [u8]> {
    let length = usize::try_from(varint(message)?).ok()?;
    let (slice, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(slice)
}

fn text<'m>(message: &mut &'m [u8]) -> Option<&'m str> {
    std::str::from_utf8(slice(message)?).ok()
}

/// The frame of the response to a usual request; `None` if the response has more than a status and headers.
pub(super) fn answer(decision: &Decision) -> Option<Bytes> {
    let has_metadata = !decision.is_allowed()
        || decision.degraded().is_some()
        || decision.shadow_denied().next().is_some()
        || decision.burst().is_some();
    if has_metadata {
        return None;
    }
    let mut frame = frame::begin(512);
    number(&mut frame, 1, Code::Ok as u64);
    nested(&mut frame, 2, |frame| status(frame, decision));
    decision.headers(|name, value| {
        nested(&mut frame, 3, |frame| {
            bytes(frame, 1, name.as_bytes());
            bytes(frame, 2, value.as_bytes());
        });
    });
    Some(frame::end(frame))
}

/// The status of the one descriptor.
fn status(frame: &mut BytesMut, decision: &Decision) {
    number(frame, 1, Code::Ok as u64);
    let Some(tightest) = decision.tightest() else { return };
    let (requests_per_unit, unit) = units::rate(&tightest.rule.numbers);
    nested(frame, 2, |frame| {
        number(frame, 1, requests_per_unit.into());
        number(frame, 2, unit as u64);
        bytes(frame, 3, tightest.rule.name.as_bytes());
    });
    number(frame, 3, tightest.decision.remaining.into());
    let reset = duration(tightest.decision.reset_after);
    nested(frame, 4, |frame| {
        number(frame, 1, u64::try_from(reset.seconds).expect("a span is not negative"));
        number(frame, 2, u64::try_from(reset.nanos).expect("a span is not negative"));
    });
}

/// Writes a number; zero is the default, which is not sent.
fn number(frame: &mut BytesMut, tag: u8, number: u64) {
    if number != 0 {
        frame.put_u8(tag << 3 | VARINT as u8);
        put_varint(frame, number);
    }
}

/// Writes a text; the empty one is the default, which is not sent.
fn bytes(frame: &mut BytesMut, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        frame.put_u8(tag << 3 | LENGTH_DELIMITED as u8);
        put_varint(frame, bytes.len() as u64);
        frame.put_slice(bytes);
    }
}

/// Writes a message within a message. Its length precedes it and nearly always fits into one byte, so one byte is left
/// free for it; a longer message is moved.
fn nested(frame: &mut BytesMut, tag: u8, write: impl FnOnce(&mut BytesMut)) {
    frame.put_slice(&[tag << 3 | LENGTH_DELIMITED as u8, 0]);
    let begins = frame.len();
    write(frame);
    let length = frame.len() - begins;
    match u8::try_from(length) {
        Ok(length) if length < 0x80 => frame[begins - 1] = length,
        _ => {
            let message = frame.split_off(begins);
            frame.truncate(begins - 1);
            put_varint(frame, length as u64);
            frame.unsplit(message);
        }
    }
}

fn put_varint(frame: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        frame.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    frame.put_u8(number as u8);
}

#[cfg(test)]
mod tests;
