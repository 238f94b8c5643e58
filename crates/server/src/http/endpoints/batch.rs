//! `/v1/check/batch`: decisions in the order of the requests, written as they are made.
//!
//! A batch of some kilobytes can have a response of megabytes. So only the first part of a large batch is decided at
//! once. The rest of its text is kept and decided piece by piece, while the client reads the pieces. What the client
//! does not read is not decided and not charged.

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
use crate::bounds::{BATCH_PIECE_BYTES, BATCH_WAITING_MAX, RESPONSES_AT_ONCE_BYTES};
use crate::http::Context;
use crate::http::body::{BodyError, WholeBody};
use crate::http::connection::activity::StreamingResponse;
use crate::http::response::body::HttpResponseBody;
use crate::http::response::decision::{HttpResponse, JSON, write};
use crate::http::response::problem::HttpProblem;
use crate::observe::{Origin, Protocol};
use crate::serve::{BacklogFull, CountedBytes};
use crate::wire::{self, BatchReader};

/// Batches of up to this many requests are always answered in one piece.
const SMALL_BATCH_MAX: usize = 8;

/// Answers a batch. Nothing is decided unless every request in it is valid.
pub(crate) async fn batch(
    context: &Arc<Context>,
    parts: &Parts,
    mut body: WholeBody,
) -> Result<HttpResponse, HttpProblem> {
    let (text, share) = body.parts()?;
    let requests = wire::batch(text)?;
    let (count, is_small) = (requests.len(), requests.len() <= SMALL_BATCH_MAX);
    // The undecided rest is kept for as long as the client needs to read, so it must fit into the body budget.
    if !is_small && !share.grow_to(text.len()) {
        return Err(HttpProblem::Body(BodyError::BudgetExhausted));
    }
    let mut list = DecisionList::begin();
    let most = if is_small { usize::MAX } else { RESPONSES_AT_ONCE_BYTES };
    decide(context, origin(context, parts), &mut requests.into_iter(), most, &mut list).await;
    if list.decisions == count {
        return Ok(answer(list.end().into()));
    }
    let reader = BatchReader::after(text, list.decisions);
    let traceparent = origin(context, parts).traceparent.map(str::to_owned);
    let (text, share) = body.into_owned_parts();
    let (first, list) = list.piece();
    let rest = RemainingBatch {
        context: Arc::clone(context),
        text,
        _share: share,
        reader,
        count,
        list,
        traceparent,
    };
    Ok(answer(HttpResponseBody::Batch(Box::new(BatchBody::new(first, rest)))))
}

fn answer(body: HttpResponseBody) -> HttpResponse {
    let mut answer = HttpResponse::new(body);
    // The rate limit headers describe one decision, so a batch has none.
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// Decides requests in their order until the list has about `bytes` bytes. Decisions that wait for the store wait at
/// the same time.
async fn decide<'r>(
    context: &Context,
    origin: Origin<'_>,
    requests: &mut (impl Iterator<Item = Request<'r>> + Send),
    bytes: usize,
    list: &mut DecisionList,
) {
    let mut waiting = FuturesOrdered::new();
    let mut are_over = false;
    'list: while list.bytes.len() < bytes {
        while !are_over && waiting.len() < list.decisions_up_to(bytes).min(BATCH_WAITING_MAX) {
            let Some(request) = requests.next() else {
                are_over = true;
                break;
            };
            match context.node.check(origin, &request).started() {
                NowOrLater::Now(decision) if waiting.is_empty() => {
                    list.add(&decision);
                    continue 'list;
                }
                decided => waiting.push_back(decided),
            }
        }
        let Some(decision) = waiting.next().await else { return };
        list.add(&decision);
    }
    // Requests already sent to the store are part of this piece, however large it gets.
    while let Some(decision) = waiting.next().await {
        list.add(&decision);
    }
}

/// Writes decisions as a JSON list.
#[derive(Debug, Default)]
struct DecisionList {
    bytes: Vec<u8>,
    /// How many decisions were written, in this piece and before it.
    decisions: usize,
    /// Bytes of the last decision.
    last: usize,
}

