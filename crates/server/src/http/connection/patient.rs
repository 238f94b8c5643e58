//! A connection that does not wait for ever for the rest of a head.
//!
//! The time runs from the first byte of a head, not while a connection is idle between requests. It is
//! looked at only when a read finds nothing and a head has begun: a head that comes in one piece, as
//! nearly all do, sets no timer.
//!
//! A head whose beginning came together with the end of the request before it is timed from its next
//! byte on; until then it counts as idle.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::bounds::HEAD_TIMEOUT;
use crate::http::Context;
use crate::serve::OutboxFull;

/// A connection, with what was already read of it.
pub(crate) struct SniffedConnection<I> {
    io: I,
    seen: Bytes,
    context: Arc<Context>,
    times_heads: bool,
    /// The number of the request whose head has begun to come.
    head_of: Option<u64>,
    /// Does something wait to be written?
    has_backlog: bool,
    timer: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<I> SniffedConnection<I> {
    /// A connection of which `seen` was read.
    pub(crate) fn new(io: I, seen: Bytes, context: Arc<Context>, times_heads: bool) -> SniffedConnection<I> {
        let head_of = times_heads.then(|| context.activity.began());
        SniffedConnection { io, seen, context, times_heads, head_of, has_backlog: false, timer: None }
    }

    fn note_bytes(&mut self) {
        if self.times_heads && self.context.activity.is_idle() {
            self.head_of = Some(self.context.activity.began());
        }
    }

    /// So much waits to be written; hyper hands all it has to a write. On HTTP/2, where answers count one by one,
    /// that is no more than a few frames.
    #[inline]
    fn tell_backlog(&mut self, bytes: usize) -> Result<(), OutboxFull> {
        if !self.times_heads || (bytes == 0 && !self.has_backlog) {
            return Ok(());
        }
        self.has_backlog = bytes > 0;
        self.context.outbox.set_backlog(bytes)
    }

    /// Has the head that is coming taken too long?
    fn is_late(&mut self, task: &mut Task<'_>) -> bool {
        let activity = &self.context.activity;
        let Some(head) = self.head_of.filter(|head| *head == activity.began() && activity.is_idle()) else {
            return false;
        };
        if self.timer.as_ref().is_none_or(|(of, _)| *of != head) {
            self.timer = Some((head, Box::pin(tokio::time::sleep(HEAD_TIMEOUT))));
        }
        self.timer.as_mut().is_some_and(|(_, timer)| timer.as_mut().poll(task).is_ready())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for SniffedConnection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.seen.is_empty() {
            let count = self.seen.len().min(buf.remaining());
            buf.put_slice(&self.seen[..count]);
            self.seen.advance(count);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(task, buf);
        match read {
            Poll::Ready(_) if buf.filled().len() > before => self.note_bytes(),
            Poll::Pending if self.is_late(task) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Ready(_) | Poll::Pending => {}
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for SniffedConnection<I> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(task, buf);
        let left = match written {
            Poll::Ready(Ok(bytes)) => buf.len() - bytes,
            Poll::Ready(Err(_)) => 0,
            Poll::Pending => buf.len(),
        };
        match self.tell_backlog(left) {
            Ok(()) => written,
            Err(no_room) => Poll::Ready(Err(io::Error::other(no_room))),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(task, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
