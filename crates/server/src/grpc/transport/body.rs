//! Reads the messages that a client sends in a stream.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::error::CallError;
use super::frame::{self, FRAME_MAX};
use crate::grpc::http2::call_stream::{RequestStream, StreamGone};

/// The body of a call.
#[derive(Debug)]
pub(crate) struct Body {
    stream: RequestStream,
    received: Received,
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
}

impl Body {
    pub(crate) fn new(stream: RequestStream) -> Body {
        Body { stream, received: Received::Nothing }
    }

    /// The message of a call that must have exactly one.
    pub(crate) fn poll_single(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, CallError>> {
        while ready!(self.poll_more(cx))? {
            if self.received.len() > FRAME_MAX {
                return Poll::Ready(Err(CallError::TooLarge));
            }
        }
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

    /// The next message of a call that may have many; `None` after the last. The prefix of a message bounds it, and the
    /// stream's window bounds what comes with it.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(message) = frame::next(self.pieces())? {
                return Ok(Some(message));
            }
            if !std::future::poll_fn(|cx| self.poll_more(cx)).await? {
                return if self.pieces().is_empty() { Ok(None) } else { Err(CallError::Incomplete) };
            }
        }
    }

    /// Receives the next piece; `false` at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, CallError>> {
        match ready!(self.stream.poll_data(cx)) {
            Ok(None) => Poll::Ready(Ok(false)),
            Ok(Some(piece)) => {
                self.append(piece);
                Poll::Ready(Ok(true))
            }
            Err(StreamGone) => Poll::Ready(Err(CallError::Gone)),
        }
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
