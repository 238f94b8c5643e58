//! `/v1/check/batch`: decisions in the order of the requests, written as they are made.
//!
//! A batch of some kilobytes can have an answer of megabytes. So only the first part of a large one is decided at
//! once; the rest of its text is kept, and decided piece by piece while the client takes the pieces. What a client
//! does not take is not decided, and not charged.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use tidegate::NowOrLater;
use tidegate::engine::{Decision, Request};

use super::decide::origin;
use crate::bounds::budget::BudgetShare;
use crate::bounds::{ANSWERS_AT_ONCE_BYTES, BATCH_PIECE_BYTES, BATCH_WAITING_MAX};
use crate::http::Context;
use crate::http::body::{BodyError, WholeBody};
use crate::http::connection::activity::StreamingAnswer;
use crate::http::response::answer::{HttpAnswer, JSON, write};
use crate::http::response::body::AnswerBody;
use crate::http::response::problem::HttpProblem;
use crate::observe::{Origin, Protocol};
use crate::serve::{CountedBytes, OutboxFull};
use crate::wire::{self, BatchReader};

/// Batches of fewer requests are answered whole, whatever the policy.
const REQUESTS_FEW: usize = 8;

/// Answers a batch. Nothing is decided unless all of it can be read.
pub(crate) async fn batch(
    context: &Arc<Context>,
    parts: &Parts,
    mut body: WholeBody,
) -> Result<HttpAnswer, HttpProblem> {
    let (text, share) = body.parts()?;
    let requests = wire::batch(text)?;
    let (count, is_small) = (requests.len(), requests.len() <= REQUESTS_FEW);
    // What is left when the first part is decided is kept for as long as the client takes; there must be room.
    if !is_small && !share.grow_to(text.len()) {
        return Err(HttpProblem::Body(BodyError::NoRoom));
    }
    let mut page = Page::begin();
    let most = if is_small { usize::MAX } else { ANSWERS_AT_ONCE_BYTES };
    decide(context, origin(context, parts), &mut requests.into_iter(), most, &mut page).await;
    if page.decisions == count {
        return Ok(answer(page.end().into()));
    }
    let reader = BatchReader::after(text, page.decisions);
    let traceparent = origin(context, parts).traceparent.map(str::to_owned);
    let (text, share) = body.into_kept();
    let (first, page) = page.piece();
    let rest = Rest { context: Arc::clone(context), text, _share: share, reader, count, page, traceparent };
    Ok(answer(AnswerBody::Batch(Box::new(BatchBody::new(first, rest)))))
}

fn answer(body: AnswerBody) -> HttpAnswer {
    let mut answer = HttpAnswer::new(body);
    // Headers would speak for one decision alone, so there are none.
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// Decides requests in their order until the page has about so many bytes. What has to be waited for is waited for
/// together.
async fn decide<'r>(
    context: &Context,
    origin: Origin<'_>,
    requests: &mut (impl Iterator<Item = Request<'r>> + Send),
    bytes: usize,
    page: &mut Page,
) {
    let mut waiting = FuturesOrdered::new();
    let mut are_over = false;
    'page: while page.bytes.len() < bytes {
        while !are_over && waiting.len() < page.decisions_up_to(bytes).min(BATCH_WAITING_MAX) {
            let Some(request) = requests.next() else {
                are_over = true;
                break;
            };
            match context.node.check(origin, &request).started() {
                NowOrLater::Now(decision) if waiting.is_empty() => {
                    page.add(&decision);
                    continue 'page;
                }
                decided => waiting.push_back(decided),
            }
        }
        let Some(decision) = waiting.next().await else { return };
        page.add(&decision);
    }
    // What has been asked for is part of this piece, whatever its size.
    while let Some(decision) = waiting.next().await {
        page.add(&decision);
    }
}

/// Decisions as they are written.
#[derive(Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    /// How many were written, in this piece and before it.
    decisions: usize,
    /// Bytes of the last decision.
    last: usize,
}

