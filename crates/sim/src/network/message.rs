//! The messages between the nodes and the server.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidegate_core::Nanos;
use tidegate_redis::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, LinkError, PenaltyListAnswer, PenaltyListCall,
    PenaltyListOperation, ScriptCall,
};

use crate::world::TaskId;

/// A request to the server.
#[derive(Clone, Debug)]
pub(super) enum NetworkRequest {
    ScriptCall(Box<ScriptCall>),
    /// Several, as one call.
    Joined(Vec<ScriptCall>),
    Heartbeat(Heartbeat),
    Bursts(BurstCall),
    Penalties(PenaltyListCall),
}

/// A reply of the server.
#[derive(Clone, Debug)]
pub(super) enum NetworkReply {
    CallAnswer(Box<CallAnswer>),
    Joined(Vec<Result<CallAnswer, LinkError>>),
    Nodes(u32),
    Bursts(Vec<BurstAnswer>),
    Penalties(PenaltyListAnswer),
}

/// Where a node waits for a reply. The first one counts.
#[derive(Debug, Default)]
pub(super) struct SimReplySlot {
    pub(super) reply: Option<Result<NetworkReply, LinkError>>,
    pub(super) is_over: bool,
    pub(super) waker: Option<Waker>,
    /// Where several calls wait that were sent as one; none wait here then.
    pub(super) joined: Vec<Arc<Mutex<SimReplySlot>>>,
}

/// A message under way.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) task: Option<TaskId>,
    pub(super) sent: Nanos,
    /// The counts of the server and of the connection when it was sent.
    pub(super) downs: u64,
    pub(super) moves: u64,
    pub(super) request: Arc<NetworkRequest>,
    pub(super) slot: Arc<Mutex<SimReplySlot>>,
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
            NetworkRequest::ScriptCall(call) => write_call(f, call),
            NetworkRequest::Joined(calls) => {
                for (number, call) in calls.iter().enumerate() {
                    write!(f, "{}", if number == 0 { "" } else { " with " })?;
                    write_call(f, call)?;
                }
                Ok(())
            }
        }
    }
}

fn write_call(f: &mut std::fmt::Formatter<'_>, call: &ScriptCall) -> std::fmt::Result {
    write!(f, "{:?}", call.verb)?;
    for entry in &call.entries {
        write!(f, " {}+{}", entry.cost, entry.want)?;
    }
    Ok(())
}
