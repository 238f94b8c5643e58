//! The simulated link of one node to the server.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    PenaltyListOperation, ScriptCall,
};

use super::{Network, NetworkReply, NetworkRequest};
use crate::scenario::bursts::Sabotage;
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
        match self.send(NetworkRequest::ScriptCall(Box::new(call.clone()))).await? {
            NetworkReply::CallAnswer(answer) => Ok(*answer),
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

/// A call with every count twice.
pub(super) fn doubled(call: &BurstCall) -> BurstCall {
    let mut call = call.clone();
    let counts = call.entries.iter_mut().flat_map(|entry| entry.counts.iter_mut());
    counts.for_each(|(_, requests)| *requests *= 2);
    call
}

/// A short form of a request, for the event log.
pub(super) struct CallSummary<'a>(pub(super) &'a NetworkRequest);

impl std::fmt::Display for CallSummary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            NetworkRequest::Heartbeat(Heartbeat { alive, .. }) => write!(f, "a heartbeat, alive: {alive}"),
            NetworkRequest::Penalties(call) => match &call.operation {
                PenaltyListOperation::Add { entries, .. } => write!(f, "{} penalties to list", entries.len()),
                PenaltyListOperation::Remove(_) => write!(f, "a penalty to remove from the list"),
                PenaltyListOperation::Page { .. } => write!(f, "for a page of the list of penalties"),
            },
            NetworkRequest::Bursts(call) => {
                write!(f, "bursts")?;
                for entry in &call.entries {
                    let requests: u64 = entry.counts.iter().map(|&(_, requests)| u64::from(requests)).sum();
                    write!(f, " {requests}")?;
                }
                Ok(())
            }
            NetworkRequest::ScriptCall(call) => {
                write!(f, "{:?}", call.verb)?;
                for entry in &call.entries {
                    write!(f, " {}+{}", entry.cost, entry.want)?;
                }
                Ok(())
            }
        }
    }
}
