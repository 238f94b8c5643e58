//! The two halves of a call's stream, for the code that answers it.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::error::Http2Code;
use super::session::SharedSession;
use crate::serve::CountedBytes;

/// The client has reset the stream, or the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamGone;

/// What the client sends.
#[derive(Debug)]
pub(crate) struct RequestStream {
    session: SharedSession,
    id: u32,
}

impl RequestStream {
    pub(crate) fn new(session: &SharedSession, id: u32) -> RequestStream {
        RequestStream { session: session.clone(), id }
    }

    /// Waits for bytes, and lets the client send as many more; `None` at the end.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamGone>> {
        let mut session = self.session.lock();
        let session = &mut *session;
        let Some(stream) = session.streams.get(self.id) else { return Poll::Ready(Err(StreamGone)) };
        if stream.received.is_empty() {
            if stream.remote_ended {
                return Poll::Ready(Ok(None));
            }
            stream.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = std::mem::take(&mut stream.received).freeze();
        session.release_taken(self.id, bytes.len());
        Poll::Ready(Ok(Some(bytes)))
    }
}

/// The response. If it is dropped before its end, the stream is reset.
#[derive(Debug)]
pub(crate) struct ResponseStream {
    session: SharedSession,
    id: u32,
    ended: bool,
}

impl ResponseStream {
    pub(crate) fn new(session: &SharedSession, id: u32) -> ResponseStream {
        ResponseStream { session: session.clone(), id, ended: false }
    }

    /// Sends a whole response: header blocks, and a message between them.
    pub(crate) fn send_whole(mut self, head: &[u8], message: Bytes, trailers: &[u8]) {
        self.ended = true;
        self.session.lock().send_whole(self.id, head, message, trailers);
    }

    /// Sends a header block that is the whole response.
    pub(crate) fn send_only(mut self, block: &[u8]) {
        self.ended = true;
        self.session.lock().send_head(self.id, block, true);
    }

    /// Sends the header block at the start of a response.
    pub(crate) fn send_head(&mut self, block: &[u8]) {
        self.session.lock().send_head(self.id, block, false);
    }

    /// Sends a message, or queues it.
    ///
    /// # Errors
    /// If the client is gone.
    pub(crate) fn send_data(&mut self, message: CountedBytes) -> Result<(), StreamGone> {
        if self.session.lock().send_data(self.id, message) { Ok(()) } else { Err(StreamGone) }
    }

    /// Ends the response with a header block.
    pub(crate) fn send_trailers(mut self, block: &[u8]) {
        self.ended = true;
        self.session.lock().send_trailers(self.id, block);
    }

    /// Waits until all messages are sent.
    ///
    /// # Errors
    /// If the client is gone.
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamGone>> {
        let mut session = self.session.lock();
        let Some(stream) = session.streams.get(self.id) else { return Poll::Ready(Err(StreamGone)) };
        if stream.queue.is_none() {
            return Poll::Ready(Ok(()));
        }
        stream.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Watches for the end of the stream.
    pub(crate) fn watch(&self) -> StreamWatch {
        StreamWatch { session: self.session.clone(), id: self.id }
    }
}

/// Watches for the end of a stream. The same task must wait for this and for the halves of the stream, because a stream
/// remembers one waker.
#[derive(Debug)]
pub(crate) struct StreamWatch {
    session: SharedSession,
    id: u32,
}

impl StreamWatch {
    /// Waits until the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut session = self.session.lock();
        let Some(stream) = session.streams.get(self.id) else { return Poll::Ready(()) };
        stream.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if !self.ended {
            let mut session = self.session.lock();
            if session.streams.find(self.id).is_some() {
                session.reset(self.id, Http2Code::Cancel);
            }
        }
    }
}
