//! Reads the messages that a client sends in a stream.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;

use super::error::CallError;
use super::frame::{self, FRAME_MAX};

/// The body of a call.
#[derive(Debug)]
pub(crate) struct Body {
    stream: RecvStream,
    received: Received,
}

/// The bytes received and not yet used. Nearly every message arrives in one piece, which is then not copied.
#[derive(Debug)]
enum Received {
    Nothing,
    Piece(Bytes),
    Pieces(BytesMut),
}

impl Body {
    pub(crate) fn new(stream: RecvStream) -> Body {
        Body { stream, received: Received::Nothing }
    }

    /// The message of a call that must have exactly one.
    pub(crate) fn poll_single(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, CallError>> {
        while ready!(self.poll_more(cx))? {}
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

    /// The next message of a call that may have many; `None` after the last.
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
        if self.stream.is_end_stream() {
            return Poll::Ready(Ok(false));
        }
        let Some(piece) = ready!(self.stream.poll_data(cx)) else { return Poll::Ready(Ok(false)) };
        let piece = piece.map_err(|_| CallError::Gone)?;
        // It fails only if the stream is closed, which the next poll reports.
        let _released = self.stream.flow_control().release_capacity(piece.len());
        self.append(piece)?;
        Poll::Ready(Ok(true))
    }

    fn append(&mut self, piece: Bytes) -> Result<(), CallError> {
        if let Received::Nothing = self.received {
            self.received = Received::Piece(piece);
            return Ok(());
        }
        let pieces = self.pieces();
        pieces.extend_from_slice(&piece);
        if pieces.len() > FRAME_MAX { Err(CallError::TooLarge) } else { Ok(()) }
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
