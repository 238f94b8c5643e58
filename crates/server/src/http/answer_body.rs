//! The body of an answer: whole, or decided as the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use super::batch::BatchBody;
use crate::serve::{Held, NoRoom, Outbox};

/// A body.
#[derive(Debug)]
pub(super) enum AnswerBody {
    /// In memory.
    Whole(Held),
    /// Of a batch whose decisions are still to be made.
    Batch(Box<BatchBody>),
}

impl AnswerBody {
    /// On a connection with many answers at once each counts; on the others what waits to be written does.
    pub(super) fn count(&mut self, outbox: &Arc<Outbox>) {
        match self {
            AnswerBody::Whole(held) => held.count(outbox),
            AnswerBody::Batch(batch) => batch.count_pieces(),
        }
    }
}

impl Default for AnswerBody {
    fn default() -> AnswerBody {
        AnswerBody::Whole(Held::default())
    }
}

impl From<Vec<u8>> for AnswerBody {
    fn from(bytes: Vec<u8>) -> AnswerBody {
        AnswerBody::Whole(Held::uncounted(Bytes::from(bytes)))
    }
}

impl Body for AnswerBody {
    type Data = Held;
    type Error = NoRoom;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Held>, NoRoom>>> {
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
