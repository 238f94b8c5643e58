//! The link of one node to the server.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_redis::{Answer, Call, Link, LinkError};

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
    async fn call(&self, call: &Call) -> Result<Answer, LinkError> {
        match self.ask(Asked::Call(Box::new(call.clone()))).await? {
            Told::Answer(answer) => Ok(*answer),
            Told::Nodes(_) => Err(LinkError::Garbled("a count for a call".into())),
        }
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        match self.ask(Asked::Beat { node, alive, within }).await? {
            Told::Nodes(nodes) => Ok(nodes),
            Told::Answer(_) => Err(LinkError::Garbled("an answer for a beat".into())),
        }
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}

/// A question in few words, for the trace.
pub(super) struct Brief<'a>(pub(super) &'a Asked);

impl std::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Asked::Beat { alive, .. } => write!(f, "a beat, alive: {alive}"),
            Asked::Call(call) => {
                write!(f, "{:?}", call.verb)?;
                for entry in &call.entries {
                    write!(f, " {}+{}", entry.cost, entry.want)?;
                }
                Ok(())
            }
        }
    }
}
