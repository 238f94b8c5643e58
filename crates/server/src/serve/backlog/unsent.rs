//! Answers that a client has not taken yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// What is left of answers; nothing while the client takes them as they come.
#[derive(Debug, Default)]
pub(crate) struct UnsentBytes {
    bytes: Vec<u8>,
    sent: usize,
}

impl UnsentBytes {
    /// How much is left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends answers, and keeps what the client does not take. Only while nothing is left.
    pub(crate) fn send(
        &mut self,
        task: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
        answers: &[u8],
    ) -> io::Result<()> {
        let mut sent = 0;
        while sent < answers.len() {
            match write(task, io, &answers[sent..]) {
                Poll::Ready(bytes) => sent += bytes?,
                Poll::Pending => {
                    self.bytes.extend_from_slice(&answers[sent..]);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Goes on with what is left, until nothing is.
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

/// A connection that takes nothing more has ended.
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
