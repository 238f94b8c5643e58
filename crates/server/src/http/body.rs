//! Reads the whole body of a request, within a size, a timeout and a memory budget.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use hyper::body::Body;

use super::response::problem::HttpProblem;
use crate::bounds::budget::{BudgetAccount, BudgetShare};
use crate::bounds::{BODIES_BYTES_MAX, BODY_TIMEOUT};

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is too large.
    #[error("the body is larger than {max} bytes")]
    TooLarge {
        /// The largest size in bytes.
        max: usize,
    },
    /// It did not arrive in time.
    #[error("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())]
    Slow,
    /// The connection ended, or its framing is invalid.
    #[error("the body ended early")]
    Broken,
    /// The budget for unfinished bodies is used up.
    #[error(
        "unfinished request bodies use up the memory set aside for them ({} MiB in all, a part of it for one \
         address); send the request again in a moment",
        BODIES_BYTES_MAX >> 20
    )]
    BudgetExhausted,
}

/// A complete body. It holds its share of the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct WholeBody {
    bytes: Bytes,
    share: BudgetShare,
}

impl WholeBody {
    /// The body as text.
    pub(super) fn text(&self) -> Result<&str, HttpProblem> {
        std::str::from_utf8(&self.bytes).map_err(|_| HttpProblem::NotUtf8)
    }

    /// The body as text, and its share of the budget.
    pub(super) fn parts(&mut self) -> Result<(&str, &mut BudgetShare), HttpProblem> {
        let text = std::str::from_utf8(&self.bytes).map_err(|_| HttpProblem::NotUtf8)?;
        Ok((text, &mut self.share))
    }

    /// A copy of the body to keep, with its share. Without the copy, the slice would keep the whole read buffer alive.
    pub(crate) fn into_owned_parts(self) -> (Bytes, BudgetShare) {
        let mut share = self.share;
        let bytes = Bytes::copy_from_slice(&self.bytes);
        share.force_to(bytes.len());
        (bytes, share)
    }
}

/// Reads a body of at most `max` bytes. One that arrives in one piece is not copied and does not count against the
/// budget.
pub(crate) async fn collect<B>(body: B, max: usize, budget: &BudgetAccount) -> Result<WholeBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > max as u64 {
        return Err(BodyError::TooLarge { max });
    }
    let partial = PartialBody { first: Bytes::new(), joined: Vec::new(), max, share: budget.share() };
    let mut reading = pin!(partial.read_to_end(body));
    // Most bodies arrive together with their head and need no timer.
    match futures_util::poll!(reading.as_mut()) {
        Poll::Ready(read) => read,
        Poll::Pending => tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or(Err(BodyError::Slow)),
    }
}

/// The part of a body that has arrived.
struct PartialBody {
    first: Bytes,
    joined: Vec<u8>,
    max: usize,
    share: BudgetShare,
}

impl PartialBody {
    async fn read_to_end<B>(mut self, mut body: B) -> Result<WholeBody, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let next = poll_fn(|task| match Pin::new(&mut body).poll_frame(task) {
                // The client may never send the rest, so what has arrived counts from here on.
                Poll::Pending => match self.share.grow_to(self.first.len()) {
                    true => Poll::Pending,
                    false => Poll::Ready(Err(BodyError::BudgetExhausted)),
                },
                Poll::Ready(frame) => Poll::Ready(frame.transpose().map_err(|_| BodyError::Broken)),
            });
            let Some(frame) = next.await? else { break };
            let Ok(piece) = frame.into_data() else { continue };
            self.append(piece)?;
            if body.is_end_stream() {
                break;
            }
        }
        let bytes = if self.joined.is_empty() { self.first } else { Bytes::from(self.joined) };
        Ok(WholeBody { bytes, share: self.share })
    }

    fn append(&mut self, piece: Bytes) -> Result<(), BodyError> {
        let length = self.first.len().max(self.joined.len()) + piece.len();
        if length > self.max {
            return Err(BodyError::TooLarge { max: self.max });
        }
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = piece;
            return Ok(());
        }
        if length > self.joined.capacity() {
            // The budget counts allocated bytes, so choose the capacity here instead of letting `Vec` double it.
            let capacity = (2 * length).min(self.max);
            if !self.share.grow_to(capacity) {
                return Err(BodyError::BudgetExhausted);
            }
            self.joined.reserve_exact(capacity - self.joined.len());
        }
        self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;
    use crate::bounds::budget::ByteBudget;

    /// A body in pieces. If the flag is false, it never ends.
    struct Pieces(Vec<Bytes>, bool);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _task: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match (self.0.is_empty(), self.1) {
                (false, _) => Poll::Ready(Some(Ok(Frame::data(self.0.remove(0))))),
                (true, true) => Poll::Ready(None),
                (true, false) => Poll::Pending,
            }
        }
    }

    /// The account of one address with this many bytes: the budget has four times as many.
    fn room(bytes: usize) -> BudgetAccount {
        ByteBudget::of(4 * bytes).account([192, 0, 2, 1].into(), false)
    }

    fn pieces_of(texts: &[&'static str]) -> Pieces {
        Pieces(texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect(), true)
    }

    async fn read(body: Pieces, max: usize) -> Result<Bytes, BodyError> {
        collect(body, max, &room(1 << 20)).await.map(|whole| whole.bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_are_joined_and_one_is_not_copied() {
        let one = Bytes::from_static(b"{\"user\":\"a\"}");
        assert_eq!(read(Pieces(vec![one.clone()], true), 64).await.unwrap().as_ptr(), one.as_ptr());
        assert_eq!(read(pieces_of(&["ab", "", "cd", "e"]), 5).await.unwrap(), "abcde");
        assert_eq!(read(pieces_of(&[]), 5).await.unwrap(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_an_end_to_size_and_patience() {
        assert_eq!(read(pieces_of(&["abc", "def"]), 5).await, Err(BodyError::TooLarge { max: 5 }));
        assert_eq!(read(pieces_of(&["abcdef"]), 5).await, Err(BodyError::TooLarge { max: 5 }));
        assert_eq!(read(Pieces(vec![Bytes::from_static(b"{")], false), 5).await, Err(BodyError::Slow));
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_share_a_budget() {
        let budget = room(8);
        let whole = collect(pieces_of(&["a body of one piece"]), 64, &budget).await;
        assert!(whole.is_ok(), "it takes nothing");
        let unfinished = |text: &'static str| Pieces(vec![Bytes::from_static(text.as_bytes())], false);
        let ended = |body| async { collect(body, 64, &budget).await.map(drop).unwrap_err() };
        assert_eq!(
            ended(unfinished("123456789")).await,
            BodyError::BudgetExhausted,
            "the first piece counts"
        );
        let both = tokio::join!(ended(unfinished("12345")), ended(unfinished("6789")));
        assert_eq!(both, (BodyError::Slow, BodyError::BudgetExhausted));
        let joined = collect(pieces_of(&["abc", "d"]), 64, &budget).await.unwrap();
        assert_eq!(
            ended(unfinished("e")).await,
            BodyError::BudgetExhausted,
            "a joined body holds its share of the budget"
        );
        drop(joined);
        assert_eq!(ended(unfinished("e")).await, BodyError::Slow, "dropping the body frees its share");
    }
}
