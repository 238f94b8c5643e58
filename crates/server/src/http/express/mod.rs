//! The express lane: answers the most frequent kinds of HTTP/1.1 request without hyper.
//!
//! A program that needs decisions sends the same kind of request every time: a short `POST` to `/v1/check` or
//! `/v1/throttle` over a connection that it keeps open. So does a proxy that calls `/v1/forward-auth`. Such a request
//! arrives in one piece: it is parsed in the read buffer, decided, and answered with one write, at half the cost of
//! hyper. If a decision must wait for the store or in a wait queue, the lane waits for it and then goes on.
//!
//! Everything else goes to hyper: at the first request of another kind, the connection leaves the lane for good,
//! with its unread bytes. That includes other paths and methods, chunked bodies, incomplete requests, and every
//! invalid request, so that only hyper's path reports errors.

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
use crate::bounds::{BODY_BYTES_MAX, RESPONSES_AT_ONCE_BYTES};
use crate::http::response::problem::HttpProblem;
use crate::observe::{Origin, Protocol};
use crate::serve::UnsentBytes;
use crate::wire;
use head::RequestHead;
use reply::{LaneReply, ReplyAudience};
use waiting::{LaneDecision, WaitingDecision};

/// The read and write buffers of a thread. Its connections use them in turn, within one poll each.
struct LaneBuffers {
    input: Box<[u8]>,
    reply: LaneReply,
}

thread_local! {
    static BUFFERS: RefCell<LaneBuffers> = RefCell::new(LaneBuffers {
        input: vec![0; BODY_BYTES_MAX].into_boxed_slice(),
        reply: LaneReply::default(),
    });
}

/// How many bytes are read ahead while a request waits for its decision. Reading is how a disconnect is noticed.
const READ_AHEAD_BYTES_MAX: usize = 8 * 1_024;

/// A connection that leaves the lane for hyper, with the bytes read and not answered.
type Handover<I> = Option<(I, Bytes)>;

