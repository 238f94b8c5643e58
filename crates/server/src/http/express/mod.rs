//! The express lane: requests of the most frequent kinds, answered without hyper.
//!
//! A program that asks for decisions asks the same way every time: a short `POST` to `/v1/check` or
//! `/v1/throttle` over a connection that it keeps. So does a proxy that asks `/v1/forward-auth`. Such a request comes
//! in one piece; it is read where it lies, decided, and answered with one write, at half the cost. A decision that has
//! to be waited for, for a store or in a queue, is waited for here, and the lane goes on after it.
//!
//! The lane is for nothing else. Whatever is not plainly such a request is left unread, and with it the
//! connection goes to hyper for good: other paths and methods, chunks, pieces, and everything that is wrong, so that
//! there is one place that says what is wrong.

mod head;
mod reply;
mod waiting;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Bytes, BytesMut};
use tidegate::NowOrLater;
use tidegate::engine::{AdHocError, Decision};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Context;
use super::connection::drive;
use super::endpoints::EndpointAction;
use super::endpoints::forward_auth;
use super::endpoints::forward_auth::ForwardAuthRequest;
use crate::bounds::{ANSWERS_AT_ONCE_BYTES, BODY_BYTES_MAX};
use crate::observe::{Origin, Protocol};
use crate::serve::UnsentBytes;
use crate::wire;
use head::RequestHead;
use reply::{LaneReply, ReplyAudience};
use waiting::{LaneDecision, WaitingDecision};

/// What a thread reads to, and writes from; its connections take turns.
struct Desk {
    input: Box<[u8]>,
    reply: LaneReply,
}

thread_local! {
    static DESK: RefCell<Desk> =
        RefCell::new(Desk { input: vec![0; BODY_BYTES_MAX].into_boxed_slice(), reply: LaneReply::default() });
}

/// What is read of a connection whose request waits, so that its end is noticed.
const KEPT_WHILE_WAITING_BYTES: usize = 8 * 1_024;

/// A connection that leaves the lane, with what was read of it and not answered.
type Left<I> = Option<(I, Bytes)>;

/// Answers what it can. `None` when the connection has ended.
pub(super) async fn serve<I>(context: &Arc<Context>, io: I, seen: Bytes) -> Left<I>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let lane = Lane {
        context,
        io: Some(io),
        seen: seen.into(),
        unsent: UnsentBytes::default(),
        waiting: None,
        rest: None,
        is_ending: false,
    };
    drive::drive(lane, |mut lane| lane.is_ending = true, Arc::clone(context), false).await.flatten()
}

