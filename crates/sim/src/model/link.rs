//! The model, asked at once: no network, no faults.

use std::sync::Mutex;

use tidegate_core::Nanos;
use tidegate_redis::{CallAnswer, Link, LinkError, ScriptCall};

use super::Model;
use crate::world::lock;

/// A link that is always there and takes no time. Calls have to name their instants.
#[derive(Debug, Default)]
pub struct ModelLink {
    model: Mutex<Model>,
    has_slots: bool,
}

impl ModelLink {
    /// A link to a model that keeps nothing yet, spread over slots or not.
    pub fn new(has_slots: bool) -> ModelLink {
        ModelLink { model: Mutex::default(), has_slots }
    }
}

impl Link for ModelLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let answer = lock(&self.model).call(call, crate::START);
        answer.map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        let nodes = lock(&self.model).beat(node, alive, within, crate::START);
        nodes.map_err(|error| LinkError::Refused(error.to_string()))
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}
