//! Envoy's rate limit service over HTTP/2, with many requests in flight on one connection.

use std::collections::VecDeque;

use super::frames::{
    ACK, CompressedHead, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PADDED, PING, PREFACE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::template::{KEY, Template};
use super::{AnswerVerdict, CheckedAnswer, ClientProtocol, WireError, shown};
use crate::server::limits::RLS_DOMAIN;

/// The initial flow control window: bytes that may be sent before the server enlarges it.
const WINDOW_AT_START: i64 = 65_535;
/// The increment of the receive window of the connection: up to the maximum.
const WINDOW_MORE: u32 = 0x7fff_ffff - 65_535;

/// A connection as a proxy has.
#[derive(Debug)]
pub(crate) struct Rls {
    head: CompressedHead,
    message: Template,
    /// The head, compressed by the requests sent so far.
    sent: u32,
    /// How many bytes of data may be sent, and the requests that wait for the window.
    window: i64,
    waiting: VecDeque<u32>,
    /// The verdicts of streams that have not ended.
    verdicts: Vec<(u32, AnswerVerdict)>,
}

impl Rls {
    pub(crate) fn new() -> Rls {
        // The headers that Envoy sends.
        let head = CompressedHead::post(&[
            (":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            (":authority", "ratelimit"),
            ("te", "trailers"),
            ("grpc-timeout", "20m"),
            ("content-type", "application/grpc"),
            ("x-envoy-internal", "true"),
            ("x-forwarded-for", "10.0.0.5"),
            ("x-envoy-expected-rq-timeout-ms", "20"),
        ]);
        let entries = [("generic_key", "checkout"), ("user_id", KEY), ("path", "/api/videos")];
        let message = Template::new(message(&request(RLS_DOMAIN, &entries)));
        Rls {
            head,
            message,
            sent: 0,
            window: WINDOW_AT_START,
            waiting: VecDeque::new(),
            verdicts: Vec::new(),
        }
    }

    /// Sends waiting requests, as far as the window allows.
    fn send(&mut self, out: &mut Vec<u8>) {
        let length = self.message.len() as i64;
        while self.window >= length
            && let Some(key) = self.waiting.pop_front()
        {
            self.window -= length;
            let head = if self.sent == 0 { &self.head.first } else { &self.head.later };
            let stream = 2 * self.sent + 1;
            Frame { kind: HEADERS, flags: END_HEADERS, stream, payload: head }.write(out);
            let start = out.len();
            Frame { kind: DATA, flags: END_STREAM, stream, payload: &[] }.write(out);
            self.message.write(key, out);
            let bytes = u32::try_from(length).expect("requests are small").to_be_bytes();
            out[start..start + 3].copy_from_slice(&bytes[1..]);
            self.sent += 1;
        }
    }

    fn take(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<(), WireError> {
        let Frame { kind, flags, stream, payload } = frame;
        match kind {
            DATA | HEADERS if flags & PADDED != 0 => return Err(WireError::unexpected(payload)),
            DATA if !payload.is_empty() => self.verdicts.push((stream, verdict(payload)?)),
            SETTINGS if flags & ACK == 0 => {
                Frame { kind, flags: ACK, stream: 0, payload: &[] }.write(out);
            }
            PING if flags & ACK == 0 => Frame { kind, flags: ACK, stream: 0, payload }.write(out),
            WINDOW_UPDATE if stream == 0 => {
                self.window += i64::from(frame.increment().unwrap_or(0));
                self.send(out);
            }
            GOAWAY => return Err(WireError::Ended(shown(payload))),
            RST_STREAM => return Err(WireError::Unexpected(format!("stream {stream} was reset"))),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            let verdicts = self.verdicts.iter().position(|&(other, _)| other == stream);
            // A stream that ends without a message is a gRPC error.
            let verdicts =
                verdicts.ok_or_else(|| WireError::Unexpected(format!("gRPC error: {}", shown(payload))))?;
            let (_, verdict) = self.verdicts.swap_remove(verdicts);
            answers.push(CheckedAnswer { request: stream / 2, verdict });
        }
        Ok(())
    }
}

impl ClientProtocol for Rls {
    fn write_preface(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        Frame { kind: SETTINGS, flags: 0, stream: 0, payload: &[] }.write(out);
        Frame { kind: WINDOW_UPDATE, flags: 0, stream: 0, payload: &WINDOW_MORE.to_be_bytes() }.write(out);
    }

    fn write_request(&mut self, key: u32, out: &mut Vec<u8>) {
        self.waiting.push_back(key);
        self.send(out);
    }

    fn receive(
        &mut self,
        received: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        let mut taken = 0;
        while let Some((frame, length)) = Frame::read(&received[taken..]) {
            self.take(frame, out, answers)?;
            taken += length;
        }
        Ok(taken)
    }
}

/// A `RateLimitRequest` with one descriptor.
fn request(domain: &str, entries: &[(&str, &str)]) -> Vec<u8> {
    let mut descriptor = Vec::new();
    for (key, value) in entries {
        let mut entry = Vec::new();
        field(1, key.as_bytes(), &mut entry);
        field(2, value.as_bytes(), &mut entry);
        field(1, &entry, &mut descriptor);
    }
    let mut request = Vec::new();
    field(1, domain.as_bytes(), &mut request);
    field(2, &descriptor, &mut request);
    request
}

/// A length-delimited field of a protobuf message.
fn field(number: u8, value: &[u8], out: &mut Vec<u8>) {
    let length = u8::try_from(value.len()).ok().filter(|&length| length < 128).expect("one byte says it");
    out.extend_from_slice(&[number << 3 | 2, length]);
    out.extend_from_slice(value);
}

/// A gRPC message: the flag for no compression, its length, then its bytes.
fn message(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("requests are small").to_be_bytes();
    [&[0], &length[..], bytes].concat()
}

/// The overall code of a `RateLimitResponse`; the message must be in one frame and must have a code.
fn verdict(data: &[u8]) -> Result<AnswerVerdict, WireError> {
    let unexpected = || WireError::unexpected(data);
    let (&[compressed, a, b, c, d], mut rest) = data.split_first_chunk::<5>().ok_or_else(unexpected)?;
    if compressed != 0 || u32::from_be_bytes([a, b, c, d]) as usize != rest.len() {
        return Err(unexpected());
    }
    let mut code = None;
    while let Some((&tag, after)) = rest.split_first() {
        let (number, after) = varint(after).ok_or_else(unexpected)?;
        rest = match tag & 7 {
            0 => after,
            2 => after.get(number as usize..).ok_or_else(unexpected)?,
            _ => return Err(unexpected()),
        };
        if tag == 1 << 3 {
            code = Some(number);
        }
    }
    match code {
        Some(1) => Ok(AnswerVerdict::Allowed),
        Some(2) => Ok(AnswerVerdict::Denied),
        _ => Err(unexpected()),
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (place, &byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some((frame, length)) = Frame::read(&bytes[at..]) {
            found.push(frame);
            at += length;
        }
        assert_eq!(at, bytes.len(), "nothing is left over");
        found
    }

    fn reply(stream: u32, response: &[u8], out: &mut Vec<u8>) {
        Frame { kind: HEADERS, flags: END_HEADERS, stream, payload: &[0x88] }.write(out);
        Frame { kind: DATA, flags: 0, stream, payload: &message(response) }.write(out);
        Frame { kind: HEADERS, flags: END_HEADERS | END_STREAM, stream, payload: &[0xc0] }.write(out);
    }

    #[test]
    fn a_question_is_a_head_and_a_message() {
        let (mut rls, mut out) = (Rls::new(), Vec::new());
        rls.write_request(3, &mut out);
        rls.write_request(4, &mut out);
        let frames = frames(&out);
        let shape: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags, frame.stream)).collect();
        assert_eq!(
            shape,
            [
                (HEADERS, END_HEADERS, 1),
                (DATA, END_STREAM, 1),
                (HEADERS, END_HEADERS, 3),
                (DATA, END_STREAM, 3)
            ]
        );
        assert_eq!(frames[2].payload.len(), 10, "in the dynamic table");
        let text = frames[3].payload.escape_ascii().to_string();
        assert!(text.contains("user:00000004") && text.contains("generic_key"), "{text}");
        assert_eq!(frames[1].payload[..5], message(&vec![0; frames[1].payload.len() - 5])[..5]);
    }

    #[test]
    fn answers_find_their_questions_in_any_order() {
        let (mut rls, mut received, mut answers) = (Rls::new(), Vec::new(), Vec::new());
        reply(5, &[8, 2, 18, 2, 8, 2], &mut received);
        reply(1, &[8, 1, 18, 2, 8, 1], &mut received);
        let taken = rls.receive(&received, &mut Vec::new(), &mut answers).unwrap();
        assert_eq!(taken, received.len());
        let denied = CheckedAnswer { request: 2, verdict: AnswerVerdict::Denied };
        assert_eq!(answers, [denied, CheckedAnswer { request: 0, verdict: AnswerVerdict::Allowed }]);
    }

    #[test]
    fn an_error_is_no_decision() {
        let receive = |bytes: &[u8]| Rls::new().receive(bytes, &mut Vec::new(), &mut Vec::new());
        let mut only_trailers = Vec::new();
        let flags = END_HEADERS | END_STREAM;
        Frame { kind: HEADERS, flags, stream: 1, payload: &[0x88] }.write(&mut only_trailers);
        assert!(receive(&only_trailers).is_err());
        for response in [&[][..], &[8, 0], &[8, 3], &[18, 2, 8, 1], &[8]] {
            let mut received = Vec::new();
            reply(1, response, &mut received);
            assert!(receive(&received).is_err(), "{response:?}");
        }
        let mut ended = Vec::new();
        Frame { kind: GOAWAY, flags: 0, stream: 0, payload: &[0; 8] }.write(&mut ended);
        assert!(matches!(receive(&ended), Err(WireError::Ended(_))));
    }

    #[test]
    fn nothing_is_sent_beyond_the_window() {
        let (mut rls, mut out) = (Rls::new(), Vec::new());
        let fit = WINDOW_AT_START as usize / rls.message.len();
        (0..fit + 2).for_each(|_| rls.write_request(1, &mut out));
        assert_eq!(frames(&out).len(), 2 * fit);
        let (mut more, mut then) = (Vec::new(), Vec::new());
        let increment = (2 * rls.message.len() as u32).to_be_bytes();
        Frame { kind: WINDOW_UPDATE, flags: 0, stream: 0, payload: &increment }.write(&mut more);
        rls.receive(&more, &mut then, &mut Vec::new()).unwrap();
        assert_eq!(frames(&then).len(), 4, "what waited goes out");
    }

    #[test]
    fn settings_and_pings_are_acknowledged() {
        let (mut received, mut out) = (Vec::new(), Vec::new());
        Frame { kind: SETTINGS, flags: 0, stream: 0, payload: &[0; 6] }.write(&mut received);
        Frame { kind: PING, flags: 0, stream: 0, payload: b"12345678" }.write(&mut received);
        Frame { kind: SETTINGS, flags: ACK, stream: 0, payload: &[] }.write(&mut received);
        Rls::new().receive(&received, &mut out, &mut Vec::new()).unwrap();
        let sent = frames(&out);
        let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags, frame.payload.len())).collect();
        assert_eq!(kinds, [(SETTINGS, ACK, 0), (PING, ACK, 8)]);
    }
}
