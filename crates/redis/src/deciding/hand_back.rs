//! Returning tokens: refunds, and charges that are handed back.

use smallvec::SmallVec;
use tidegate::{Charge, Cost, Intent, Nanos, Sleep, Verdict};

use crate::calls::Link;
use crate::deciding::leases::{HandBackRule, with_lease};
use crate::deciding::recent_keys::KeyHash;
use crate::deciding::strict::StrictAnswer;
use crate::failures::StoreError;
use crate::store::RedisStore;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    pub(crate) async fn refund(&self, charges: &[Charge<'_>], given: Nanos) -> Result<Verdict, StoreError> {
        let hashes = self.hashes(charges);
        let answer = self.call_server(Intent::Refund, charges, &[], Nanos::ZERO, given).await;
        hashes.iter().for_each(|&hash| self.denials.given_back(hash));
        let mut verdict = answer?.verdict;
        if let Some(leases) = &self.leases {
            let now = self.local_now(given);
            for ((decision, charge), &hash) in verdict.decisions.iter_mut().zip(charges).zip(&hashes) {
                *decision = with_lease(*decision, leases.live_tokens(hash, charge, now));
            }
        }
        Ok(verdict)
    }

    /// Makes buckets unused, and forgets what this node remembers about them, leases included: their tokens were taken
    /// before.
    pub(crate) async fn reset(&self, charges: &[Charge<'_>], given: Nanos) -> Result<Verdict, StoreError> {
        self.drop_remembered(Intent::Reset, charges);
        let answer = self.call_server(Intent::Reset, charges, &[], Nanos::ZERO, given).await;
        // Requests may have been denied meanwhile.
        self.drop_remembered(Intent::Reset, charges);
        Ok(answer?.verdict)
    }

    /// Forgets the denials of some keys, and after a reset their leases.
    pub(crate) fn drop_remembered(&self, after: Intent, charges: &[Charge<'_>]) {
        for hash in self.hashes(charges) {
            self.denials.given_back(hash);
            if let Some(leases) = self.leases.as_ref().filter(|_| after == Intent::Reset) {
                leases.forget(hash);
            }
        }
    }

    pub(crate) async fn hand_back_now(
        &self,
        charges: &[Charge<'_>],
        charged_at: Nanos,
    ) -> Result<Verdict, StoreError> {
        let (now, hashes) = (self.local_now(charged_at), self.hashes(charges));
        let rules = self.hand_back_rules(charges, &hashes, charged_at, now);
        let zero_cost =
            charges.iter().map(|charge| Charge { cost: Cost::ZERO, delay: Nanos::ZERO, ..*charge });
        let decisions =
            zero_cost.zip(&hashes).map(|(charge, &hash)| self.standing(&charge, hash, now)).collect();
        let mut verdict = Verdict { allowed: true, decisions, at: charged_at };
        for (at, of) in by_instant(&rules, charged_at) {
            let group: SmallVec<[Charge<'_>; 8]> = of.iter().map(|&i| charges[i]).collect();
            let answer = self.send_hand_back(&group, at, charged_at).await?.verdict;
            verdict.at = answer.at;
            of.iter().zip(answer.decisions).for_each(|(&i, decision)| verdict.decisions[i] = decision);
        }
        Ok(verdict)
    }

    /// Hands charges back to the server, and forgets the denials that were remembered meanwhile.
    pub(crate) async fn send_hand_back(
        &self,
        charges: &[Charge<'_>],
        at: Nanos,
        given: Nanos,
    ) -> Result<StrictAnswer, StoreError> {
        let answer = self.call_server(Intent::HandBack, charges, &[], at, given).await;
        self.hashes(charges).iter().for_each(|&hash| self.denials.given_back(hash));
        answer
    }

    /// Returns charges to leases where the lease rules allow it, and decides what happens to each of the others.
    fn hand_back_rules(
        &self,
        charges: &[Charge<'_>],
        hashes: &[KeyHash],
        charged_at: Nanos,
        now: Nanos,
    ) -> SmallVec<[HandBackRule; 8]> {
        hashes.iter().for_each(|&hash| self.denials.given_back(hash));
        let back = |(charge, &hash): (&Charge<'_>, &KeyHash)| match &self.leases {
            Some(leases) => leases.hand_back(hash, charge, charged_at, now),
            None => HandBackRule::Earlier(Nanos::ZERO),
        };
        charges.iter().zip(hashes).map(back).collect()
    }

    /// Hands charges back in the background, for callers that cannot wait.
    pub(crate) fn hand_back_later(&self, charges: &[Charge<'_>], charged_at: Nanos) {
        let rules =
            self.hand_back_rules(charges, &self.hashes(charges), charged_at, self.local_now(charged_at));
        for (at, of) in by_instant(&rules, charged_at) {
            let group: SmallVec<[Charge<'_>; 8]> = of.iter().map(|&i| charges[i]).collect();
            match self.is_beside() {
                true => self.backlog.hand_back_beside(&self.side, &group, at),
                false => _ = self.backlog.hand_back(&group, at),
            }
        }
    }
}

/// The charges that go back to the server, grouped by the instant of the charge that the server is given.
fn by_instant(rules: &[HandBackRule], charged_at: Nanos) -> SmallVec<[(Nanos, SmallVec<[usize; 8]>); 2]> {
    let mut groups: SmallVec<[(Nanos, SmallVec<[usize; 8]>); 2]> = SmallVec::new();
    for (i, back) in rules.iter().enumerate() {
        let HandBackRule::Earlier(by) = back else { continue };
        let at = charged_at.saturating_sub(*by);
        match groups.iter_mut().find(|(group, _)| *group == at) {
            Some((_, of)) => of.push(i),
            None => groups.push((at, SmallVec::from_slice(&[i]))),
        }
    }
    groups
}
