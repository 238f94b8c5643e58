//! Calls that a node begins at the same time, sent as one: one message, lost or late as a whole, with a reply for each.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidegate_redis::testing::can_be_one;
use tidegate_redis::{LinkError, ScriptCall};

use super::message::{NetworkReply, NetworkRequest, SimReplySlot};
use super::sim_link::SimLink;
use crate::world::lock;

/// What happens while calls are polled together.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Are calls gathered, and not sent?
    is_open: bool,
    calls: Vec<ScriptCall>,
    /// Where they wait for their replies.
    slots: Vec<Arc<Mutex<SimReplySlot>>>,
}

impl SimLink {
    /// Runs `poll` twice, if calls begin in the first run: then they are sent as one in between.
    pub(super) fn gather(&self, poll: &mut dyn FnMut()) {
        let outer = std::mem::replace(
            &mut *lock(&self.gathering),
            Gathering { is_open: true, ..Gathering::default() },
        );
        poll();
        let gathered = std::mem::replace(&mut *lock(&self.gathering), outer);
        let request = match <[ScriptCall; 1]>::try_from(gathered.calls) {
            Ok([only]) => NetworkRequest::ScriptCall(Box::new(only)),
            Err(calls) if calls.is_empty() => return,
            Err(calls) => NetworkRequest::Joined(calls),
        };
        let slot = match &gathered.slots[..] {
            [only] => Arc::clone(only),
            _ => Arc::new(Mutex::new(SimReplySlot { joined: gathered.slots, ..SimReplySlot::default() })),
        };
        self.network.send_for(self.node, request, self.deadline, &slot);
        poll();
    }

    /// Where a call waits for its reply that is gathered now. Others are sent after those that are gathered.
    pub(super) async fn joined(&self, call: &ScriptCall) -> Option<Arc<Mutex<SimReplySlot>>> {
        let slot = {
            let mut gathering = lock(&self.gathering);
            let joins = gathering.is_open && can_be_one(&gathering.calls, call);
            joins.then(|| {
                let slot = Arc::default();
                gathering.calls.push(call.clone());
                gathering.slots.push(Arc::clone(&slot));
                slot
            })
        };
        if slot.is_none() {
            self.gathered_are_sent().await;
        }
        slot
    }

    /// Resolves once the calls are sent that are gathered now.
    pub(super) async fn gathered_are_sent(&self) {
        // The second run polls it again, so nobody has to wake it.
        let mut has_waited = false;
        poll_fn(|_| {
            let waits = !has_waited && {
                let gathering = lock(&self.gathering);
                gathering.is_open && !gathering.calls.is_empty()
            };
            has_waited |= waits;
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

/// The reply to each of several calls that were sent as one.
pub(super) fn replies(
    reply: Result<NetworkReply, LinkError>,
    calls: usize,
) -> Vec<Result<NetworkReply, LinkError>> {
    let answer = |answer: Result<_, _>| answer.map(|answer| NetworkReply::CallAnswer(Box::new(answer)));
    match reply {
        Ok(NetworkReply::Joined(answers)) => answers.into_iter().map(answer).collect(),
        Ok(_) => vec![Err(LinkError::Garbled("another reply to several calls".into())); calls],
        // It is one failure, which the first call reports.
        Err(error) => {
            let others = Err(LinkError::SentWith(Box::new(error.clone())));
            std::iter::once(Err(error)).chain(std::iter::repeat_n(others, calls - 1)).collect()
        }
    }
}
