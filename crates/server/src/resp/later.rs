//! Answers that must be waited for: many at once, sent in their order.
//!
//! What one read has brought is begun together, so that a pipeline costs about as long as one command.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FuturesOrdered;
use tidegate::Later;

use super::protocol::reply::ReplyWriter;

/// Answers that are waited for.
#[derive(Default)]
pub(super) struct PendingReplies<'n> {
    /// Each with what is to be sent before it.
    answers: FuturesOrdered<Later<'n, Vec<u8>>>,
    /// What was waited for, and what comes before it.
    done: Vec<u8>,
    /// What is to be sent after all of them.
    rest: Vec<u8>,
}

impl<'n> PendingReplies<'n> {
    /// How many answers are waited for.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Waits for what one more is told, behind all that is written so far.
    pub(super) fn add<T: Send + 'n>(
        &mut self,
        later: Later<'n, T>,
        write: fn(T, &mut ReplyWriter<'_>),
        reply: &mut ReplyWriter<'_>,
    ) {
        let (mut out, version) = (std::mem::take(reply.out), reply.version);
        self.answers.push_back(Box::pin(async move {
            write(later.await, &mut ReplyWriter { out: &mut out, version });
            out
        }));
    }

    /// Keeps what is written until those before it are answered.
    pub(super) fn keep(&mut self, out: &mut Vec<u8>) {
        if self.len() > 0 {
            self.rest = std::mem::take(out);
        }
    }

    /// Writes what was waited for, once all of it is there.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while let Some(answer) = ready!(Pin::new(&mut self.answers).poll_next(cx)) {
            self.done.extend_from_slice(&answer);
        }
        out.append(&mut self.done);
        out.append(&mut self.rest);
        Poll::Ready(())
    }
}

impl fmt::Debug for PendingReplies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("answers", &self.len()).finish_non_exhaustive()
    }
}
