//! Counts the requests of a connection, so that an idle one can be closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::http::Context;

/// How many requests a connection has started and has in flight. Only tasks of one thread use it; the atomics make it
/// shareable between them.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    requests_started: AtomicU64,
    in_flight: AtomicUsize,
}

impl Activity {
    /// Counts a request whose head has arrived.
    pub(crate) fn begin(&self) -> ActiveRequest<'_> {
        self.requests_started.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self)
    }

    /// How many requests have started so far.
    pub(crate) fn requests_started(&self) -> u64 {
        self.requests_started.load(Ordering::Relaxed)
    }

    /// Is no request in flight?
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) == 0
    }
}

/// A request in flight whose response body is still being decided after the response head was sent.
#[derive(Debug)]
pub(crate) struct StreamingResponse(Arc<Context>);

impl StreamingResponse {
    pub(crate) fn new(context: &Arc<Context>) -> StreamingResponse {
        context.activity.in_flight.fetch_add(1, Ordering::Relaxed);
        StreamingResponse(Arc::clone(context))
    }
}

impl Drop for StreamingResponse {
    fn drop(&mut self) {
        self.0.activity.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request in flight, until it is answered or dropped because the client disconnected.
#[derive(Debug)]
pub(crate) struct ActiveRequest<'a>(&'a Activity);

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
