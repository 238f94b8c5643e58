//! The body of a response: that of the service, or that of a refusal.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of a [`RateLimit`](crate::RateLimit): that of the inner service, or that of a refusal.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        content: Content<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = ContentView]
    enum Content<B> {
        Service { #[pin] body: B },
        // Empty once it has been read.
        Refusal { text: Bytes },
    }
}

impl<B> ResponseBody<B> {
    /// The body of the inner service, unchanged.
    pub(crate) fn of_service(body: B) -> ResponseBody<B> {
        ResponseBody { content: Content::Service { body } }
    }

    pub(crate) fn of_refusal(text: String) -> ResponseBody<B> {
        ResponseBody { content: Content::Refusal { text: text.into() } }
    }
}

impl<B> http_body::Body for ResponseBody<B>
where
    B: http_body::Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().content.project() {
            ContentView::Service { body } => body.poll_frame(context),
            ContentView::Refusal { text } if text.is_empty() => Poll::Ready(None),
            ContentView::Refusal { text } => {
                let whole = std::mem::take(text);
                Poll::Ready(Some(Ok(Frame::data(whole.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Service { body } => body.is_end_stream(),
            Content::Refusal { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Service { body } => body.size_hint(),
            Content::Refusal { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use http_body::Body;

    use super::*;

    fn next<B: Body<Data = Bytes, Error: std::fmt::Debug>>(body: Pin<&mut B>) -> Option<Bytes> {
        match body.poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => frame.map(|frame| frame.unwrap().into_data().unwrap()),
            Poll::Pending => panic!("the body is not ready"),
        }
    }

    #[test]
    fn a_refusal_is_one_frame() {
        let mut body = pin!(ResponseBody::<String>::of_refusal("no".to_owned()));
        assert_eq!(body.size_hint().exact(), Some(2));
        assert!(!body.is_end_stream());
        assert_eq!(next(body.as_mut()).as_deref(), Some(&b"no"[..]));
        assert!(body.is_end_stream());
        assert_eq!(next(body.as_mut()), None);
    }

    #[test]
    fn an_empty_refusal_has_ended() {
        let body = pin!(ResponseBody::<String>::of_refusal(String::new()));
        assert!(body.is_end_stream());
        assert_eq!(next(body), None);
    }

    #[test]
    fn the_body_of_the_service_is_passed_on() {
        let mut body = pin!(ResponseBody::of_service("yes".to_owned()));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(next(body.as_mut()).as_deref(), Some(&b"yes"[..]));
        assert!(body.is_end_stream());
    }
}
