//! The trace of the request that this thread is deciding. The engine does not know about traces, and events that it
//! leads to name them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

use opentelemetry::trace::TraceId;

use super::traceparent;

thread_local! {
    static CURRENT: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// While it exists, its trace is the current one of this thread.
#[derive(Debug)]
pub(crate) struct TraceScope {
    before: Option<TraceId>,
}

impl TraceScope {
    /// Makes the trace of a `traceparent` header the current one.
    #[inline]
    pub(crate) fn enter(traceparent: Option<&str>) -> Option<TraceScope> {
        let trace = traceparent::parse(traceparent?)?.trace_id();
        Some(TraceScope { before: CURRENT.replace(Some(trace)) })
    }
}

impl Drop for TraceScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// The current trace of this thread, in hexadecimal digits.
pub(crate) fn current_trace() -> Option<String> {
    CURRENT.get().map(|trace| trace.to_string())
}

/// Is there a current trace of this thread?
#[inline]
pub(crate) fn is_traced() -> bool {
    CURRENT.get().is_some()
}

/// Runs a future with the trace of a `traceparent` header as the current one.
pub(crate) async fn within_trace<F: Future>(traceparent: Option<&str>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _scope = TraceScope::enter(traceparent);
        future.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_trace_is_current_only_within_its_request() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let seen = within_trace(Some(header), async {
            tokio::task::yield_now().await;
            current_trace()
        });
        let (inside, between) = tokio::join!(seen, async { current_trace() });
        assert_eq!(inside.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!((between, current_trace()), (None, None));
        assert!(TraceScope::enter(Some("not a header")).is_none() && TraceScope::enter(None).is_none());
    }
}
