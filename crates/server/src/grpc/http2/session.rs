//! The state of one HTTP/2 connection. It reads and writes bytes in memory; `transport/connection.rs` moves them to and
//! from the socket. `receive/` handles the frames of the client, `send.rs` the responses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::error::Http2Code;
use super::frame::{self, flag, kind};
use super::head::CallHead;
use super::hpack::decoder::HeaderDecoder;
use super::receive::block::HeaderBlock;
use super::resets::ResetCount;
use super::stream::StreamTable;
use super::window::{ReceiveWindow, SendWindow, WINDOW_AT_START};
use crate::bounds::{BODY_BYTES_MAX, HTTP2_HEAD_BYTES_MAX, STREAMS_MAX};
use crate::serve::ResponseBacklog;

/// A stream's window holds a whole message, the connection's several, so that clients need not wait.
pub(super) const STREAM_WINDOW: u32 = 2 * BODY_BYTES_MAX as u32;
const CONNECTION_WINDOW: u32 = 8 * STREAM_WINDOW;

/// The largest id of a stream.
const STREAM_ID_MAX: u32 = 0x7fff_ffff;

/// The payloads of the PINGs that the server sends.
pub(super) const KEEPALIVE_PING: [u8; 8] = *b"tg-alive";
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"tg-leave";

/// The names of settings.
pub(super) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// How far the end of the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPhase {
    Open,
    /// The client is told to open no more streams; those that it had opened meanwhile are still accepted.
    Announced,
    /// No more streams are accepted.
    Leaving,
    /// The client broke the protocol.
    Failed,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Http2Session {
    /// Frames to be written.
    pub(super) out: Vec<u8>,
    /// The socket has not accepted everything that was written before.
    pub(super) is_blocked: bool,
    pub(super) streams: StreamTable,
    /// Calls that were opened and not yet taken.
    pub(super) opened: Vec<(u32, CallHead)>,
    /// The largest stream that the client has opened.
    pub(super) last_stream: u32,
    /// The last streams that the server has reset: the client may not know that yet.
    pub(super) reset_by_us: VecDeque<u32>,
    pub(super) decoder: HeaderDecoder,
    /// A header block that is not complete.
    pub(super) block: Option<HeaderBlock>,
    pub(super) receive_window: ReceiveWindow,
    pub(super) send_window: SendWindow,
    /// The window of a new stream, by the client's settings.
    pub(super) stream_window: i64,
    /// The first frame of the client has come; it must be SETTINGS.
    pub(super) has_settings: bool,
    pub(super) phase: SessionPhase,
    /// The most streams that the server has promised to answer in a GOAWAY; a later promise must not be larger.
    promised_stream: u32,
    /// The next header block must begin with the size of the server's table.
    pub(super) owes_table_size: bool,
    pub(super) resets: ResetCount,
    /// Frames since the last that was part of a call.
    pub(super) idle_frames: usize,
    /// Is a PING of ours not answered?
    pub(super) pinging: bool,
    pub(super) ping_waiting: Option<Waker>,
    pub(super) backlog: Arc<ResponseBacklog>,
}

impl Http2Session {
    /// The session of a client that has sent its preface. The settings of the server are the first frame to be written.
    pub(crate) fn new(backlog: Arc<ResponseBacklog>, is_loopback_or_proxy: bool) -> Http2Session {
        Http2Session {
            out: preface(),
            is_blocked: false,
            streams: StreamTable::default(),
            opened: Vec::new(),
            last_stream: 0,
            reset_by_us: VecDeque::new(),
            decoder: HeaderDecoder::new(),
            block: None,
            receive_window: ReceiveWindow::new(CONNECTION_WINDOW),
            send_window: SendWindow::new(WINDOW_AT_START),
            stream_window: WINDOW_AT_START,
            has_settings: false,
            phase: SessionPhase::Open,
            promised_stream: STREAM_ID_MAX,
            owes_table_size: true,
            resets: ResetCount::new(is_loopback_or_proxy),
            idle_frames: 0,
            pinging: false,
            ping_waiting: None,
            backlog,
        }
    }

    /// Takes the calls that the client has opened, the oldest first. The session goes on with the memory of `calls` if
    /// that is empty, so that a connection has to keep little for calls.
    pub(crate) fn take_opened(&mut self, calls: &mut Vec<(u32, CallHead)>) {
        if calls.is_empty() {
            std::mem::swap(calls, &mut self.opened);
        } else {
            calls.append(&mut self.opened);
        }
    }

    /// Takes the frames to be written. `spare` is an empty buffer for the next ones.
    pub(crate) fn take_output(&mut self, spare: &mut Vec<u8>) {
        self.pump();
        std::mem::swap(&mut self.out, spare);
    }

