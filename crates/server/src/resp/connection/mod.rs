//! A connection: reads, has the commands answered, writes.
//!
//! A thread has one desk with a buffer for what is read and one for what is written, and its connections
//! take turns at it. A connection holds bytes of its own only while a command is incomplete or a client
//! does not take its answers; one that is idle holds nothing.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use super::exchange::Exchange;
use crate::bounds::{
    IDLE_TIMEOUT, RESP_ANSWER_BYTES_MAX, RESP_AUTH_TIMEOUT, RESP_BUFFER_MAX, RESP_LINGER, RESP_PIPELINE_MAX,
};
use crate::node::Node;
use crate::serve::{Outbox, Peer, UnsentBytes};

/// Answers one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, mut io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let outbox = Outbox::new(&node.answers().account(peer.address, node.stands_for_many(peer.address)));
    let mut connection = Connection::new(&node, outbox);
    let mut draining = pin!(node.lifecycle().closing());
    let ended = poll_fn(|cx| connection.poll(cx, &mut io, draining.as_mut())).await;
    if matches!(ended, Ended::ByUs) {
        // Closing with something unread would take the last answer from the client.
        let _shut = io.shutdown().await;
        let _passed = timeout(RESP_LINGER, pass_over(&mut io)).await;
    }
}

/// Reads until the client has closed.
async fn pass_over(io: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut bytes = [0; 1_024];
    while io.read(&mut bytes).await? > 0 {}
    Ok(())
}

/// How a connection came to its end.
enum Ended {
    /// The client has closed it, or it is gone.
    ByClient,
    /// There is nothing more to say.
    ByUs,
}

/// The buffers of a thread.
struct Desk {
    input: Box<[u8]>,
    output: Vec<u8>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk {
        input: vec![0; RESP_BUFFER_MAX].into_boxed_slice(),
        output: Vec::with_capacity(RESP_ANSWER_BYTES_MAX),
    });
}

struct Connection<'n> {
    exchange: Exchange<'n>,
    /// What was read and is not answered.
    held: Vec<u8>,
    /// Are there whole commands in it?
    paused: bool,
    unsent: UnsentBytes,
    /// What of it counts for all connections together.
    outbox: Arc<Outbox>,
    /// Runs while something is held and nothing moves.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs until the password has come, where there is one.
    unknown: Option<Pin<Box<Sleep>>>,
}

impl<'n> Connection<'n> {
    fn new(node: &'n Node, outbox: Arc<Outbox>) -> Connection<'n> {
        Connection {
            exchange: Exchange::new(node),
            held: Vec::new(),
            paused: false,
            unsent: UnsentBytes::default(),
            outbox,
            stalled: None,
            unknown: None,
        }
    }

    fn poll<I>(&mut self, cx: &mut Context<'_>, io: &mut I, draining: Pin<&mut impl Future>) -> Poll<Ended>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        DESK.with_borrow_mut(|desk| {
            self.work(cx, io, draining, desk).map(|ended| ended.unwrap_or(Ended::ByClient))
        })
    }

    fn work<I>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut I,
        mut draining: Pin<&mut impl Future>,
        desk: &mut Desk,
    ) -> Poll<io::Result<Ended>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let mut left = RESP_PIPELINE_MAX;
        loop {
            if self.unsent.left() > 0 {
                let Poll::Ready(()) = self.send_rest(cx, io)? else { return self.wait_holding(cx) };
            }
            if self.exchange.is_waiting() {
                desk.output.clear();
                ready!(self.exchange.poll_waiting(cx, &mut desk.output));
                self.send(cx, io, &mut desk.output)?;
                continue;
            }
            if self.exchange.is_over() {
                return Poll::Ready(Ok(Ended::ByUs));
            }
            if left == 0 {
                // A client that never pauses must not hold up the end.
                if !self.paused && draining.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(Ended::ByUs));
                }
                // Others on this thread have their turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut read = 0;
            if !self.paused {
                match self.read(cx, io, desk)? {
                    Poll::Ready(0) => return Poll::Ready(Ok(Ended::ByClient)),
                    Poll::Ready(bytes) => read = bytes,
                    Poll::Pending if draining.as_mut().poll(cx).is_ready() => {
                        return Poll::Ready(Ok(Ended::ByUs));
                    }
                    Poll::Pending if !self.exchange.has_access() => return self.wait_for_password(cx),
                    Poll::Pending if self.held.is_empty() => return Poll::Pending,
                    Poll::Pending => return self.wait_holding(cx),
                }
            }
            left -= self.answer(read, desk, left);
            self.send(cx, io, &mut desk.output)?;
        }
    }

    /// Reads to the desk; never more than may be held.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncRead + Unpin),
        desk: &mut Desk,
    ) -> io::Result<Poll<usize>> {
        let mut buffer = ReadBuf::new(&mut desk.input[..RESP_BUFFER_MAX - self.held.len()]);
        match Pin::new(io).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(buffer.filled().len())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Answers what was read, after what was held; how many commands that were.
    fn answer(&mut self, read: usize, desk: &mut Desk, most: usize) -> usize {
        let Desk { input, output } = desk;
        // Whoever was at the desk before may have left something: its connection failed.
        output.clear();
        let whole = if self.held.is_empty() {
            &input[..read]
        } else {
            self.held.extend_from_slice(&input[..read]);
            &self.held[..]
        };
        let progress = self.exchange.answer(whole, most, output);
        if self.held.is_empty() {
            self.held.extend_from_slice(&input[progress.used..read]);
        } else if progress.used == self.held.len() {
            self.held = Vec::new();
        } else {
            self.held.drain(..progress.used);
        }
        self.paused = progress.paused;
        if progress.commands > 0 {
            self.stalled = None;
        }
        progress.commands
    }

    /// Sends what is on the desk.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.unsent.send(cx, io, output)?;
        output.clear();
        output.shrink_to(RESP_ANSWER_BYTES_MAX);
        if self.unsent.left() == 0 { Ok(()) } else { self.tell_backlog() }
    }

    /// What waits for the client: answers, and commands behind them. Where there is no room for it the connection
    /// ends.
    fn tell_backlog(&self) -> io::Result<()> {
        let left = self.unsent.left();
        let waits = if left == 0 { 0 } else { left + self.held.len() };
        self.outbox.set_backlog(waits).map_err(io::Error::other)
    }

    /// Goes on with what the client has not taken yet. Whoever takes some of it has time again.
    fn send_rest(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let before = self.unsent.left();
        let sent = self.unsent.send_rest(cx, io);
        if self.unsent.left() < before {
            self.stalled = None;
            self.tell_backlog()?;
        }
        sent
    }

    /// Waits for the client, which must get on, since something is held for it.
    fn wait_holding(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ended>> {
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(IDLE_TIMEOUT)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Ok(Ended::ByClient))
    }

    /// Waits for the client to say who it is. Connections of those that never do would take the room of
    /// others for ever.
    fn wait_for_password(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ended>> {
        let unknown = self.unknown.get_or_insert_with(|| Box::pin(sleep(RESP_AUTH_TIMEOUT)));
        ready!(unknown.as_mut().poll(cx));
        Poll::Ready(Ok(Ended::ByClient))
    }
}

#[cfg(test)]
mod tests;
