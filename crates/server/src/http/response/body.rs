//! The body of an answer: whole, or decided as the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use crate::http::endpoints::batch::BatchBody;
use crate::serve::{CountedBytes, Outbox, OutboxFull};

/// A body.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    /// In memory.
    Whole(CountedBytes),
    /// Of a batch whose decisions are still to be made.
    Batch(Box<BatchBody>),
}

impl AnswerBody {
    /// On a connection with many answers at once each counts; on the others what waits to be written does.
    pub(crate) fn count(&mut self, outbox: &Arc<Outbox>) {
        match self {
            AnswerBody::Whole(held) => held.count(outbox),
            AnswerBody::Batch(batch) => batch.count_pieces(),
        }
    }
}

impl Default for AnswerBody {
    fn default() -> AnswerBody {
        AnswerBody::Whole(CountedBytes::default())
    }
}

impl From<Vec<u8>> for AnswerBody {
    fn from(bytes: Vec<u8>) -> AnswerBody {
        AnswerBody::Whole(CountedBytes::uncounted(Bytes::from(bytes)))
    }
}

impl Body for AnswerBody {
    type Data = CountedBytes;
    type Error = OutboxFull;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, OutboxFull>>> {
        match &mut *self {
            AnswerBody::Whole(held) if !held.has_remaining() => Poll::Ready(None),
            AnswerBody::Whole(held) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(held))))),
            AnswerBody::Batch(batch) => {
                batch.poll_piece(task).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(held) => !held.has_remaining(),
            AnswerBody::Batch(batch) => batch.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(held) => SizeHint::with_exact(held.remaining() as u64),
            AnswerBody::Batch(_) => SizeHint::default(),
        }
    }
}