impl DecisionList {
    fn begin() -> DecisionList {
        DecisionList { bytes: b"{\"decisions\":[".to_vec(), ..DecisionList::default() }
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

    /// How many more decisions fit into about `bytes` bytes, judged by the last one; a few if there is none yet.
    fn decisions_up_to(&self, bytes: usize) -> usize {
        let left = bytes.saturating_sub(self.bytes.len());
        left.checked_div(self.last).unwrap_or(SMALL_BATCH_MAX).max(1)
    }

    /// The bytes written so far, and a list that continues after them.
    fn piece(mut self) -> (Vec<u8>, DecisionList) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // It may be kept for long, and `Vec` has grown it by doubling.
        bytes.shrink_to_fit();
        (bytes, self)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"]}");
        self.bytes
    }
}

/// The undecided rest of a batch.
struct RemainingBatch {
    context: Arc<Context>,
    text: Bytes,
    _share: BudgetShare,
    reader: BatchReader,
    /// How many requests the whole batch has.
    count: usize,
    list: DecisionList,
    traceparent: Option<String>,
}

impl RemainingBatch {
    /// Decides the next piece, and returns it with the rest; `None` after the last piece.
    async fn next(mut self) -> Result<(Vec<u8>, Option<RemainingBatch>), BacklogFull> {
        self.context.backlog.wait_for_capacity().await?;
        let RemainingBatch { context, text, reader, list, traceparent, .. } = &mut self;
        let text = std::str::from_utf8(text).expect("`WholeBody::parts` has checked that it is UTF-8");
        let origin = Origin { protocol: Protocol::Http, traceparent: traceparent.as_deref() };
        decide(context, origin, &mut reader.requests(text), BATCH_PIECE_BYTES, list).await;
        let list = std::mem::take(&mut self.list);
        if list.decisions == self.count {
            return Ok((list.end(), None));
        }
        let (bytes, list) = list.piece();
        self.list = list;
        Ok((bytes, Some(self)))
    }
}

type Deciding = Pin<Box<dyn Future<Output = Result<(Vec<u8>, Option<RemainingBatch>), BacklogFull>> + Send>>;

/// A response body whose pieces are decided when hyper polls for them.
pub(crate) struct BatchBody {
    /// The first piece, which is decided already.
    first: Option<Vec<u8>>,
    deciding: Option<Deciding>,
    context: Arc<Context>,
    /// On HTTP/2 each piece counts against the backlog, and the client must read it in time. Between pieces, the body
    /// can wait only for backlog capacity, which the pieces of other streams free when they are read or time out.
    counts: bool,
    _in_flight: StreamingResponse,
}

impl fmt::Debug for BatchBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBody").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl BatchBody {
    fn new(first: Vec<u8>, rest: RemainingBatch) -> BatchBody {
        let context = Arc::clone(&rest.context);
        let _in_flight = StreamingResponse::new(&context);
        BatchBody { first: Some(first), deciding: Some(next_of(rest)), context, counts: false, _in_flight }
    }

    /// Makes its pieces count against the backlog.
    pub(crate) fn count_pieces(&mut self) {
        self.counts = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none() && self.deciding.is_none()
    }

    pub(crate) fn poll_piece(
        &mut self,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<CountedBytes, BacklogFull>>> {
        let bytes = match (self.first.take(), &mut self.deciding) {
            (Some(first), _) => first,
            (None, None) => return Poll::Ready(None),
            (None, Some(deciding)) => match ready!(deciding.as_mut().poll(task)) {
                Ok((bytes, rest)) => {
                    self.deciding = rest.map(next_of);
                    bytes
                }
                Err(full) => {
                    self.deciding = None;
                    return Poll::Ready(Some(Err(full)));
                }
            },
        };
        let mut held = CountedBytes::uncounted(bytes.into());
        if self.counts {
            held.count(&self.context.backlog);
        }
        Poll::Ready(Some(Ok(held)))
    }
}

fn next_of(rest: RemainingBatch) -> Deciding {
    Box::pin(rest.next())
}
