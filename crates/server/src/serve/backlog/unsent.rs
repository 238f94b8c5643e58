//! Bytes of responses that the socket has not accepted yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Unsent bytes of responses. Empty while the client reads fast enough.
#[derive(Debug, Default)]
pub(crate) struct UnsentBytes {
    bytes: Vec<u8>,
    sent: usize,
}

impl UnsentBytes {
    /// How many bytes are unsent.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends responses, and keeps what the socket does not accept. To be called only when nothing is unsent.
    pub(crate) fn send(
        &mut self,
        task: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
        responses: &[u8],
    ) -> io::Result<()> {
        let mut sent = 0;
        while sent < responses.len() {
            match write(task, io, &responses[sent..]) {
                Poll::Ready(bytes) => sent += bytes?,
                Poll::Pending => {
                    self.bytes.extend_from_slice(&responses[sent..]);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends the unsent bytes until none is left.
    pub(crate) fn send_rest(
        &mut self,
        task: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.left() > 0 {
            match write(task, io, &self.bytes[self.sent..]) {
                Poll::Ready(bytes) => self.sent += bytes?,
                Poll::Pending => return Poll::Pending,
            }
        }
        *self = UnsentBytes::default();
        Poll::Ready(Ok(()))
    }
}

/// Writes to the socket. A write of 0 bytes means that the connection has ended.
fn write(
    task: &mut Context<'_>,
    io: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    match Pin::new(io).poll_write(task, bytes) {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        other => other,
    }
}
