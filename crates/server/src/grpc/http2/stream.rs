//! The streams of a connection: one for each call that is not over.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::BytesMut;

use super::window::{ReceiveWindow, SendWindow};
use crate::bounds::STREAMS_MAX;
use crate::serve::CountedBytes;

/// One call on the wire.
#[derive(Debug)]
pub(super) struct Http2Stream {
    pub(super) id: u32,
    pub(super) receive_window: ReceiveWindow,
    pub(super) send_window: SendWindow,
    /// Bytes that the call has not taken yet.
    pub(super) received: BytesMut,
    /// Bytes that must still come, if the client has announced how many.
    pub(super) expected: Option<u64>,
    /// The client has sent everything.
    pub(super) remote_ended: bool,
    /// The end of the response is sent or queued.
    pub(super) local_ended: bool,
    pub(super) queue: Option<Box<SendQueue>>,
    /// The task that waits for bytes, for the response to be sent, or for a reset.
    pub(super) waiting: Option<Waker>,
}

/// What the windows or the socket do not accept yet.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pub(super) data: VecDeque<CountedBytes>,
    /// A header block that ends the response.
    pub(super) trailers: Option<Vec<u8>>,
}

impl Http2Stream {
    pub(super) fn wake(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

/// The streams that are open, ordered by their id.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    streams: VecDeque<Http2Stream>,
    /// How many have a queue.
    pub(super) queued: usize,
}

impl StreamTable {
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.streams.len() >= STREAMS_MAX as usize
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        // Usually it is the newest, to which a frame belongs, or the oldest, which is answered.
        match (self.streams.back(), self.streams.front()) {
            (Some(newest), _) if newest.id == id => Some(self.streams.len() - 1),
            (_, Some(oldest)) if oldest.id == id => Some(0),
            _ => self.streams.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Http2Stream> {
        let place = self.find(id)?;
        self.streams.get_mut(place)
    }

    pub(super) fn at(&mut self, place: usize) -> Option<&mut Http2Stream> {
        self.streams.get_mut(place)
    }

    /// Adds a stream, whose id is larger than all others.
    pub(super) fn add(&mut self, stream: Http2Stream) {
        self.streams.push_back(stream);
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Http2Stream> {
        let stream = self.streams.remove(place)?;
        self.queued -= usize::from(stream.queue.is_some());
        Some(stream)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Http2Stream> {
        self.streams.iter_mut()
    }
}
