//! Sessions without sockets: frames in, frames out.

mod bounds;
mod fragments;
mod rules;
mod sending;

use std::sync::Arc;
use std::task::{Context, Waker};

use super::call_stream::{RequestStream, ResponseStream};
use super::error::Http2Code;
use super::frame::{self, FrameHead, flag, kind};
use super::head::CallHead;
use super::hpack::encoder::put_field;
use super::session::{Http2Session, SharedSession};
use crate::bounds::budget::ByteBudget;
use crate::serve::ResponseBacklog;

/// A frame that the server has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Sent {
    fn reset(stream: u32, code: Http2Code) -> Sent {
        let payload = (code as u32).to_be_bytes().to_vec();
        Sent { kind: kind::RST_STREAM, flags: 0, stream, payload }
    }
}

/// A session and what its client has sent.
struct Session {
    shared: SharedSession,
    calls: Vec<(u32, CallHead)>,
}

impl Session {
    /// A session whose client has not sent its settings.
    fn fresh() -> Session {
        Session::with(false)
    }

    fn of_proxy() -> Session {
        let mut session = Session::with(true);
        session.receive(&framed(kind::SETTINGS, 0, 0, &[]));
        session
    }

    fn with(is_loopback_or_proxy: bool) -> Session {
        let account = ByteBudget::of(1 << 20).account([192, 0, 2, 1].into(), false);
        let session = Http2Session::new(ResponseBacklog::new(&account), is_loopback_or_proxy);
        let mut session = Session { shared: SharedSession::new(session), calls: Vec::new() };
        let kinds: Vec<u8> = session.sent().iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds, [kind::SETTINGS, kind::WINDOW_UPDATE], "the server greets first");
        session
    }

    fn new() -> Session {
        let mut session = Session::fresh();
        session.receive(&framed(kind::SETTINGS, 0, 0, &[]));
        assert_eq!(
            session.sent(),
            [Sent { kind: kind::SETTINGS, flags: flag::ACK, stream: 0, payload: vec![] }]
        );
        session
    }

    fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut session = self.shared.lock();
        let used = session.receive(bytes);
        session.take_opened(&mut self.calls);
        used
    }

    /// Takes what the server has sent.
    fn sent(&mut self) -> Vec<Sent> {
        let mut out = Vec::new();
        self.shared.lock().take_output(&mut out);
        let (mut frames, mut rest) = (Vec::new(), &out[..]);
        while let Some(FrameHead { length, kind, flags, stream }) = FrameHead::read(rest) {
            let (frame, after) = rest.split_at(frame::HEAD + length);
            frames.push(Sent { kind, flags, stream, payload: frame[frame::HEAD..].to_vec() });
            rest = after;
        }
        assert!(rest.is_empty(), "whole frames are sent");
        frames
    }

    /// The code of the GOAWAY with which the server has ended the connection.
    fn failed(&mut self) -> Option<u32> {
        let is_over = self.shared.lock().is_over();
        let sent = self.sent();
        let last = sent.last().filter(|frame| frame.kind == kind::GOAWAY && is_over)?;
        Some(u32::from_be_bytes(*last.payload[4..].first_chunk().expect("eight bytes")))
    }

    fn open_streams(&self) -> usize {
        self.shared.lock().streams.len()
    }

    fn response(&self, id: u32) -> ResponseStream {
        ResponseStream::new(&self.shared, id)
    }

    /// The bytes of a request that have come; the second is whether it has ended.
    fn body(&self, id: u32) -> (Vec<u8>, bool) {
        let (mut stream, mut all) = (RequestStream::new(&self.shared, id), Vec::new());
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match stream.poll_data(&mut cx) {
                std::task::Poll::Ready(Ok(Some(bytes))) => all.extend_from_slice(&bytes),
                std::task::Poll::Ready(Ok(None)) => return (all, true),
                std::task::Poll::Ready(Err(_)) | std::task::Poll::Pending => return (all, false),
            }
        }
    }
}

fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, kind, flags, stream, payload);
    out
}

/// A header block of literals.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| put_field(&mut block, name, value));
    block
}

fn head(path: &str) -> Vec<u8> {
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "tidegate"),
        ("content-type", "application/grpc"),
    ])
}

/// A call whose body follows.
fn opening(id: u32) -> Vec<u8> {
    framed(kind::HEADERS, flag::END_HEADERS, id, &head("/a"))
}

/// A call without a body.
fn call(id: u32) -> Vec<u8> {
    framed(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &head("/a"))
}

fn reset(id: u32) -> Vec<u8> {
    framed(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes())
}

fn window_update(id: u32, increment: u32) -> Vec<u8> {
    framed(kind::WINDOW_UPDATE, 0, id, &increment.to_be_bytes())
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, settings);
    out
}

fn backlog(session: &Session) -> Arc<ResponseBacklog> {
    Arc::clone(&session.shared.lock().backlog)
}
