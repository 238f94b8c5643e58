//! The simulated link of one node to the server.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    ScriptCall,
};

use super::joined::Gathering;
use super::message::{NetworkReply, NetworkRequest, SimReplySlot};
use super::{Network, sabotaged};
use crate::scenario::sabotage::Sabotage;
use crate::world::lock;

/// The link of one node.
#[derive(Clone, Debug)]
pub struct SimLink {
    pub(super) network: Network,
    pub(super) node: usize,
    pub(super) deadline: Nanos,
    pub(super) has_slots: bool,
    pub(super) gathering: Arc<Mutex<Gathering>>,
}

impl SimLink {
    async fn send(&self, request: NetworkRequest) -> Result<NetworkReply, LinkError> {
        reply(&self.network.send(self.node, request, self.deadline)).await
    }
}

/// The reply, as soon as it arrives.
async fn reply(slot: &Mutex<SimReplySlot>) -> Result<NetworkReply, LinkError> {
    poll_fn(|context| {
        let mut slot = lock(slot);
        match slot.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

impl Link for SimLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        if sabotaged::is_sent_twice(self.network.sabotage, call) {
            // Nobody waits for the answer of the first one.
            let again = NetworkRequest::ScriptCall(Box::new(call.clone()));
            self.network.send(self.node, again, self.deadline);
        }
        let reply = match self.joined(call).await {
            Some(slot) => reply(&slot).await,
            None => self.send(NetworkRequest::ScriptCall(Box::new(call.clone()))).await,
        };
        match reply? {
            NetworkReply::CallAnswer(answer) => Ok(sabotaged::heard(&self.network, call, *answer)),
            _ => Err(LinkError::Garbled("another reply to a call".into())),
        }
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        match self.send(NetworkRequest::Heartbeat(heartbeat.clone())).await? {
            NetworkReply::Nodes(nodes) => Ok(nodes),
            _ => Err(LinkError::Garbled("another reply to a heartbeat".into())),
        }
    }

    async fn count_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        self.gathered_are_sent().await;
        let sent = self.network.world.now();
        if self.network.sabotage == Some(Sabotage::SendsTwice) {
            // Nobody waits for the answer of the first one.
            self.network.send(self.node, NetworkRequest::Bursts(call.clone()), self.deadline);
        }
        let NetworkReply::Bursts(mut answers) = self.send(NetworkRequest::Bursts(call.clone())).await? else {
            return Err(LinkError::Garbled("another reply to counts of bursts".into()));
        };
        self.network.bursts.heard(self.node, (sent, self.network.world.now()), call, &answers);
        if self.network.sabotage == Some(Sabotage::IgnoresBlocks) {
            answers.fill(BurstAnswer::default());
        }
        Ok(answers)
    }

    async fn list_penalties(&self, call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        match self.send(NetworkRequest::Penalties(call.clone())).await? {
            NetworkReply::Penalties(answer) => Ok(answer),
            _ => Err(LinkError::Garbled("another reply about the list of penalties".into())),
        }
    }

    fn send_together(&self, poll: &mut dyn FnMut()) {
        match self.has_slots {
            true => poll(),
            false => self.gather(poll),
        }
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}