/// Answers requests until one is not for the lane. `None` when the connection has ended.
pub(super) async fn serve<I>(context: &Arc<Context>, io: I, seen: Bytes) -> Handover<I>
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
    /// Present until the connection leaves the lane.
    io: Option<I>,
    /// Bytes read and not yet looked at.
    seen: BytesMut,
    unsent: UnsentBytes,
    /// A request that waits for its decision. The requests behind it are in `seen`.
    waiting: Option<WaitingDecision<'c>>,
    /// Bytes that are not for this lane: once the responses are sent, the connection leaves with them.
    rest: Option<Bytes>,
    is_ending: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Future for Lane<'_, I> {
    type Output = Handover<I>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Handover<I>> {
        let lane = &mut *self;
        BUFFERS.with_borrow_mut(|buffers| lane.work(task, buffers).map(|left| left.unwrap_or(None)))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Lane<'_, I> {
    fn work(&mut self, task: &mut Task<'_>, buffers: &mut LaneBuffers) -> Poll<io::Result<Handover<I>>> {
        loop {
            if self.unsent.left() > 0 {
                let io = self.io.as_mut().expect(IO_PRESENT);
                let sent = self.unsent.send_rest(task, io)?;
                self.report_unsent()?;
                if sent.is_pending() {
                    return Poll::Pending;
                }
            }
            if let Some(waiting) = &mut self.waiting {
                match waiting.poll(task) {
                    Poll::Ready(decided) => self.send_waited(task, &decided, &mut buffers.reply)?,
                    Poll::Pending if self.client_disconnected(task, &mut buffers.input)? => {
                        return Poll::Ready(Ok(None));
                    }
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
            let Poll::Ready(read) = self.read(task, &mut buffers.input)? else { return Poll::Pending };
            if read == 0 {
                return Poll::Ready(Ok(None));
            }
            self.answer_all(task, &buffers.input[..read], &mut buffers.reply)?;
        }
    }

    /// Answers the requests in the input, until one is not for the lane, must wait, or the client stops reading.
    fn answer_all(&mut self, task: &mut Task<'_>, input: &[u8], reply: &mut LaneReply) -> io::Result<()> {
        let mut left = input;
        loop {
            // A connection that failed to send may have left its responses in the thread's buffer.
            reply.clear();
            let answered = self.answer(left, reply);
            left = &left[answered..];
            let is_paused = reply.written().len() >= RESPONSES_AT_ONCE_BYTES;
            let io = self.io.as_mut().expect(IO_PRESENT);
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
            return if is_sent && self.waiting.is_none() { Ok(()) } else { self.report_unsent() };
        }
    }

    /// Sends the response to the request that waited for its decision.
    fn send_waited(
        &mut self,
        task: &mut Task<'_>,
        decided: &LaneDecision,
        reply: &mut LaneReply,
    ) -> io::Result<()> {
        self.waiting = None;
        reply.clear();
        if self.is_ending {
            // The server is shutting down: requests behind this one get no response.
            reply.close();
        }
        reply.add(decided, self.context.node.clock());
        let io = self.io.as_mut().expect(IO_PRESENT);
        self.unsent.send(task, io, reply.written())?;
        self.report_unsent()
    }

    /// Reports to the backlog what the connection keeps while it waits for the client or for a decision: unsent
    /// responses, and the requests behind them or behind the undecided one.
    fn report_unsent(&self) -> io::Result<()> {
        let waits = self.unsent.left() > 0 || self.waiting.is_some();
        let kept = self.unsent.left() + self.seen.len() + self.rest.as_ref().map_or(0, Bytes::len);
        self.context.backlog.set_unsent(if waits { kept } else { 0 }).map_err(io::Error::other)
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
        match Pin::new(self.io.as_mut().expect(IO_PRESENT)).poll_read(task, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(buffer.filled().len())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Has the client disconnected while its request waits for a decision? Only a read can tell. What the client sends
    /// meanwhile is kept, up to [`READ_AHEAD_BYTES_MAX`]; beyond that, a disconnect is noticed only after the decision.
    fn client_disconnected(&mut self, task: &mut Task<'_>, input: &mut [u8]) -> io::Result<bool> {
        while self.seen.len() < READ_AHEAD_BYTES_MAX {
            let free = READ_AHEAD_BYTES_MAX - self.seen.len();
            match self.read_socket(task, &mut input[..free])? {
                Poll::Ready(0) => return Ok(true),
                Poll::Ready(read) => {
                    self.seen.extend_from_slice(&input[..read]);
                    self.report_unsent()?;
                }
                Poll::Pending => break,
            }
        }
        Ok(false)
    }

    /// Answers the requests at the start of the input that are for this lane, up to [`RESPONSES_AT_ONCE_BYTES`] of
    /// responses, and stops at one that must wait. Returns how many bytes of input those requests had.
    fn answer(&mut self, input: &[u8], reply: &mut LaneReply) -> usize {
        let mut answered = 0;
        while self.waiting.is_none()
            && reply.written().len() < RESPONSES_AT_ONCE_BYTES
            && let Some(head) = RequestHead::read(&input[answered..], self.context)
        {
            let begins = answered + head.length;
            let Some(body) = input.get(begins..begins + head.body_length) else { break };
            let in_flight = self.context.activity.begin();
            match decide(self.context, &head, body) {
                // Only hyper's path reports errors.
                Err(Undecided::Invalid) | Ok((NowOrLater::Now(Err(_)), _)) => break,
                Ok((NowOrLater::Now(decision), audience)) => {
                    reply.add(&LaneDecision { decision, audience }, self.context.node.clock());
                }
                Ok((NowOrLater::Later(later), audience)) => {
                    self.waiting = Some(WaitingDecision::new(later, audience, in_flight));
                }
                Err(Undecided::Unidentified(problem)) => {
                    reply.add_response(&problem.response(), self.context.node.clock());
                }
            }
            answered = begins + head.body_length;
        }
        answered
    }
}

/// Why a request has no decision.
enum Undecided {
    /// It is invalid, and hyper's path says so.
    Invalid,
    /// Its identity cannot be used. The lane itself says so: burst detectors have already counted the request, and hyper's
    /// path would let them count it again.
    Unidentified(Box<HttpProblem>),
}

/// Decides a request, and says for whom the response is.
fn decide<'c>(
    context: &'c Context,
    head: &RequestHead<'_>,
    body: &[u8],
) -> Result<(NowOrLater<'c, Result<Decision, AdHocError>>, ReplyAudience), Undecided> {
    let (node, origin) = (&context.node, Origin { protocol: Protocol::Http, traceparent: head.traceparent });
    let text = || std::str::from_utf8(body).map_err(|_| Undecided::Invalid);
    match head.action {
        EndpointAction::ForwardAuth => {
            let request = ForwardAuthRequest { query: head.query, authority: None, headers: &head.headers };
            let decided = forward_auth::decide(context, &request, origin);
            let (decision, deny_status) = decided.map_err(|problem| match problem {
                HttpProblem::Identity { .. } => Undecided::Unidentified(Box::new(problem)),
                _ => Undecided::Invalid,
            })?;
            Ok((decision.map(Ok), ReplyAudience::ForClients { deny_status }))
        }
        EndpointAction::Throttle => {
            let request = wire::throttle(text()?).map_err(|_| Undecided::Invalid)?;
            Ok((node.check_ad_hoc(origin, &request.as_request()), ReplyAudience::ForPrograms))
        }
        _ => {
            let request = wire::request(text()?).map_err(|_| Undecided::Invalid)?;
            Ok((node.admit(origin, &request).map(Ok), ReplyAudience::ForPrograms))
        }
    }
}

const IO_PRESENT: &str = "`io` is present until the connection leaves the lane";

#[cfg(test)]
mod tests;
