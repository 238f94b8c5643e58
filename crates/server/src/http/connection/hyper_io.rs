//! The socket that hyper sees: it replays bytes that were read before hyper, ends a connection whose request head
//! arrives too slowly, and reports unsent bytes to the response backlog.
//!
//! The timeout of a head runs from its first byte, not while a connection is idle between requests. It is checked
//! only when a read finds nothing and a head has begun: a head that arrives in one piece, as nearly all do, sets no
//! timer.
//!
//! A head whose beginning arrived together with the end of the request before it is timed from its next byte on;
//! until then the connection counts as idle.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::bounds::HEAD_TIMEOUT;
use crate::http::Context;
use crate::serve::BacklogFull;

/// A connection for hyper, with the bytes already read from it.
pub(crate) struct HyperIo<I> {
    io: I,
    read_ahead: Bytes,
    context: Arc<Context>,
    is_http1: bool,
    /// The number of the request whose head has begun to arrive.
    head_of: Option<u64>,
    /// Are bytes waiting to be written?
    has_unsent: bool,
    timer: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<I> HyperIo<I> {
    /// Wraps `io`, from which `read_ahead` was already read. Only HTTP/1.1 heads are timed, and only HTTP/1.1 reports
    /// its unsent bytes here.
    pub(crate) fn new(io: I, read_ahead: Bytes, context: Arc<Context>, is_http1: bool) -> HyperIo<I> {
        let head_of = is_http1.then(|| context.activity.requests_started());
        HyperIo { io, read_ahead, context, is_http1, head_of, has_unsent: false, timer: None }
    }

    fn note_bytes(&mut self) {
        if self.is_http1 && self.context.activity.is_idle() {
            self.head_of = Some(self.context.activity.requests_started());
        }
    }

    /// Reports how many bytes wait to be written; hyper passes all it has to one write. HTTP/2 reports nothing here:
    /// its responses are counted one by one, and a write has no more than a few frames.
    #[inline]
    fn report_unsent(&mut self, bytes: usize) -> Result<(), BacklogFull> {
        if !self.is_http1 || (bytes == 0 && !self.has_unsent) {
            return Ok(());
        }
        self.has_unsent = bytes > 0;
        self.context.backlog.set_unsent(bytes)
    }

    /// Has the head that is arriving taken too long?
    fn is_late(&mut self, task: &mut Task<'_>) -> bool {
        let activity = &self.context.activity;
        let Some(head) =
            self.head_of.filter(|head| *head == activity.requests_started() && activity.is_idle())
        else {
            return false;
        };
        if self.timer.as_ref().is_none_or(|(of, _)| *of != head) {
            self.timer = Some((head, Box::pin(tokio::time::sleep(HEAD_TIMEOUT))));
        }
        self.timer.as_mut().is_some_and(|(_, timer)| timer.as_mut().poll(task).is_ready())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for HyperIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read_ahead.is_empty() {
            let count = self.read_ahead.len().min(buf.remaining());
            buf.put_slice(&self.read_ahead[..count]);
            self.read_ahead.advance(count);
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

impl<I: AsyncWrite + Unpin> AsyncWrite for HyperIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(task, buf);
        let left = match written {
            Poll::Ready(Ok(bytes)) => buf.len() - bytes,
            Poll::Ready(Err(_)) => 0,
            Poll::Pending => buf.len(),
        };
        match self.report_unsent(left) {
            Ok(()) => written,
            Err(full) => Poll::Ready(Err(io::Error::other(full))),
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
