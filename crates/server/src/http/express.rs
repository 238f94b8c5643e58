//! The express lane: requests of the most frequent kind, answered without hyper.
//!
//! A program that asks for decisions asks the same way every time: a short `POST` to `/v1/check` or
//! `/v1/throttle` over a connection that it keeps. Such a request comes in one piece; it is read where it
//! lies, decided, and answered with one write, at half the cost.
//!
//! The lane is for nothing else. Whatever is not plainly such a request is left unread, and with it the
//! connection goes to hyper for good: other paths and methods, chunks, pieces, anything that must be
//! waited for, and everything that is wrong, so that there is one place that says what is wrong.

mod head;
mod reply;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Bytes, BytesMut};
use tidegate::policy::Decision;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::endpoints::Action;
use super::{Context, decide, drive};
use crate::at_once::at_once;
use crate::bounds::{ANSWERS_AT_ONCE_BYTES, BODY_BYTES_MAX};
use crate::observe::{Origin, Protocol};
use crate::serve::Unsent;
use crate::wire;
use head::Head;
use reply::Reply;

/// What a thread reads to, and writes from; its connections take turns.
struct Desk {
    input: Box<[u8]>,
    reply: Reply,
}

thread_local! {
    static DESK: RefCell<Desk> =
        RefCell::new(Desk { input: vec![0; BODY_BYTES_MAX].into_boxed_slice(), reply: Reply::default() });
}

/// A connection that leaves the lane, with what was read of it and not answered.
type Left<I> = Option<(I, Bytes)>;

/// Answers what it can. `None` when the connection has ended.
pub(super) async fn serve<I>(context: &Arc<Context>, io: I, seen: Bytes) -> Left<I>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let lane = Lane { context, io: Some(io), seen, unsent: Unsent::default(), rest: None, is_ending: false };
    drive::drive(lane, |mut lane| lane.is_ending = true, Arc::clone(context), false).await.flatten()
}

struct Lane<'c, I> {
    context: &'c Arc<Context>,
    /// There until it leaves.
    io: Option<I>,
    /// What was read before.
    seen: Bytes,
    unsent: Unsent,
    /// What is not for this lane.
    rest: Option<Bytes>,
    is_ending: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Future for Lane<'_, I> {
    type Output = Left<I>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Left<I>> {
        let lane = &mut *self;
        DESK.with_borrow_mut(|desk| lane.work(task, desk).map(|left| left.unwrap_or(None)))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Lane<'_, I> {
    fn work(&mut self, task: &mut Task<'_>, desk: &mut Desk) -> Poll<io::Result<Left<I>>> {
        loop {
            if self.unsent.left() > 0 {
                let io = self.io.as_mut().expect(HERE);
                let sent = self.unsent.send_rest(task, io)?;
                self.tell_backlog()?;
                if sent.is_pending() {
                    return Poll::Pending;
                }
            }
            if let Some(rest) = self.rest.take() {
                return Poll::Ready(Ok(self.io.take().map(|io| (io, rest))));
            }
            if self.is_ending {
                return Poll::Ready(Ok(None));
            }
            let Poll::Ready(read) = self.read(task, &mut desk.input)? else { return Poll::Pending };
            if read == 0 {
                return Poll::Ready(Ok(None));
            }
            self.answer_all(task, &desk.input[..read], &mut desk.reply)?;
        }
    }

    /// Answers what was read as far as it is for this lane, and as far as the client takes it.
    fn answer_all(&mut self, task: &mut Task<'_>, input: &[u8], reply: &mut Reply) -> io::Result<()> {
        let mut left = input;
        loop {
            // Whoever was here before may have failed to send what it had.
            reply.clear();
            let answered = self.answer(left, reply);
            left = &left[answered..];
            let is_paused = reply.written().len() >= ANSWERS_AT_ONCE_BYTES;
            let io = self.io.as_mut().expect(HERE);
            self.unsent.send(task, io, reply.written())?;
            let is_sent = self.unsent.left() == 0;
            if is_paused && is_sent {
                continue;
            }
            if !left.is_empty() {
                let kept = BytesMut::from(left).freeze();
                if is_paused { self.seen = kept } else { self.rest = Some(kept) }
            }
            return if is_sent { Ok(()) } else { self.tell_backlog() };
        }
    }

    /// What waits for the client: answers, and requests behind them.
    fn tell_backlog(&self) -> io::Result<()> {
        let waits = self.unsent.left() + self.seen.len() + self.rest.as_ref().map_or(0, Bytes::len);
        let waits = if self.unsent.left() == 0 { 0 } else { waits };
        self.context.outbox.set_backlog(waits).map_err(io::Error::other)
    }

    fn read(&mut self, task: &mut Task<'_>, input: &mut [u8]) -> io::Result<Poll<usize>> {
        if !self.seen.is_empty() {
            let seen = std::mem::take(&mut self.seen);
            input[..seen.len()].copy_from_slice(&seen);
            return Ok(Poll::Ready(seen.len()));
        }
        let mut buffer = ReadBuf::new(input);
        match Pin::new(self.io.as_mut().expect(HERE)).poll_read(task, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(buffer.filled().len())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Answers the requests at the beginning of the input that are for this lane, and no more than can be sent at
    /// once; how many bytes they had.
    fn answer(&self, input: &[u8], reply: &mut Reply) -> usize {
        let mut answered = 0;
        while reply.written().len() < ANSWERS_AT_ONCE_BYTES
            && let Some(head) = Head::read(&input[answered..], self.context)
        {
            let begins = answered + head.length;
            let Some(body) = input.get(begins..begins + head.body_length) else { break };
            let _under_way = self.context.activity.begin();
            let Some(decision) = self.decide(head.action, body) else { break };
            let status = decide::status(&decision);
            reply.add(&decision, status, self.context.node.limiter.clock());
            answered = begins + head.body_length;
        }
        answered
    }

    /// `None` if it must be waited for, or if something is wrong.
    fn decide(&self, action: Action, body: &[u8]) -> Option<Decision> {
        let (node, origin) = (&self.context.node, Origin { protocol: Protocol::Http, traceparent: None });
        let text = std::str::from_utf8(body).ok()?;
        match action {
            Action::Throttle => {
                let asked = wire::throttle(text).ok()?;
                at_once(node.throttle(origin, asked.key.as_bytes(), asked.limit, asked.cost)).ok()
            }
            _ => Some(at_once(node.check(origin, &wire::request(text).ok()?))),
        }
    }
}

const HERE: &str = "the connection is here until it leaves the lane";

#[cfg(test)]
mod tests;