    /// Says whether the socket has accepted everything that was taken.
    pub(crate) fn set_blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
    }

    /// Are there frames to be written?
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Begins to end the connection: the client shall open no more streams.
    pub(crate) fn leave(&mut self) {
        if self.phase == SessionPhase::Open {
            self.phase = SessionPhase::Announced;
            frame::write_go_away(&mut self.out, STREAM_ID_MAX, Http2Code::NoError, "");
            // When it is answered, all streams that the client opened before it knew have come.
            frame::write(&mut self.out, kind::PING, 0, 0, &SHUTDOWN_PING);
        }
    }

    /// Has the connection ended, but for frames to be written?
    pub(crate) fn is_over(&self) -> bool {
        match self.phase {
            SessionPhase::Open | SessionPhase::Announced => false,
            SessionPhase::Leaving => self.streams.len() == 0 && self.opened.is_empty(),
            SessionPhase::Failed => true,
        }
    }

    /// Sends a PING.
    pub(crate) fn ping(&mut self) {
        self.pinging = true;
        frame::write(&mut self.out, kind::PING, 0, 0, &KEEPALIVE_PING);
    }

    /// Waits for the answer to the PING.
    pub(crate) fn poll_pong(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pinging {
            self.ping_waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    pub(super) fn pong(&mut self, payload: &[u8]) {
        if payload == KEEPALIVE_PING {
            self.pinging = false;
            if let Some(waiting) = self.ping_waiting.take() {
                waiting.wake();
            }
        }
        if payload == SHUTDOWN_PING && self.phase == SessionPhase::Announced {
            self.phase = SessionPhase::Leaving;
            self.promised_stream = self.last_stream;
            frame::write_go_away(&mut self.out, self.promised_stream, Http2Code::NoError, "");
        }
    }

    /// Waits until there are resets to be forgiven.
    pub(crate) fn poll_forgivable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.resets.poll_any(cx)
    }

    /// Forgives resets, because a second has passed.
    pub(crate) fn forgive_resets(&mut self) {
        self.resets.forgive();
    }

    /// Ends the connection because the client broke the protocol.
    pub(super) fn fail(&mut self, code: Http2Code, why: &str) {
        self.phase = SessionPhase::Failed;
        let promised = self.promised_stream.min(self.last_stream);
        frame::write_go_away(&mut self.out, promised, code, why);
        while let Some(mut stream) = self.streams.remove(0) {
            stream.wake();
        }
        self.opened.clear();
    }

    /// Ends a stream that is open or was never accepted.
    pub(super) fn reset(&mut self, id: u32, code: Http2Code) {
        /// How many streams that the server has reset are remembered.
        const REMEMBERED: usize = 2 * STREAMS_MAX as usize;
        frame::write_reset(&mut self.out, id, code);
        if self.reset_by_us.len() == REMEMBERED {
            self.reset_by_us.pop_front();
        }
        self.reset_by_us.push_back(id);
        if let Some(place) = self.streams.find(id) {
            self.forget(id, place);
        }
    }

    /// Removes a stream that was reset, and its call if nobody has taken it yet.
    pub(super) fn forget(&mut self, id: u32, place: usize) {
        self.remove(place);
        if let Ok(call) = self.opened.binary_search_by_key(&id, |(opened, _)| *opened) {
            self.opened.remove(call);
        }
    }

    /// Removes a stream, and gives back the part of the connection's window that its call has not taken.
    pub(super) fn remove(&mut self, place: usize) {
        if let Some(mut stream) = self.streams.remove(place) {
            stream.wake();
            self.release(stream.received.len());
        }
    }

    /// Gives back a part of the connection's window.
    pub(super) fn release(&mut self, bytes: usize) {
        if let Some(increment) = self.receive_window.release(bytes) {
            frame::write_window_update(&mut self.out, 0, increment);
        }
    }
}

/// What the server sends first.
fn preface() -> Vec<u8> {
    let mut out = Vec::new();
    let settings = [
        (setting::MAX_CONCURRENT_STREAMS, STREAMS_MAX),
        (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW),
        (setting::MAX_HEADER_LIST_SIZE, HTTP2_HEAD_BYTES_MAX),
    ];
    frame::write_settings(&mut out, &settings);
    frame::write_window_update(&mut out, 0, CONNECTION_WINDOW - WINDOW_AT_START as u32);
    out
}

/// A session that the calls of the connection share. All of them run in the connection's task, so the lock never waits.
#[derive(Clone, Debug)]
pub(crate) struct SharedSession(Arc<Mutex<Http2Session>>);

impl SharedSession {
    pub(crate) fn new(session: Http2Session) -> SharedSession {
        SharedSession(Arc::new(Mutex::new(session)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Http2Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flags of a frame of headers that is complete.
pub(super) const fn headers_flags(end: bool) -> u8 {
    if end { flag::END_HEADERS | flag::END_STREAM } else { flag::END_HEADERS }
}
