//! What a client sends in a stream, as it comes.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;

use super::error::CallError;
use super::frame::{self, FRAME_MAX};

/// The body of a call.
#[derive(Debug)]
pub(crate) struct Body {
    stream: RecvStream,
    come: Come,
}

/// Nearly every message comes in one piece, which is then not copied.
#[derive(Debug)]
enum Come {
    Nothing,
    Piece(Bytes),
    Pieces(BytesMut),
}

impl Body {
    pub(crate) fn new(stream: RecvStream) -> Body {
        Body { stream, come: Come::Nothing }
    }

    /// The message of a call that has only one.
    pub(crate) fn poll_only(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, CallError>> {
        while ready!(self.poll_more(cx))? {}
        Poll::Ready(frame::only(match std::mem::replace(&mut self.come, Come::Nothing) {
            Come::Nothing => Bytes::new(),
            Come::Piece(piece) => piece,
            Come::Pieces(pieces) => pieces.freeze(),
        }))
    }

    /// The same, waited for.
    pub(crate) async fn only(&mut self) -> Result<Bytes, CallError> {
        std::future::poll_fn(|cx| self.poll_only(cx)).await
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

    /// Takes what has come next; `false` when that was all.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, CallError>> {
        if self.stream.is_end_stream() {
            return Poll::Ready(Ok(false));
        }
        let Some(piece) = ready!(self.stream.poll_data(cx)) else { return Poll::Ready(Ok(false)) };
        let piece = piece.map_err(|_| CallError::Gone)?;
        // It fails only where the stream is closed, which the next poll tells.
        let _released = self.stream.flow_control().release_capacity(piece.len());
        self.keep(piece)?;
        Poll::Ready(Ok(true))
    }

    fn keep(&mut self, piece: Bytes) -> Result<(), CallError> {
        if let Come::Nothing = self.come {
            self.come = Come::Piece(piece);
            return Ok(());
        }
        let pieces = self.pieces();
        pieces.extend_from_slice(&piece);
        if pieces.len() > FRAME_MAX { Err(CallError::TooLarge) } else { Ok(()) }
    }

    fn pieces(&mut self) -> &mut BytesMut {
        self.come = Come::Pieces(match std::mem::replace(&mut self.come, Come::Nothing) {
            Come::Nothing => BytesMut::new(),
            Come::Piece(piece) => piece.into(),
            Come::Pieces(pieces) => pieces,
        });
        match &mut self.come {
            Come::Pieces(pieces) => pieces,
            Come::Nothing | Come::Piece(_) => unreachable!("it was just set"),
        }
    }
}
