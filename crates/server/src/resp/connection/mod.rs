//! A RESP connection: reads commands, has them answered, writes the replies.
//!
//! Each thread has one read buffer and one write buffer, which its connections use in turn, within one poll each. A
//! connection holds bytes of its own only while a command is incomplete or its client does not read. An idle
//! connection holds none.

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
    IDLE_TIMEOUT, RESP_AUTH_TIMEOUT, RESP_BUFFER_MAX, RESP_LINGER, RESP_PIPELINE_MAX, RESP_REPLIES_BYTES_MAX,
};
use crate::node::Node;
use crate::serve::{Peer, ResponseBacklog, UnsentBytes};

/// Serves one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, mut io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let backlog = ResponseBacklog::new(
        &node.backlog_budget().account(peer.address, node.is_loopback_or_proxy(peer.address)),
    );
    let mut connection = Connection::new(&node, backlog);
    let mut draining = pin!(node.lifecycle().closing());
    let ended = poll_fn(|cx| connection.poll(cx, &mut io, draining.as_mut())).await;
    if matches!(ended, Ended::ByUs) {
        // Closing a socket with unread input resets it, and the client could lose the last reply.
        let _shut = io.shutdown().await;
        let _passed = timeout(RESP_LINGER, discard_input(&mut io)).await;
    }
}

/// Reads and discards until the client closes.
async fn discard_input(io: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut bytes = [0; 1_024];
    while io.read(&mut bytes).await? > 0 {}
    Ok(())
}

/// How a connection ended.
enum Ended {
    /// The client closed it, it failed, or it timed out.
    ByClient,
    /// The server closes it, after the last reply.
    ByUs,
}

/// The buffers of a thread.
struct ThreadBuffers {
    input: Box<[u8]>,
    output: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<ThreadBuffers> = RefCell::new(ThreadBuffers {
        input: vec![0; RESP_BUFFER_MAX].into_boxed_slice(),
        output: Vec::with_capacity(RESP_REPLIES_BYTES_MAX),
    });
}

struct Connection<'n> {
    exchange: Exchange<'n>,
    /// Input that is read and not answered.
    held: Vec<u8>,
    /// May `held` have complete commands?
    paused: bool,
    unsent: UnsentBytes,
    backlog: Arc<ResponseBacklog>,
    /// The bytes of the transaction that the backlog counts.
    kept: usize,
    /// Runs while bytes are held and neither a command is answered nor a reply sent.
    stall_timer: Option<Pin<Box<Sleep>>>,
    /// Runs until the client has authenticated, if a password is set.
    auth_timer: Option<Pin<Box<Sleep>>>,
}

