//! The simulated link of one node to the server.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, ScriptCall};

use super::{Network, NetworkReply, NetworkRequest};
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
        match self.send(NetworkRequest::Bursts(call.clone())).await? {
            NetworkReply::Bursts(answers) => Ok(answers),
            _ => Err(LinkError::Garbled("another reply to counts of bursts".into())),
        }
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}

/// A short form of a request, for the event log.
pub(super) struct CallSummary<'a>(pub(super) &'a NetworkRequest);

impl std::fmt::Display for CallSummary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            NetworkRequest::Heartbeat(Heartbeat { alive, .. }) => write!(f, "a heartbeat, alive: {alive}"),
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
