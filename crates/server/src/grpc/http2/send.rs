//! Sends responses: at once if the windows and the socket accept them, and otherwise when they do.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::error::Http2Code;
use super::frame::{self, kind};
use super::hpack::encoder;
use super::session::{Http2Session, headers_flags};
use super::stream::{Http2Stream, SendQueue};
use crate::bounds::RESPONSES_AT_ONCE_BYTES;
use crate::serve::CountedBytes;

impl Http2Session {
    /// Sends a whole response. Most are sent at once, so that they are neither queued nor counted.
    pub(super) fn send_whole(&mut self, id: u32, head: &[u8], message: Bytes, trailers: &[u8]) {
        let Some(place) = self.place_of_unanswered(id) else { return };
        self.write_headers(id, head, false);
        if self.accepts(place, message.len()) {
            self.write_data(place, &message);
            self.write_headers(id, trailers, true);
            self.finish(place);
            return;
        }
        let mut message = CountedBytes::uncounted(message);
        message.count(&self.backlog);
        self.queue(place, |queue| {
            queue.data.push_back(message);
            queue.trailers = Some(trailers.to_vec());
        });
    }

    /// Sends the head of a response, which may be all of it.
    pub(super) fn send_head(&mut self, id: u32, block: &[u8], end: bool) {
        let Some(place) = self.place_of_unanswered(id) else { return };
        if end && !self.has_space() {
            // Refusals wait like other responses, so that the number of streams bounds them too.
            return self.queue(place, |queue| queue.trailers = Some(block.to_vec()));
        }
        self.write_headers(id, block, end);
        if end {
            self.finish(place);
        }
    }

    fn write_headers(&mut self, id: u32, block: &[u8], end: bool) {
        let flags = headers_flags(end);
        match std::mem::take(&mut self.owes_table_size) {
            false => frame::write(&mut self.out, kind::HEADERS, flags, id, block),
            true => {
                let block = [encoder::NO_TABLE, block].concat();
                frame::write(&mut self.out, kind::HEADERS, flags, id, &block);
            }
        }
    }

    /// Sends a message; `false` if the client is gone.
    pub(super) fn send_data(&mut self, id: u32, mut message: CountedBytes) -> bool {
        let Some(place) = self.place_of_unanswered(id) else { return false };
        if self.accepts(place, message.remaining()) {
            self.write_data(place, message.chunk());
            message.advance(message.remaining());
        } else {
            self.queue(place, |queue| queue.data.push_back(message));
        }
        true
    }

    /// Ends a response.
    pub(super) fn send_trailers(&mut self, id: u32, block: &[u8]) {
        let Some(place) = self.place_of_unanswered(id) else { return };
        let is_queued = self.streams.at(place).is_some_and(|stream| stream.queue.is_some());
        if is_queued {
            self.queue(place, |queue| queue.trailers = Some(block.to_vec()));
        } else {
            self.write_headers(id, block, true);
            self.finish(place);
        }
    }

    /// Sends what was queued, as far as the windows and the socket accept it: a frame of each stream in turn.
    pub(super) fn pump(&mut self) {
        let mut progressed = self.streams.queued > 0;
        while std::mem::take(&mut progressed) {
            let mut place = 0;
            while self.streams.queued > 0 && self.has_space() && place < self.streams.len() {
                let left = self.streams.len();
                progressed |= self.pump_stream(place);
                // A stream that has ended is removed, and the next one is then at its place.
                place += usize::from(self.streams.len() == left);
            }
        }
    }

    /// Sends a frame from a queue. Was anything sent?
    fn pump_stream(&mut self, place: usize) -> bool {
        let of_connection = self.send_window.left();
        let Some(Http2Stream { id, queue, send_window, .. }) = self.streams.at(place) else { return false };
        let Some(SendQueue { data, trailers }) = queue.as_deref_mut() else { return false };
        let (id, sendable) = (*id, of_connection.min(send_window.left()).min(frame::PAYLOAD_MAX));
        if let Some(message) = data.front_mut() {
            let sent = message.remaining().min(sendable);
            if sent == 0 && message.has_remaining() {
                return false;
            }
            frame::write(&mut self.out, kind::DATA, 0, id, &message.chunk()[..sent]);
            message.advance(sent);
            send_window.take(sent);
            self.send_window.take(sent);
            drop_sent(data);
        }
        if !data.is_empty() {
            return true;
        }
        let trailers = trailers.take();
        self.streams.queued -= 1;
        if let Some(stream) = self.streams.at(place) {
            stream.queue = None;
            stream.wake();
        }
        if let Some(block) = trailers {
            self.write_headers(id, &block, true);
            self.finish(place);
        }
        true
    }

    fn place_of_unanswered(&mut self, id: u32) -> Option<usize> {
        let place = self.streams.find(id)?;
        self.streams.at(place).is_some_and(|stream| !stream.local_ended).then_some(place)
    }

    /// Can a message be sent at once?
    fn accepts(&mut self, place: usize, bytes: usize) -> bool {
        let most = self.send_window.left().min(frame::PAYLOAD_MAX);
        bytes <= most
            && self.has_space()
            && self
                .streams
                .at(place)
                .is_some_and(|stream| stream.queue.is_none() && bytes <= stream.send_window.left())
    }

    /// Responses are not collected without bound: beyond this they wait in their streams, where they are counted.
    fn has_space(&self) -> bool {
        !self.is_blocked && self.out.len() < RESPONSES_AT_ONCE_BYTES
    }

    fn write_data(&mut self, place: usize, message: &[u8]) {
        if let Some(stream) = self.streams.at(place) {
            stream.send_window.take(message.len());
            self.send_window.take(message.len());
            frame::write(&mut self.out, kind::DATA, 0, stream.id, message);
        }
    }

    fn queue(&mut self, place: usize, change: impl FnOnce(&mut SendQueue)) {
        let Some(stream) = self.streams.at(place) else { return };
        let is_new = stream.queue.is_none();
        let queue = stream.queue.get_or_insert_default();
        change(queue);
        stream.local_ended = queue.trailers.is_some();
        self.streams.queued += usize::from(is_new);
    }

    /// The response has been sent. A client that has not sent all of its request need not send the rest.
    fn finish(&mut self, place: usize) {
        self.resets.make_up();
        let Some(stream) = self.streams.at(place) else { return };
        if stream.remote_ended {
            self.remove(place);
        } else {
            let id = stream.id;
            self.reset(id, Http2Code::NoError);
        }
    }
}

/// Drops messages that are sent.
fn drop_sent(data: &mut VecDeque<CountedBytes>) {
    while data.front().is_some_and(|message| !message.has_remaining()) {
        data.pop_front();
    }
}
