//! The simulated link of one node to the server.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    ScriptCall,
};

use super::message::{NetworkReply, NetworkRequest};
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
}

impl SimLink {
    async fn send(&self, request: NetworkRequest) -> Result<NetworkReply, LinkError> {
        let slot = self.network.send(self.node, request, self.deadline);
        poll_fn(|context| {
            let mut slot = lock(&slot);
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
}

impl Link for SimLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        if sabotaged::is_sent_twice(self.network.sabotage, call) {
            // Nobody waits for the answer of the first one.
            let again = NetworkRequest::ScriptCall(Box::new(call.clone()));
            self.network.send(self.node, again, self.deadline);
        }
        match self.send(NetworkRequest::ScriptCall(Box::new(call.clone()))).await? {
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

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}
