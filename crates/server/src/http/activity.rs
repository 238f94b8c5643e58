//! What happens on a connection, for those that watch for silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Context;

/// How many requests there were, and are. Written and read by tasks of one thread; the atomics only
/// let them share it.
#[derive(Debug, Default)]
pub(super) struct Activity {
    began: AtomicU64,
    under_way: AtomicUsize,
}

impl Activity {
    /// The head of a request is there.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.began.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// How many have begun.
    pub(super) fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// Is none being answered?
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }
}

/// A request whose answer is still being made after its head was sent.
#[derive(Debug)]
pub(super) struct StillUnderWay(Arc<Context>);

impl StillUnderWay {
    pub(super) fn new(context: &Arc<Context>) -> StillUnderWay {
        context.activity.under_way.fetch_add(1, Ordering::Relaxed);
        StillUnderWay(Arc::clone(context))
    }
}

impl Drop for StillUnderWay {
    fn drop(&mut self) {
        self.0.activity.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request, until it is answered or its client gone.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Activity);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
