//! What nodes tell each other of themselves through the server. It is no part of a decision: no breaker guards it, and
//! nothing waits for it but whoever asks.

use std::collections::HashMap;

use redis::Value;
use tidegate::Sleep;
use tidegate_core::Nanos;

use crate::calls::fleet::{FleetCall, KeptFleetSteps, STEPS_PAGE, ToldByNode, decode, decode_counts};
use crate::client::RedisClient;
use crate::failures::StoreError;
use crate::registry::keys;
use crate::store::RedisStore;

impl<C: Sleep> RedisStore<RedisClient, C> {
    /// Tells the other nodes of this one, instead of what it told before.
    ///
    /// # Errors
    /// When the server does not answer; then it was told or not.
    pub async fn tell_fleet(&self, told: &ToldByNode, before: Option<&ToldByNode>) -> Result<(), StoreError> {
        self.ask_fleet(FleetCall::Tell { told, before }).await.map(drop)
    }

    /// What each node has told last, and how long ago, if that is within a time; in the order of their ids.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn fleet(&self, within: Nanos) -> Result<Vec<(ToldByNode, Nanos)>, StoreError> {
        let mut newest: HashMap<String, (ToldByNode, Nanos)> = HashMap::new();
        // What was told last comes last. A node can be there twice if it has not heard the answer of the server.
        for (told, millis) in self.told_by_fleet(FleetCall::Nodes { within }).await? {
            newest.insert(told.id.clone(), (told, Nanos::from_millis(millis)));
        }
        let mut nodes: Vec<_> = newest.into_values().collect();
        nodes.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
        Ok(nodes)
    }

    /// Tells the other nodes of a step of the last hour, and forgets those that are not kept any more, by the server's clock.
    ///
    /// # Errors
    /// When the server does not answer; then it was told or not. To tell the same again changes nothing.
    pub async fn keep_step(
        &self,
        step: u64,
        told: &ToldByNode,
        kept: KeptFleetSteps,
    ) -> Result<(), StoreError> {
        self.ask_fleet(FleetCall::Keep { step, told, kept }).await.map(drop)
    }

    /// Of how many nodes there is something for each step that is kept; steps without any are left out.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn step_counts(&self, kept: KeptFleetSteps) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(decode_counts(&self.ask_fleet(FleetCall::Counts { kept }).await?)?)
    }

    /// What nodes have told of the steps from `first` to `last`, each with the number of the step.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn steps(&self, first: u64, last: u64) -> Result<Vec<(ToldByNode, u64)>, StoreError> {
        let mut all = Vec::new();
        loop {
            let page = self.told_by_fleet(FleetCall::Steps { first, last, skip: all.len() }).await?;
            let is_last = page.len() < STEPS_PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn told_by_fleet(&self, call: FleetCall<'_>) -> Result<Vec<(ToldByNode, u64)>, StoreError> {
        Ok(decode(&self.ask_fleet(call).await?)?)
    }

    async fn ask_fleet(&self, call: FleetCall<'_>) -> Result<Value, StoreError> {
        Ok(self.link.call_fleet(&keys::fleet(&self.options.prefix), call).await?)
    }
}
