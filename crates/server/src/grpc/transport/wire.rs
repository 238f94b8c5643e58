//! Moves bytes between the socket and the session: one read has the frames of many calls, and one write has their
//! responses.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::bounds::GRPC_READ_BYTES;
use crate::grpc::http2::head::CallHead;
use crate::grpc::http2::session::SharedSession;
use crate::serve::{CountedBytes, ResponseBacklog};

/// A connection keeps a buffer of this size for its output; a larger one is given back.
const OUTPUT_KEPT_BYTES: usize = 16 * 1_024;

/// Unsent frames are joined to pieces of up to this size.
const PIECE_BYTES: usize = 4 * 1_024;

thread_local! {
    /// Where all connections of a thread read, so that an idle one needs no buffer. It has space for an incomplete frame
    /// and more.
    static INPUT: RefCell<Box<[u8]>> = RefCell::new(vec![0; GRPC_READ_BYTES].into_boxed_slice());
}

/// A socket and the bytes in front of it and behind it.
pub(crate) struct Wire<I> {
    io: I,
    /// The start of a frame that is not complete.
    held: Vec<u8>,
    /// A buffer for frames while they are written.
    output: Vec<u8>,
    /// Frames that the socket has not accepted.
    unsent: VecDeque<CountedBytes>,
    is_flushed: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Wire<I> {
    pub(crate) fn new(io: I) -> Wire<I> {
        Wire { io, held: Vec::new(), output: Vec::new(), unsent: VecDeque::new(), is_flushed: true }
    }

    /// Reads once, and hands the frames to the session. Calls that it opens are added to `accepted`.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        session: &SharedSession,
        accepted: &mut Vec<(u32, CallHead)>,
    ) -> Poll<io::Result<()>> {
        INPUT.with_borrow_mut(|input| {
            let held = self.held.len();
            input[..held].copy_from_slice(&self.held);
            let mut free = ReadBuf::new(&mut input[held..]);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut free))?;
            let filled = held + free.filled().len();
            if filled == held {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut session = session.lock();
            let used = session.receive(&input[..filled]);
            session.take_opened(accepted);
            self.held.clear();
            match &input[used..filled] {
                [] => self.held = Vec::new(),
                rest => self.held.extend_from_slice(rest),
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Sends all frames; `false` if the socket does not accept all of them now. Those that it does not accept count
    /// against the backlog.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        session: &SharedSession,
        backlog: &Arc<ResponseBacklog>,
    ) -> io::Result<bool> {
        loop {
            while let Some(unsent) = self.unsent.front_mut() {
                match write(&mut self.io, cx, unsent.chunk())? {
                    Some(written) => unsent.advance(written),
                    None => {
                        self.keep(session, backlog);
                        return Ok(false);
                    }
                }
                if !unsent.has_remaining() {
                    self.unsent.pop_front();
                }
            }
            self.take_output(session, false);
            if self.output.is_empty() {
                return self.flush(cx);
            }
            self.is_flushed = false;
            let mut sent = 0;
            while sent < self.output.len() {
                match write(&mut self.io, cx, &self.output[sent..])? {
                    Some(written) => sent += written,
                    None => {
                        let rest = Bytes::copy_from_slice(&self.output[sent..]);
                        self.unsent.push_back(backlog.count_until_sent(rest));
                        session.lock().set_blocked(true);
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Keeps frames of which the socket accepts none now.
    fn keep(&mut self, session: &SharedSession, backlog: &Arc<ResponseBacklog>) {
        self.take_output(session, true);
        if self.output.is_empty() {
            return;
        }
        // Small frames are joined: each piece costs memory beside its bytes. The first keeps its own count, which tells
        // whether the client reads at all.
        let joins = |last: &&CountedBytes| last.remaining() + self.output.len() <= PIECE_BYTES;
        let last = self.unsent.back().filter(|_| self.unsent.len() > 1).filter(joins);
        let bytes = Bytes::from([last.map_or(&[][..], CountedBytes::chunk), &self.output].concat());
        if last.is_some() {
            self.unsent.pop_back();
        }
        self.unsent.push_back(backlog.count_until_sent(bytes));
    }

    fn take_output(&mut self, session: &SharedSession, is_blocked: bool) {
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT_BYTES);
        let mut session = session.lock();
        session.set_blocked(is_blocked);
        session.take_output(&mut self.output);
    }

    /// Reads and discards until the client closes.
    pub(crate) async fn discard_input(&mut self) -> io::Result<()> {
        let mut bytes = [0; 1_024];
        while self.io.read(&mut bytes).await? > 0 {}
        Ok(())
    }

    /// Ends the connection.
    pub(crate) fn shut_down(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.io).poll_shutdown(cx).map(|_ended| ())
    }

    /// TLS may hold bytes that the socket has not accepted.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.is_flushed {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return Ok(false),
            }
            self.is_flushed = true;
        }
        Ok(true)
    }
}

/// Writes to the socket; `None` if it accepts nothing now.
fn write(
    io: &mut (impl AsyncWrite + Unpin),
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> io::Result<Option<usize>> {
    match Pin::new(io).poll_write(cx, bytes) {
        Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
        Poll::Ready(written) => written.map(Some),
        Poll::Pending => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::budget::ByteBudget;
    use crate::grpc::http2::session::Http2Session;

    /// What a client makes the server send and does not read is held without much memory beside its bytes.
    #[test]
    fn small_frames_that_the_socket_does_not_accept_are_joined() {
        let account = ByteBudget::of(1 << 20).account([192, 0, 2, 1].into(), false);
        let backlog = ResponseBacklog::new(&account);
        let session = SharedSession::new(Http2Session::new(Arc::clone(&backlog), false));
        let (_client, server) = tokio::io::duplex(1);
        let mut wire = Wire::new(server);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..2_000 {
            session.lock().ping();
            assert!(!wire.send(&mut cx, &session, &backlog).expect("it is open"));
        }
        let bytes: usize = wire.unsent.iter().map(Buf::remaining).sum();
        assert!((30_000..40_000).contains(&bytes), "{bytes}");
        assert!(wire.unsent.len() < 15, "{}", wire.unsent.len());
    }
}
