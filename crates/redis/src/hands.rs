//! What a store does beside deciding: it beats, renews leases, and gives them back when it leaves.

use std::collections::BTreeMap;

use tidegate::{Charge, Cost, Intent, Nanos, OwnedCharge, Sleep};

use crate::denials::Timing;
use crate::errors::StoreError;
use crate::leases::LeaseAnswer;
use crate::link::Link;
use crate::store::RedisStore;
use crate::strict::StrictAnswer;
use crate::tend::{MaintenanceRunner, MaintenanceTask};

/// How many leases are handed back in one call by a node that leaves.
const HANDED_BACK_AT_ONCE: usize = 32;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// Gives unused leases back by the aged rule, and tells the others that this node is gone.
    pub async fn leave(&self) {
        let leases = self.leases.as_ref().map(|leases| leases.take_all(self.clock.now()));
        for of_one_part in self.by_part(leases.unwrap_or_default(), |(charge, _)| charge) {
            for some in of_one_part.chunks(HANDED_BACK_AT_ONCE) {
                // They are sorted: the first was granted first. To say so of all gives back a little less.
                let Some(&(_, granted_at)) = some.first() else { continue };
                let charges: Vec<Charge<'_>> = some.iter().map(|(charge, _)| charge.as_charge()).collect();
                if self.give_back(&charges, granted_at, granted_at).await.is_err() {
                    break;
                }
            }
        }
        // Whoever leaves has done what it can.
        let _: Result<(), StoreError> = self.tell_others(false).await;
    }

    pub(crate) async fn tell_others(&self, alive: bool) -> Result<(), StoreError> {
        let answer = self.link.beat(self.options.node, alive, self.options.alive_within()).await;
        let now = self.clock.now();
        match answer {
            Ok(nodes) => {
                self.parts.whole().succeeded(now);
                self.nodes.note(nodes);
                Ok(())
            }
            Err(error) => {
                self.parts.whole().failed(now);
                Err(self.trouble(error.into()))
            }
        }
    }

    /// The same by the parts of the server that have them, so that one that is away takes only its own along.
    fn by_part<T>(&self, all: Vec<T>, charge: impl Fn(&T) -> &OwnedCharge) -> Vec<Vec<T>> {
        if !self.link.has_slots() {
            return vec![all];
        }
        let mut parts: BTreeMap<usize, Vec<T>> = BTreeMap::new();
        for one in all {
            let part = self.link.part(&self.key(&charge(&one).as_charge()));
            parts.entry(part).or_default().push(one);
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
        let asked = self.ask(Intent::Take, &charges, &wants, Nanos::ZERO, sent).await;
        let Ok(asked) = asked else {
            hashes.iter().for_each(|&hash| leases.failed(hash, sent));
            return;
        };
        let heard = self.clock.now();
        for (i, (charge, &hash)) in charges.iter().zip(&hashes).enumerate() {
            let granted = asked.leased.get(i).copied().unwrap_or(0);
            let standing = &asked.standings[i];
            let timing = Timing { sent, heard, at: standing.at };
            let told = LeaseAnswer {
                timing,
                want: wants[i],
                granted,
                refused_itself: false,
                refused: false,
                standing,
            };
            leases.hear(hash, charge, &told);
        }
    }
}

impl<L: Link, C: Sleep> MaintenanceRunner for RedisStore<L, C> {
    async fn beat(&self) {
        // What went wrong is counted, and the next beat is a second away.
        let _: Result<(), StoreError> = self.tell_others(true).await;
    }

    async fn act(&self, chore: MaintenanceTask) {
        match chore {
            MaintenanceTask::HandBack { charges, at } => {
                for some in self.by_part(charges, |charge| charge) {
                    let charges: Vec<Charge<'_>> = some.iter().map(OwnedCharge::as_charge).collect();
                    // What is not given back is admitted to nobody.
                    let _: Result<StrictAnswer, StoreError> = self.give_back(&charges, at, at).await;
                }
            }
            MaintenanceTask::Renew(buckets) => {
                for some in self.by_part(buckets, |bucket| bucket) {
                    self.renew(&some).await;
                }
            }
        }
    }

    fn is_failing(&self) -> bool {
        self.parts.whole().is_doubtful()
    }
}
