//! The bodies of responses: whole, or events that follow one by one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use super::endpoints::AdminResponse;
use crate::control::api::EventFeed;
use crate::serve::{CountedBytes, ResponseBacklog};

/// The body of a response. What is not sent yet counts as backlog.
#[derive(Debug)]
pub(super) enum AdminBody {
    /// All of it.
    Whole(Full<CountedBytes>),
    /// Events. Hyper asks for the next one when there is room for it, so none wait here.
    Events(mpsc::Receiver<Bytes>, Arc<ResponseBacklog>),
}

impl AdminBody {
    /// A response with its body.
    pub(super) fn of(mut answer: AdminResponse, backlog: &Arc<ResponseBacklog>) -> Response<AdminBody> {
        let feed = answer.extensions_mut().remove::<EventFeed>().and_then(|feed| feed.take());
        answer.map(|bytes| match feed {
            Some(feed) => AdminBody::Events(feed, Arc::clone(backlog)),
            None => AdminBody::Whole(Full::new(backlog.count_until_sent(bytes))),
        })
    }
}

impl Body for AdminBody {
    type Data = CountedBytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, Infallible>>> {
        match self.get_mut() {
            AdminBody::Whole(body) => Pin::new(body).poll_frame(context),
            AdminBody::Events(feed, backlog) => {
                let counted = |event| Ok(Frame::data(backlog.count_until_sent(event)));
                feed.poll_recv(context).map(|event| event.map(counted))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AdminBody::Whole(body) => body.is_end_stream(),
            AdminBody::Events(..) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            AdminBody::Whole(body) => body.size_hint(),
            AdminBody::Events(..) => hyper::body::SizeHint::default(),
        }
    }
}
