//! Ends a connection whose client does not read.
//!
//! Unread responses take memory. While a write is pending, the client must read at least [`CLIENT_READ_BYTES_MIN`], or
//! the rest if that is less, in each period of [`CLIENT_READ_TIMEOUT`]. What it sends meanwhile does not count, and
//! reading a byte now and then is not enough. The guard wraps the socket below TLS and below every protocol, so that
//! it counts bytes on the socket and sees stalls that a library's buffers would hide.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::bounds::{CLIENT_READ_BYTES_MIN, CLIENT_READ_TIMEOUT};

/// A socket whose writes fail with `TimedOut` if the client does not read.
#[derive(Debug)]
pub(crate) struct StallGuard<I> {
    io: I,
    /// Present while a write is pending.
    stall: Option<Stall>,
}

#[derive(Debug)]
struct Stall {
    timer: Pin<Box<Sleep>>,
    /// Bytes written in this period.
    written: usize,
}

impl<I> StallGuard<I> {
    pub(crate) fn new(io: I) -> StallGuard<I> {
        StallGuard { io, stall: None }
    }

    /// Notes that the socket accepted `bytes` of the `wanted` bytes of a write.
    #[inline]
    fn note_written(&mut self, bytes: usize, wanted: usize) {
        if let Some(stall) = &mut self.stall {
            stall.written += bytes;
            if bytes == wanted {
                self.stall = None;
            }
        }
    }

    /// A write is pending. Has the client read too little in this period?
    fn is_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        let begin = || Stall { timer: Box::pin(tokio::time::sleep(CLIENT_READ_TIMEOUT)), written: 0 };
        let stall = self.stall.get_or_insert_with(begin);
        while stall.timer.as_mut().poll(cx).is_ready() {
            if stall.written < CLIENT_READ_BYTES_MIN {
                return true;
            }
            stall.written = 0;
            stall.timer.set(tokio::time::sleep(CLIENT_READ_TIMEOUT));
        }
        false
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StallGuard<I> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for StallGuard<I> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        match written {
            Poll::Ready(Ok(bytes)) => self.note_written(bytes, buf.len()),
            Poll::Pending if self.is_stalled(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        match written {
            Poll::Ready(Ok(bytes)) => self.note_written(bytes, bufs.iter().map(|buf| buf.len()).sum()),
            Poll::Pending if self.is_stalled(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    /// Writes much to a connection that buffers 1 KiB.
    fn writing() -> (DuplexStream, JoinHandle<io::Result<()>>) {
        let (client, server) = duplex(1_024);
        let write =
            async { StallGuard::new(server).write_all(&vec![b'x'; 10 * CLIENT_READ_BYTES_MIN]).await };
        (client, tokio::spawn(write))
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_whatever_it_sends() {
        let (mut client, writing) = writing();
        let began = tokio::time::Instant::now();
        while !writing.is_finished() {
            _ = client.write_all(b"?").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() <= CLIENT_READ_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_does_not_help() {
        let (mut client, writing) = writing();
        let began = tokio::time::Instant::now();
        while !writing.is_finished() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            _ = client.read(&mut [0; 16]).await;
        }
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() <= CLIENT_READ_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_but_gets_on_is_waited_for() {
        let (mut client, writing) = writing();
        let mut read = 0;
        while read < 10 * CLIENT_READ_BYTES_MIN {
            tokio::time::sleep(CLIENT_READ_TIMEOUT / 20).await;
            read += client.read(&mut [0; 1_024]).await.unwrap();
        }
        writing.await.unwrap().expect("all was written");
    }
}