struct Lane<'c, I> {
    context: &'c Arc<Context>,
    /// There until it leaves.
    io: Option<I>,
    /// What was read before.
    seen: BytesMut,
    unsent: UnsentBytes,
    /// A request whose decision has to be waited for. Those behind it are in `seen`.
    waiting: Option<WaitingDecision<'c>>,
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
            if let Some(waiting) = &mut self.waiting {
                match waiting.poll(task) {
                    Poll::Ready(decided) => self.answer_waited(task, &decided, &mut desk.reply)?,
                    Poll::Pending if self.is_gone(task, &mut desk.input)? => return Poll::Ready(Ok(None)),
                    Poll::Pending => return Poll::Pending,
                }
                continue;
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
    fn answer_all(&mut self, task: &mut Task<'_>, input: &[u8], reply: &mut LaneReply) -> io::Result<()> {
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
            if is_paused && is_sent && self.waiting.is_none() {
                continue;
            }
            if !left.is_empty() {
                if is_paused || self.waiting.is_some() {
                    self.seen.extend_from_slice(left);
                } else {
                    self.rest = Some(Bytes::copy_from_slice(left));
                }
            }
            return if is_sent && self.waiting.is_none() { Ok(()) } else { self.tell_backlog() };
        }
    }

    /// Answers the request that was waited for.
    fn answer_waited(
        &mut self,
        task: &mut Task<'_>,
        decided: &LaneDecision,
        reply: &mut LaneReply,
    ) -> io::Result<()> {
        self.waiting = None;
        reply.clear();
        if self.is_ending {
            // Those behind it are not answered any more.
            reply.close();
        }
        reply.add(decided, self.context.node.clock());
        let io = self.io.as_mut().expect(HERE);
        self.unsent.send(task, io, reply.written())?;
        self.tell_backlog()
    }

    /// What is kept while something is waited for: answers that the client has not taken, and requests behind them or
    /// behind one that is not decided.
    fn tell_backlog(&self) -> io::Result<()> {
        let waits = self.unsent.left() > 0 || self.waiting.is_some();
        let kept = self.unsent.left() + self.seen.len() + self.rest.as_ref().map_or(0, Bytes::len);
        self.context.outbox.set_backlog(if waits { kept } else { 0 }).map_err(io::Error::other)
    }

    fn read(&mut self, task: &mut Task<'_>, input: &mut [u8]) -> io::Result<Poll<usize>> {
        if !self.seen.is_empty() {
            let seen = std::mem::take(&mut self.seen);
            input[..seen.len()].copy_from_slice(&seen);
            return Ok(Poll::Ready(seen.len()));
        }
        self.read_socket(task, input)
    }

    fn read_socket(&mut self, task: &mut Task<'_>, input: &mut [u8]) -> io::Result<Poll<usize>> {
        let mut buffer = ReadBuf::new(input);
        match Pin::new(self.io.as_mut().expect(HERE)).poll_read(task, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(buffer.filled().len())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Has the client gone while its request waits? Only who reads can tell. What it sends meanwhile is kept, a little
    /// of it; a client that has sent more is not looked after until its request is decided.
    fn is_gone(&mut self, task: &mut Task<'_>, input: &mut [u8]) -> io::Result<bool> {
        while self.seen.len() < KEPT_WHILE_WAITING_BYTES {
            let room = KEPT_WHILE_WAITING_BYTES - self.seen.len();
            match self.read_socket(task, &mut input[..room])? {
                Poll::Ready(0) => return Ok(true),
                Poll::Ready(read) => {
                    self.seen.extend_from_slice(&input[..read]);
                    self.tell_backlog()?;
                }
                Poll::Pending => break,
            }
        }
        Ok(false)
    }

    /// Answers the requests at the beginning of the input that are for this lane, and no more than can be sent at
    /// once; how many bytes they had. It ends with one that has to be waited for.
    fn answer(&mut self, input: &[u8], reply: &mut LaneReply) -> usize {
        let mut answered = 0;
        while self.waiting.is_none()
            && reply.written().len() < ANSWERS_AT_ONCE_BYTES
            && let Some(head) = RequestHead::read(&input[answered..], self.context)
        {
            let begins = answered + head.length;
            let Some(body) = input.get(begins..begins + head.body_length) else { break };
            let under_way = self.context.activity.begin();
            match decide(self.context, &head, body) {
                // What is wrong is told by hyper.
                None | Some((NowOrLater::Now(Err(_)), _)) => break,
                Some((NowOrLater::Now(decision), kind)) => {
                    reply.add(&LaneDecision { decision, kind }, self.context.node.clock());
                }
                Some((NowOrLater::Later(later), kind)) => {
                    self.waiting = Some(WaitingDecision::new(later, kind, under_way));
                }
            }
            answered = begins + head.body_length;
        }
        answered
    }
}

/// The decision about a request and how it is told; `None` if something is wrong.
fn decide<'c>(
    context: &'c Context,
    head: &RequestHead<'_>,
    body: &[u8],
) -> Option<(NowOrLater<'c, Result<Decision, AdHocError>>, ReplyAudience)> {
    let (node, origin) = (&context.node, Origin { protocol: Protocol::Http, traceparent: head.traceparent });
    match head.action {
        EndpointAction::ForwardAuth => {
            let asked = ForwardAuthRequest { query: head.query, authority: None, headers: &head.headers };
            let (decision, deny_status) = forward_auth::decide(context, &asked, origin).ok()?;
            Some((decision.map(Ok), ReplyAudience::ForClients { deny_status }))
        }
        EndpointAction::Throttle => {
            let asked = wire::throttle(std::str::from_utf8(body).ok()?).ok()?;
            Some((node.check_ad_hoc(origin, &asked.as_request()), ReplyAudience::ForPrograms))
        }
        _ => {
            let request = wire::request(std::str::from_utf8(body).ok()?).ok()?;
            Some((node.admit(origin, &request).map(Ok), ReplyAudience::ForPrograms))
        }
    }
}

const HERE: &str = "the connection is here until it leaves the lane";

#[cfg(test)]
mod tests;
