//! What happens on a connection, for those that watch for silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::http::Context;

/// How many requests there were, and are. Written and read by tasks of one thread; the atomics only
/// let them share it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    began: AtomicU64,
    under_way: AtomicUsize,
}

impl Activity {
    /// The head of a request is there.
    pub(crate) fn begin(&self) -> ActiveRequest<'_> {
        self.began.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self)
    }

    /// How many have begun.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// Is none being answered?
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }
}

/// A request whose answer is still being made after its head was sent.
#[derive(Debug)]
pub(crate) struct StreamingAnswer(Arc<Context>);

impl StreamingAnswer {
    pub(crate) fn new(context: &Arc<Context>) -> StreamingAnswer {
        context.activity.under_way.fetch_add(1, Ordering::Relaxed);
        StreamingAnswer(Arc::clone(context))
    }
}

impl Drop for StreamingAnswer {
    fn drop(&mut self) {
        self.0.activity.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request, until it is answered or its client gone.
#[derive(Debug)]
pub(crate) struct ActiveRequest<'a>(&'a Activity);

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
