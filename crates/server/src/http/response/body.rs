//! The body of a response: complete, or a batch that is decided while the client reads it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use crate::http::endpoints::batch::BatchBody;
use crate::serve::{BacklogFull, CountedBytes, ResponseBacklog};

/// The body of a response.
#[derive(Debug)]
pub(crate) enum HttpResponseBody {
    /// In memory.
    Whole(CountedBytes),
    /// A batch of which some requests are not decided yet.
    Batch(Box<BatchBody>),
}

impl HttpResponseBody {
    /// Counts the body against the connection's backlog. For HTTP/2 only: on HTTP/1.1, [`HyperIo`] reports the bytes
    /// that wait to be written.
    ///
    /// [`HyperIo`]: crate::http::connection::hyper_io::HyperIo
    pub(crate) fn count(&mut self, backlog: &Arc<ResponseBacklog>) {
        match self {
            HttpResponseBody::Whole(held) => held.count(backlog),
            HttpResponseBody::Batch(batch) => batch.count_pieces(),
        }
    }
}

impl Default for HttpResponseBody {
    fn default() -> HttpResponseBody {
        HttpResponseBody::Whole(CountedBytes::default())
    }
}

impl From<Vec<u8>> for HttpResponseBody {
    fn from(bytes: Vec<u8>) -> HttpResponseBody {
        HttpResponseBody::Whole(CountedBytes::uncounted(Bytes::from(bytes)))
    }
}

impl Body for HttpResponseBody {
    type Data = CountedBytes;
    type Error = BacklogFull;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, BacklogFull>>> {
        match &mut *self {
            HttpResponseBody::Whole(held) if !held.has_remaining() => Poll::Ready(None),
            HttpResponseBody::Whole(held) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(held))))),
            HttpResponseBody::Batch(batch) => {
                batch.poll_piece(task).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            HttpResponseBody::Whole(held) => !held.has_remaining(),
            HttpResponseBody::Batch(batch) => batch.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HttpResponseBody::Whole(held) => SizeHint::with_exact(held.remaining() as u64),
            HttpResponseBody::Batch(_) => SizeHint::default(),
        }
    }
}
