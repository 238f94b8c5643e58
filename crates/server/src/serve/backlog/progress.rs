//! A connection whose other end must take what is written to it.
//!
//! Answers that nobody takes are memory. Whoever leaves a write waiting has [`TAKE_TIMEOUT`] to take at least
//! [`TAKE_BYTES_MIN`], or the rest if that is less, and then as long again: what it sends meanwhile does not count,
//! and a byte now and then does not help. It stands below TLS and below every protocol, so that it counts bytes of
//! the socket and nothing that a library holds in between is missed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::bounds::{TAKE_BYTES_MIN, TAKE_TIMEOUT};

/// The connection.
#[derive(Debug)]
pub(crate) struct StallGuard<I> {
    io: I,
    /// There while a write waits.
    stall: Option<Stall>,
}

#[derive(Debug)]
struct Stall {
    timer: Pin<Box<Sleep>>,
    taken: usize,
}

impl<I> StallGuard<I> {
    pub(crate) fn new(io: I) -> StallGuard<I> {
        StallGuard { io, stall: None }
    }

    /// So much of what was to be written is taken.
    #[inline]
    fn took(&mut self, bytes: usize, of: usize) {
        if let Some(stall) = &mut self.stall {
            stall.taken += bytes;
            if bytes == of {
                self.stall = None;
            }
        }
    }

    /// Nothing is taken at the moment. Is that so for too long?
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let begin = || Stall { timer: Box::pin(tokio::time::sleep(TAKE_TIMEOUT)), taken: 0 };
        let stall = self.stall.get_or_insert_with(begin);
        while stall.timer.as_mut().poll(cx).is_ready() {
            if stall.taken < TAKE_BYTES_MIN {
                return true;
            }
            stall.taken = 0;
            stall.timer.set(tokio::time::sleep(TAKE_TIMEOUT));
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
            Poll::Ready(Ok(bytes)) => self.took(bytes, buf.len()),
            Poll::Pending if self.is_late(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
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
            Poll::Ready(Ok(bytes)) => self.took(bytes, bufs.iter().map(|buf| buf.len()).sum()),
            Poll::Pending if self.is_late(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
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

    /// Writes much, to a client that has room for 1 KiB.
    fn writing() -> (DuplexStream, JoinHandle<io::Result<()>>) {
        let (client, server) = duplex(1_024);
        let write = async { StallGuard::new(server).write_all(&vec![b'x'; 10 * TAKE_BYTES_MIN]).await };
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
        assert!(began.elapsed() <= TAKE_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
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
        assert!(began.elapsed() <= TAKE_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_but_gets_on_is_waited_for() {
        let (mut client, writing) = writing();
        let mut read = 0;
        while read < 10 * TAKE_BYTES_MIN {
            tokio::time::sleep(TAKE_TIMEOUT / 20).await;
            read += client.read(&mut [0; 1_024]).await.unwrap();
        }
        writing.await.unwrap().expect("all was written");
    }
}
