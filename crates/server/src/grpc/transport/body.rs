//! Reads the messages that a client sends in a stream.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::error::CallError;
use super::frame::{self, FRAME_MAX};
use crate::bounds::GRPC_BODY_FREE_BYTES;
use crate::bounds::budget::{BudgetAccount, BudgetShare};
use crate::grpc::http2::call_stream::{RequestStream, StreamGone};

/// The body of a call.
#[derive(Debug)]
pub(crate) struct Body {
    stream: RequestStream,
    received: Received,
    /// The part of the budget for bodies that this client's address may use.
    bodies: Arc<BudgetAccount>,
    /// What this body takes of it: nothing while it is small.
    share: Option<BudgetShare>,
}

/// The bytes received and not yet used. Nearly every message arrives in one piece, which is then not copied.
#[derive(Debug)]
enum Received {
    Nothing,
    Piece(Bytes),
    Pieces(BytesMut),
}

impl Received {
    fn len(&self) -> usize {
        match self {
            Received::Nothing => 0,
            Received::Piece(piece) => piece.len(),
            Received::Pieces(pieces) => pieces.len(),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Received::Nothing | Received::Piece(_) => self.len(),
            Received::Pieces(pieces) => pieces.capacity(),
        }
    }
}

impl Body {
    pub(crate) fn new(stream: RequestStream, bodies: &Arc<BudgetAccount>) -> Body {
        Body { stream, received: Received::Nothing, bodies: Arc::clone(bodies), share: None }
    }

    /// The message of a call that must have exactly one. It counts against the budget until the body is dropped.
    pub(crate) fn poll_single(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, CallError>> {
        while ready!(self.poll_more(cx))? {
            if self.received.len() > FRAME_MAX {
                return Poll::Ready(Err(CallError::TooLarge));
            }
        }
        self.count(self.received.len())?;
        Poll::Ready(frame::single(match std::mem::replace(&mut self.received, Received::Nothing) {
            Received::Nothing => Bytes::new(),
            Received::Piece(piece) => piece,
            Received::Pieces(pieces) => pieces.freeze(),
        }))
    }

    /// Waits for the message of a call that must have exactly one.
    pub(crate) async fn single(&mut self) -> Result<Bytes, CallError> {
        std::future::poll_fn(|cx| self.poll_single(cx)).await
    }

    /// Waits until a message begins, or the stream ends.
    pub(crate) async fn begun(&mut self) -> Result<(), CallError> {
        self.count(self.received.len())?;
        while self.received.len() == 0 && std::future::poll_fn(|cx| self.poll_more(cx)).await? {}
        Ok(())
    }

    /// The next message of a call that may have many; `None` after the last. The prefix of a message bounds it, and the
    /// stream's window bounds what comes with it. It counts against the budget until the next one is waited for.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let held = self.received.len();
            if let Some(message) = frame::next(self.pieces())? {
                self.count(held)?;
                return Ok(Some(message));
            }
            if !std::future::poll_fn(|cx| self.poll_more(cx)).await? {
                return if self.pieces().is_empty() { Ok(None) } else { Err(CallError::Incomplete) };
            }
        }
    }

    /// Receives the next piece; `false` at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, CallError>> {
        match self.stream.poll_data(cx) {
            Poll::Ready(Ok(None)) => Poll::Ready(Ok(false)),
            Poll::Ready(Ok(Some(piece))) => {
                self.append(piece);
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Err(StreamGone)) => Poll::Ready(Err(CallError::Gone)),
            // The client may never send the rest, so what has come counts from here on.
            Poll::Pending => match self.count(self.received.capacity()) {
                Ok(()) => Poll::Pending,
                Err(full) => Poll::Ready(Err(full)),
            },
        }
    }

    /// Counts the bytes that are held against the budget.
    fn count(&mut self, bytes: usize) -> Result<(), CallError> {
        if bytes <= GRPC_BODY_FREE_BYTES {
            self.share = None;
            return Ok(());
        }
        let share = self.share.get_or_insert_with(|| self.bodies.share());
        if share.set_to(bytes) { Ok(()) } else { Err(CallError::BodiesFull) }
    }

    fn append(&mut self, piece: Bytes) {
        match self.received {
            Received::Nothing => self.received = Received::Piece(piece),
            Received::Piece(_) | Received::Pieces(_) => self.pieces().extend_from_slice(&piece),
        }
    }

    fn pieces(&mut self) -> &mut BytesMut {
        self.received = Received::Pieces(match std::mem::replace(&mut self.received, Received::Nothing) {
            Received::Nothing => BytesMut::new(),
            Received::Piece(piece) => piece.into(),
            Received::Pieces(pieces) => pieces,
        });
        match &mut self.received {
            Received::Pieces(pieces) => pieces,
            Received::Nothing | Received::Piece(_) => unreachable!("it was just set"),
        }
    }
}
