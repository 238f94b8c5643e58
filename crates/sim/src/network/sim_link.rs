//! The link of one node to the server.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{CallAnswer, Link, LinkError, ScriptCall};

use super::{Asked, Network, Told};
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
    async fn ask(&self, asked: Asked) -> Result<Told, LinkError> {
        let slot = self.network.post(self.node, asked, self.deadline);
        poll_fn(|context| {
            let mut slot = lock(&slot);
            match slot.told.take() {
                Some(told) => Poll::Ready(told),
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
        match self.ask(Asked::ScriptCall(Box::new(call.clone()))).await? {
            Told::CallAnswer(answer) => Ok(*answer),
            Told::Nodes(_) => Err(LinkError::Garbled("a count for a call".into())),
        }
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        match self.ask(Asked::Beat { node, alive, within }).await? {
            Told::Nodes(nodes) => Ok(nodes),
            Told::CallAnswer(_) => Err(LinkError::Garbled("an answer for a beat".into())),
        }
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}

/// A question in few words, for the trace.
pub(super) struct CallSummary<'a>(pub(super) &'a Asked);

impl std::fmt::Display for CallSummary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Asked::Beat { alive, .. } => write!(f, "a beat, alive: {alive}"),
            Asked::ScriptCall(call) => {
                write!(f, "{:?}", call.verb)?;
                for entry in &call.entries {
                    write!(f, " {}+{}", entry.cost, entry.want)?;
                }
                Ok(())
            }
        }
    }
}
