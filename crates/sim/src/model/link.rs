//! A link that calls the model directly: no network, no faults.

use std::sync::Mutex;

use tidegate_redis::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    ScriptCall,
};

use super::Model;
use crate::world::lock;

/// A link that never fails and takes no time. Calls must give their instants.
#[derive(Debug, Default)]
pub struct ModelLink {
    model: Mutex<Model>,
    has_slots: bool,
}

impl ModelLink {
    /// A link to an empty model, with keys spread over slots or not.
    pub fn new(has_slots: bool) -> ModelLink {
        ModelLink { model: Mutex::default(), has_slots }
    }
}

impl Link for ModelLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let answer = lock(&self.model).call(call, crate::START);
        answer.map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        let nodes = lock(&self.model).heartbeat(heartbeat, crate::START);
        nodes.map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn count_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        let answers = lock(&self.model).count_bursts(call, crate::START);
        answers.map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn list_penalties(&self, call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        let answer = lock(&self.model).list_penalties(call, crate::START);
        answer.map_err(|error| LinkError::Refused(error.to_string()))
    }

    fn has_slots(&self) -> bool {
        self.has_slots
    }
}
