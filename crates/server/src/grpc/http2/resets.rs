//! Counts the streams of a connection that end unanswered because of the client.

use std::task::{Context, Poll, Waker};

use crate::bounds::{GRPC_PROXY_RESETS_MAX, GRPC_RESETS_MAX};

/// Streams that were reset before they were answered, minus one for each answered stream and a part each second. Without
/// this bound, a client that opens streams and resets them at once would never reach the bound on open streams.
#[derive(Debug)]
pub(super) struct ResetCount {
    count: usize,
    max: usize,
    /// Wakes the task that lowers the count each second. It is set while the count is 0.
    forgiving: Option<Waker>,
}

impl ResetCount {
    pub(super) fn new(is_loopback_or_proxy: bool) -> ResetCount {
        let max = if is_loopback_or_proxy { GRPC_PROXY_RESETS_MAX } else { GRPC_RESETS_MAX };
        ResetCount { count: 0, max, forgiving: None }
    }

    /// Counts a reset; `None` if it passes the bound.
    pub(super) fn add(&mut self) -> Option<()> {
        self.count += 1;
        if let Some(forgiving) = self.forgiving.take() {
            forgiving.wake();
        }
        (self.count <= self.max).then_some(())
    }

    /// An answered call makes up for a reset.
    pub(super) fn make_up(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// Users who give up now and then must not end the connection of their proxy: each second, a tenth of the bound is
    /// forgiven.
    pub(super) fn forgive(&mut self) {
        self.count = self.count.saturating_sub(self.max / 10);
    }

    /// Waits until there are resets, so that no timer runs without them.
    pub(super) fn poll_any(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.count > 0 {
            return Poll::Ready(());
        }
        self.forgiving = Some(cx.waker().clone());
        Poll::Pending
    }
}
