//! The tasks themselves: sending heartbeats, renewing leases, and handing them back when the node leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::{Charge, Cost, Intent, Nanos, OwnedCharge, Sleep};

use crate::calls::{Heartbeat, Link};
use crate::deciding::denials::Timing;
use crate::deciding::leases::LeaseAnswer;
use crate::deciding::strict::StrictAnswer;
use crate::failures::StoreError;
use crate::maintenance::{MaintenanceRunner, MaintenanceTask};
use crate::registry::keys;
use crate::store::{RedisStore, StoreSide};

/// The most leases that a leaving node hands back in one call.
const HAND_BACK_CHUNK: usize = 32;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// Sends what burst detectors have counted, hands unused leases back, and removes this node from the list of nodes.
    /// A lease is handed back less what its bucket has refilled since the grant.
    pub async fn leave(&self) {
        self.send_burst_counts().await;
        let leases = self.leases.as_ref().map(|leases| leases.take_all(self.clock.now()));
        for of_one_shard in self.by_shard(leases.unwrap_or_default(), |(charge, _)| charge) {
            for chunk in of_one_shard.chunks(HAND_BACK_CHUNK) {
                // Sorted by grant time. Using the earliest one for the whole chunk hands back a little less.
                let Some(&(_, granted_at)) = chunk.first() else { continue };
                let charges: Vec<Charge<'_>> = chunk.iter().map(|(charge, _)| charge.as_charge()).collect();
                if self.send_hand_back(&charges, granted_at, granted_at).await.is_err() {
                    break;
                }
            }
        }
        // The node leaves in any case; its entry expires without further heartbeats.
        let _: Result<(), StoreError> = self.announce(false).await;
    }

    /// Sends a heartbeat; `alive: false` removes this node from the list.
    pub(crate) async fn announce(&self, alive: bool) -> Result<(), StoreError> {
        let heartbeat = Heartbeat {
            key: keys::nodes(&self.options.prefix),
            node: self.options.node,
            alive,
            within: self.options.alive_within(),
        };
        let answer = self.link.heartbeat(&heartbeat).await;
        let now = self.clock.now();
        match answer {
            Ok(nodes) => {
                self.live.breakers.whole().succeeded(now);
                self.nodes.note(nodes);
                Ok(())
            }
            Err(error) => {
                self.live.breakers.whole().failed(now);
                Err(self.record_error(error.into()))
            }
        }
    }

    /// Groups items by the shard that holds their bucket, so that a shard that is down fails only its own.
    fn by_shard<T>(&self, all: Vec<T>, charge: impl Fn(&T) -> &OwnedCharge) -> Vec<Vec<T>> {
        if !self.link.has_slots() {
            return vec![all];
        }
        let mut parts: BTreeMap<usize, Vec<T>> = BTreeMap::new();
        for one in all {
            let shard = self.link.shard(&self.key(&charge(&one).as_charge()));
            parts.entry(shard).or_default().push(one);
        }
        parts.into_values().collect()
    }

    async fn renew(&self, buckets: &[OwnedCharge]) {
        let Some(leases) = &self.leases else { return };
        let sent = self.clock.now();
        let charges: Vec<Charge<'_>> =
            buckets.iter().map(|bucket| Charge { cost: Cost::ZERO, ..bucket.as_charge() }).collect();
        let hashes = self.hashes(&charges);
        let mut wants: Vec<u32> = Vec::with_capacity(charges.len());
        for (charge, &hash) in charges.iter().zip(&hashes) {
            wants.push(leases.begin(hash, charge, sent, || self.denials.promised(hash, charge)));
        }
        if wants.iter().all(|&want| want == 0) {
            return;
        }
        let answer = self.call_server(Intent::Take, &charges, &wants, Nanos::ZERO, sent).await;
        let Ok(answer) = answer else {
            hashes.iter().for_each(|&hash| leases.failed(hash, sent));
            return;
        };
        let received = self.clock.now();
        for (i, (charge, &hash)) in charges.iter().zip(&hashes).enumerate() {
            let granted = answer.leased.get(i).copied().unwrap_or(0);
            let standing = &answer.standings[i];
            let timing = Timing { sent, received, at: standing.at };
            let lease_answer = LeaseAnswer {
                timing,
                want: wants[i],
                granted,
                refused_itself: false,
                refused: false,
                standing,
            };
            leases.record_answer(hash, charge, &lease_answer);
        }
    }
}

impl<L: Link, C: Sleep> MaintenanceRunner for RedisStore<L, C> {
    async fn heartbeat(&self) {
        // The error is counted, and the next heartbeat follows soon.
        let _: Result<(), StoreError> = self.announce(true).await;
    }

    async fn run_task(&self, beside: Option<Arc<StoreSide>>, task: MaintenanceTask) {
        let beside = beside.map(|side| self.at(side));
        let store = beside.as_ref().unwrap_or(self);
        match task {
            MaintenanceTask::HandBack { charges, at } => {
                for chunk in store.by_shard(charges, |charge| charge) {
                    let charges: Vec<Charge<'_>> = chunk.iter().map(OwnedCharge::as_charge).collect();
                    // Tokens that are not handed back are lost until the bucket refills: that admits less, never more.
                    let _: Result<StrictAnswer, StoreError> = store.send_hand_back(&charges, at, at).await;
                }
            }
            MaintenanceTask::Renew(buckets) => {
                for chunk in store.by_shard(buckets, |bucket| bucket) {
                    store.renew(&chunk).await;
                }
            }
        }
    }

    async fn send_counts(&self) {
        self.send_burst_counts().await;
    }

    fn is_failing(&self) -> bool {
        self.live.breakers.whole().needs_probe()
    }
}
