//! Frames that are part of a call: HEADERS, DATA, RST_STREAM.

use bytes::BytesMut;

use super::super::error::{Http2Code, Http2Violation};
use super::super::frame::{self, FrameHead, flag};
use super::super::head::{CallHead, HeadReader, ReadHead};
use super::super::hpack::decoder::BadBlock;
use super::super::hpack::encoder;
use super::super::session::{Http2Session, STREAM_WINDOW, SessionPhase};
use super::super::stream::Http2Stream;
use super::super::window::{ReceiveWindow, SendWindow};
use super::{Handled, broken};

impl Http2Session {
    pub(super) fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        // Clients open streams with odd numbers.
        if head.stream.is_multiple_of(2) {
            return broken(Http2Code::Protocol);
        }
        let Some(mut fragment) = frame::unpadded(&head, payload) else { return broken(Http2Code::Protocol) };
        if head.has(flag::PRIORITY) {
            let Some((_ignored, rest)) = fragment.split_at_checked(5) else {
                return broken(Http2Code::FrameSize);
            };
            fragment = rest;
        }
        self.begin_block(head, fragment)
    }

    /// Handles a complete block. It is always decoded, because later blocks may refer to its fields.
    pub(super) fn end_block(&mut self, id: u32, ends: bool, block: &[u8]) -> Handled {
        let mut reader = HeadReader::default();
        match self.decoder.decode(block, |name, value| reader.field(name, value)) {
            Ok(()) => {}
            Err(BadBlock::Invalid) => return broken(Http2Code::Compression),
            Err(BadBlock::AddsTooMuch) => return Err(Http2Violation::Bound("too_many_fields_added")),
        }
        if id <= self.last_stream {
            return self.trailers(id, ends, reader);
        }
        self.last_stream = id;
        if self.phase == SessionPhase::Leaving || self.streams.is_full() {
            self.reset(id, Http2Code::RefusedStream);
            return self.count_idle_frame();
        }
        match reader.end() {
            ReadHead::Sound(head) => self.open(id, ends, head),
            ReadHead::TooLarge => {
                self.add_stream(id, ends, None);
                let mut block = Vec::new();
                encoder::put_field(&mut block, ":status", "431");
                self.send_head(id, &block, true);
                self.count_idle_frame()
            }
            ReadHead::Malformed => Err(Http2Violation::Stream(id, Http2Code::Protocol)),
        }
    }

    fn open(&mut self, id: u32, ends: bool, head: CallHead) -> Handled {
        if ends && head.content_length.is_some_and(|length| length > 0) {
            return Err(Http2Violation::Stream(id, Http2Code::Protocol));
        }
        self.idle_frames = 0;
        self.add_stream(id, ends, head.content_length);
        self.opened.push((id, head));
        Ok(())
    }

    fn add_stream(&mut self, id: u32, ends: bool, expected: Option<u64>) {
        self.streams.add(Http2Stream {
            id,
            receive_window: ReceiveWindow::new(STREAM_WINDOW),
            send_window: SendWindow::new(self.stream_window),
            received: BytesMut::new(),
            expected,
            remote_ended: ends,
            local_ended: false,
            queue: None,
            waiting: None,
        });
    }

    /// A second block on a stream has its trailers, which gRPC does not use.
    fn trailers(&mut self, id: u32, ends: bool, reader: HeadReader) -> Handled {
        let Some(stream) = self.streams.get(id) else { return self.on_closed(id) };
        if stream.remote_ended {
            return Err(Http2Violation::Stream(id, Http2Code::StreamClosed));
        }
        if !ends || !reader.end_trailers() {
            return Err(Http2Violation::Stream(id, Http2Code::Protocol));
        }
        self.end_request(id)
    }

    pub(super) fn data(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        let id = head.stream;
        if self.is_idle(id) {
            return broken(Http2Code::Protocol);
        }
        let Some(data) = frame::unpadded(&head, payload) else { return broken(Http2Code::Protocol) };
        if self.receive_window.receive(payload.len()).is_none() {
            return broken(Http2Code::FlowControl);
        }
        let Some(stream) = self.streams.get(id) else {
            self.release(payload.len());
            return self.on_closed(id);
        };
        let fits = stream.receive_window.receive(payload.len()).is_some();
        let expected = stream.expected.map(|left| left.checked_sub(data.len() as u64));
        if stream.remote_ended || !fits || expected == Some(None) {
            let code = match (stream.remote_ended, fits) {
                (true, _) => Http2Code::StreamClosed,
                (false, false) => Http2Code::FlowControl,
                (false, true) => Http2Code::Protocol,
            };
            self.release(payload.len());
            return Err(Http2Violation::Stream(id, code));
        }
        stream.expected = expected.flatten();
        stream.received.extend_from_slice(data);
        let ends = head.has(flag::END_STREAM);
        if !data.is_empty() && !ends {
            stream.wake();
        }
        if payload.len() > data.len() {
            self.release_taken(id, payload.len() - data.len());
        }
        match (ends, data.is_empty()) {
            (true, _) => {
                self.idle_frames = 0;
                self.end_request(id)
            }
            (false, true) => self.count_idle_frame(),
            (false, false) => {
                self.idle_frames = 0;
                Ok(())
            }
        }
    }

    fn end_request(&mut self, id: u32) -> Handled {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if stream.expected.is_some_and(|left| left > 0) {
            return Err(Http2Violation::Stream(id, Http2Code::Protocol));
        }
        stream.remote_ended = true;
        stream.wake();
        Ok(())
    }

    pub(super) fn reset_by_client(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if payload.len() != 4 {
            return broken(Http2Code::FrameSize);
        }
        if self.is_idle(head.stream) {
            return broken(Http2Code::Protocol);
        }
        let Some(place) = self.streams.find(head.stream) else { return self.count_idle_frame() };
        self.forget(head.stream, place);
        self.count_reset()
    }

    /// Lets the client send more, in place of bytes that are used.
    pub(in super::super) fn release_taken(&mut self, id: u32, bytes: usize) {
        if let Some(stream) = self.streams.get(id)
            && !stream.remote_ended
            && let Some(increment) = stream.receive_window.release(bytes)
        {
            frame::write_window_update(&mut self.out, id, increment);
        }
        self.release(bytes);
    }

    /// A frame on a stream that has ended. The client may not know yet that the server has reset it.
    fn on_closed(&mut self, id: u32) -> Handled {
        if !self.reset_by_us.contains(&id) {
            self.reset(id, Http2Code::StreamClosed);
        }
        self.count_idle_frame()
    }

    /// Was the stream never opened? Number 0 is the connection, and even ones are the server's.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }
}