impl Page {
    fn begin() -> Page {
        Page { bytes: b"{\"decisions\":[".to_vec(), ..Page::default() }
    }

    fn add(&mut self, decision: &Decision) {
        let before = self.bytes.len();
        if self.decisions > 0 {
            self.bytes.push(b',');
        }
        write(decision, &mut self.bytes);
        self.decisions += 1;
        self.last = self.bytes.len() - before;
    }

    /// How many more decisions make it about so large; few while nobody knows how large they are.
    fn decisions_up_to(&self, bytes: usize) -> usize {
        let left = bytes.saturating_sub(self.bytes.len());
        left.checked_div(self.last).unwrap_or(REQUESTS_FEW).max(1)
    }

    /// What is written, and a page that goes on after it.
    fn piece(mut self) -> (Vec<u8>, Page) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // It may be kept for long, and was grown by doubling.
        bytes.shrink_to_fit();
        (bytes, self)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"]}");
        self.bytes
    }
}

/// What is still to be decided of a batch.
struct Rest {
    context: Arc<Context>,
    text: Bytes,
    _share: BudgetShare,
    reader: BatchReader,
    /// Requests of the whole batch.
    count: usize,
    page: Page,
    traceparent: Option<String>,
}

impl Rest {
    /// Decides the next piece; `None` instead of the rest after the last.
    async fn next(mut self) -> Result<(Vec<u8>, Option<Rest>), OutboxFull> {
        self.context.outbox.room().await?;
        let Rest { context, text, reader, page, traceparent, .. } = &mut self;
        let text = std::str::from_utf8(text).expect("it was read as text before");
        let origin = Origin { protocol: Protocol::Http, traceparent: traceparent.as_deref() };
        decide(context, origin, &mut reader.requests(text), BATCH_PIECE_BYTES, page).await;
        let page = std::mem::take(&mut self.page);
        if page.decisions == self.count {
            return Ok((page.end(), None));
        }
        let (bytes, page) = page.piece();
        self.page = page;
        Ok((bytes, Some(self)))
    }
}

type Deciding = Pin<Box<dyn Future<Output = Result<(Vec<u8>, Option<Rest>), OutboxFull>> + Send>>;

/// A body whose pieces are decided as they are asked for.
pub(crate) struct BatchBody {
    /// What comes next, and is decided.
    first: Option<Vec<u8>>,
    deciding: Option<Deciding>,
    context: Arc<Context>,
    /// On connections with many answers at once each piece counts, and must be taken in time. Between pieces this
    /// waits for nobody but the others, whose pieces must.
    counts: bool,
    _under_way: StreamingAnswer,
}

impl fmt::Debug for BatchBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBody").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl BatchBody {
    fn new(first: Vec<u8>, rest: Rest) -> BatchBody {
        let context = Arc::clone(&rest.context);
        let _under_way = StreamingAnswer::new(&context);
        BatchBody { first: Some(first), deciding: Some(next_of(rest)), context, counts: false, _under_way }
    }

    /// From now on its pieces count.
    pub(crate) fn count_pieces(&mut self) {
        self.counts = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none() && self.deciding.is_none()
    }

    pub(crate) fn poll_piece(
        &mut self,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<CountedBytes, OutboxFull>>> {
        let bytes = match (self.first.take(), &mut self.deciding) {
            (Some(first), _) => first,
            (None, None) => return Poll::Ready(None),
            (None, Some(deciding)) => match ready!(deciding.as_mut().poll(task)) {
                Ok((bytes, rest)) => {
                    self.deciding = rest.map(next_of);
                    bytes
                }
                Err(no_room) => {
                    self.deciding = None;
                    return Poll::Ready(Some(Err(no_room)));
                }
            },
        };
        let mut held = CountedBytes::uncounted(bytes.into());
        if self.counts {
            held.count(&self.context.outbox);
        }
        Poll::Ready(Some(Ok(held)))
    }
}

fn next_of(rest: Rest) -> Deciding {
    Box::pin(rest.next())
}