impl<'n> Connection<'n> {
    fn new(node: &'n Node, backlog: Arc<ResponseBacklog>) -> Connection<'n> {
        Connection {
            exchange: Exchange::new(node),
            held: Vec::new(),
            paused: false,
            unsent: UnsentBytes::default(),
            backlog,
            kept: 0,
            stall_timer: None,
            auth_timer: None,
        }
    }

    fn poll<I>(&mut self, cx: &mut Context<'_>, io: &mut I, draining: Pin<&mut impl Future>) -> Poll<Ended>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        BUFFERS.with_borrow_mut(|buffers| {
            self.work(cx, io, draining, buffers).map(|ended| ended.unwrap_or(Ended::ByClient))
        })
    }

    fn work<I>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut I,
        mut draining: Pin<&mut impl Future>,
        buffers: &mut ThreadBuffers,
    ) -> Poll<io::Result<Ended>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let mut left = RESP_PIPELINE_MAX;
        loop {
            if self.unsent.left() > 0 {
                let Poll::Ready(()) = self.send_rest(cx, io)? else { return self.wait_for_progress(cx) };
            }
            if self.exchange.is_waiting() {
                buffers.output.clear();
                ready!(self.exchange.poll_waiting(cx, &mut buffers.output));
                self.send(cx, io, &mut buffers.output)?;
                continue;
            }
            if self.exchange.is_over() {
                return Poll::Ready(Ok(Ended::ByUs));
            }
            if left == 0 {
                // A client that never pauses must not delay the shutdown.
                if !self.paused && draining.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(Ended::ByUs));
                }
                // Let the other connections of this thread run.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut read = 0;
            if !self.paused {
                match self.read(cx, io, buffers)? {
                    Poll::Ready(0) => return Poll::Ready(Ok(Ended::ByClient)),
                    Poll::Ready(bytes) => read = bytes,
                    Poll::Pending if draining.as_mut().poll(cx).is_ready() => {
                        return Poll::Ready(Ok(Ended::ByUs));
                    }
                    Poll::Pending if !self.exchange.has_access() => return self.wait_for_password(cx),
                    Poll::Pending if self.is_idle() => return Poll::Pending,
                    Poll::Pending => return self.wait_for_progress(cx),
                }
            }
            left -= self.answer(read, buffers, left);
            self.send(cx, io, &mut buffers.output)?;
        }
    }

    /// Is nothing of the client kept that it has to complete: neither part of a command nor a transaction?
    fn is_idle(&self) -> bool {
        self.held.is_empty() && !self.exchange.is_in_transaction()
    }

    /// Reads into the thread's buffer, no more than may be held.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncRead + Unpin),
        buffers: &mut ThreadBuffers,
    ) -> io::Result<Poll<usize>> {
        let mut buffer = ReadBuf::new(&mut buffers.input[..RESP_BUFFER_MAX - self.held.len()]);
        match Pin::new(io).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(buffer.filled().len())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Answers the held input and what was just read. Returns the number of commands.
    fn answer(&mut self, read: usize, buffers: &mut ThreadBuffers, most: usize) -> usize {
        let ThreadBuffers { input, output } = buffers;
        // A connection that failed may have left its replies in the thread's buffer.
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
            self.stall_timer = None;
        }
        progress.commands
    }

    /// Sends the replies in the thread's buffer, and keeps what the socket does not accept.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.unsent.send(cx, io, output)?;
        output.clear();
        output.shrink_to(RESP_REPLIES_BYTES_MAX);
        if self.unsent.left() == 0 && self.exchange.kept_bytes() == self.kept {
            Ok(())
        } else {
            self.report_kept()
        }
    }

    /// Reports to the backlog what is kept for the client: while it does not read, unsent replies and the commands
    /// behind them; and the commands of a transaction. If that exceeds the budget, the connection ends.
    fn report_kept(&mut self) -> io::Result<()> {
        let left = self.unsent.left();
        self.kept = self.exchange.kept_bytes();
        let waits = if left == 0 { 0 } else { left + self.held.len() };
        self.backlog.set_unsent(waits + self.kept).map_err(io::Error::other)
    }

    /// Sends the unsent replies. Each progress restarts the stall timer.
    fn send_rest(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let before = self.unsent.left();
        let sent = self.unsent.send_rest(cx, io);
        if self.unsent.left() < before {
            self.stall_timer = None;
            self.report_kept()?;
        }
        sent
    }

    /// Waits for the client to read or to complete its command, within [`IDLE_TIMEOUT`].
    fn wait_for_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ended>> {
        let stall_timer = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(IDLE_TIMEOUT)));
        ready!(stall_timer.as_mut().poll(cx));
        Poll::Ready(Ok(Ended::ByClient))
    }

    /// Waits for the client to authenticate. Clients that never do would occupy connections for ever.
    fn wait_for_password(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ended>> {
        let auth_timer = self.auth_timer.get_or_insert_with(|| Box::pin(sleep(RESP_AUTH_TIMEOUT)));
        ready!(auth_timer.as_mut().poll(cx));
        Poll::Ready(Ok(Ended::ByClient))
    }
}

#[cfg(test)]
mod tests;
