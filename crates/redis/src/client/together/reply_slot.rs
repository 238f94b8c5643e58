//! Where a call waits for its reply, which another call receives.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use redis::Value;

use crate::calls::LinkError;

/// The reply to one call.
pub(in crate::client) type CallReply = Result<Value, LinkError>;

/// A place for one reply. Putting it there and waking whoever waits are two steps, since the one that waits is often polled
/// right after.
#[derive(Debug, Default)]
pub(in crate::client) struct ReplySlot(Mutex<SlotState>);

#[derive(Debug, Default)]
struct SlotState {
    reply: Option<CallReply>,
    waker: Option<Waker>,
}

impl ReplySlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the reply there.
    pub(super) fn put(&self, reply: CallReply) {
        self.state().reply = Some(reply);
    }

    /// Wakes whoever waits, unless the reply was taken.
    pub(super) fn wake(&self) {
        let waker = {
            let mut state = self.state();
            state.reply.is_some().then(|| state.waker.take()).flatten()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// There will be no reply, unless it is there already.
    pub(super) fn cancel(&self) {
        self.state().reply.get_or_insert(Err(LinkError::Cancelled));
        self.wake();
    }

    /// The reply.
    pub(in crate::client) async fn reply(&self) -> CallReply {
        poll_fn(|context| {
            let mut state = self.state();
            if let Some(reply) = state.reply.take() {
                return Poll::Ready(reply);
            }
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => state.waker = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }
}
