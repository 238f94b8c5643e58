//! Replies that wait for the store. They wait at the same time and are sent in the order of their commands.
//!
//! All commands of one read are started together, so a pipeline takes about as long as one command.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FuturesOrdered;
use tidegate::Later;

use super::protocol::reply::ReplyWriter;

/// The replies that wait for the store.
#[derive(Default)]
pub(super) struct PendingReplies<'n> {
    /// The pending replies, each preceded by the bytes to send before it.
    answers: FuturesOrdered<Later<'n, Vec<u8>>>,
    /// Bytes of the replies at the front that are complete.
    done: Vec<u8>,
    /// Bytes to send after all of them.
    rest: Vec<u8>,
}

impl<'n> PendingReplies<'n> {
    /// How many replies are pending.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Adds a reply, behind everything that is written so far.
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

    /// Keeps the replies in `out` back, if replies before them are pending.
    pub(super) fn keep(&mut self, out: &mut Vec<u8>) {
        if self.len() > 0 {
            self.rest = std::mem::take(out);
        }
    }

    /// Writes all replies, once the last one is complete.
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
        f.debug_struct("PendingReplies").field("answers", &self.len()).finish_non_exhaustive()
    }
}
