//! What is given back: refunds, and charges that are handed back.

use smallvec::SmallVec;
use tidegate::{Charge, Cost, Intent, Nanos, Sleep, Verdict};

use crate::errors::StoreError;
use crate::leases::{HandBackRule, with_lease};
use crate::link::Link;
use crate::store::RedisStore;
use crate::strict::StrictAnswer;
use crate::table::KeyHash;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    pub(crate) async fn refund(&self, charges: &[Charge<'_>], given: Nanos) -> Result<Verdict, StoreError> {
        let hashes = self.hashes(charges);
        let asked = self.ask(Intent::Refund, charges, &[], Nanos::ZERO, given).await;
        hashes.iter().for_each(|&hash| self.denials.given_back(hash));
        let mut verdict = asked?.verdict;
        if let Some(leases) = &self.leases {
            let now = self.local_now(given);
            for ((decision, charge), &hash) in verdict.decisions.iter_mut().zip(charges).zip(&hashes) {
                *decision = with_lease(*decision, leases.held(hash, charge, now));
            }
        }
        Ok(verdict)
    }

    pub(crate) async fn take_back(
        &self,
        charges: &[Charge<'_>],
        charged_at: Nanos,
    ) -> Result<Verdict, StoreError> {
        let (now, hashes) = (self.local_now(charged_at), self.hashes(charges));
        let returns = self.returns(charges, &hashes, charged_at, now);
        let asking = charges.iter().map(|charge| Charge { cost: Cost::ZERO, delay: Nanos::ZERO, ..*charge });
        let decisions =
            asking.zip(&hashes).map(|(charge, &hash)| self.standing(&charge, hash, now)).collect();
        let mut verdict = Verdict { allowed: true, decisions, at: charged_at };
        for (at, of) in by_age(&returns, charged_at) {
            let some: SmallVec<[Charge<'_>; 8]> = of.iter().map(|&i| charges[i]).collect();
            let asked = self.give_back(&some, at, charged_at).await?.verdict;
            verdict.at = asked.at;
            of.iter().zip(asked.decisions).for_each(|(&i, decision)| verdict.decisions[i] = decision);
        }
        Ok(verdict)
    }

    /// Hands charges back to the server. What was denied while that was under way is denied no more.
    pub(crate) async fn give_back(
        &self,
        charges: &[Charge<'_>],
        at: Nanos,
        given: Nanos,
    ) -> Result<StrictAnswer, StoreError> {
        let asked = self.ask(Intent::HandBack, charges, &[], at, given).await;
        self.hashes(charges).iter().for_each(|&hash| self.denials.given_back(hash));
        asked
    }

    /// Puts charges that are handed back into leases where that is right, and says what to do with each.
    fn returns(
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

    /// Handing back for those who cannot wait.
    pub(crate) fn take_back_later(&self, charges: &[Charge<'_>], charged_at: Nanos) {
        let returns = self.returns(charges, &self.hashes(charges), charged_at, self.local_now(charged_at));
        for (at, of) in by_age(&returns, charged_at) {
            let some: SmallVec<[Charge<'_>; 8]> = of.iter().map(|&i| charges[i]).collect();
            self.chores.hand_back(&some, at);
        }
    }
}

/// Which charges go back to the server, by the instants they are said to be made at.
fn by_age(returns: &[HandBackRule], charged_at: Nanos) -> SmallVec<[(Nanos, SmallVec<[usize; 8]>); 2]> {
    let mut groups: SmallVec<[(Nanos, SmallVec<[usize; 8]>); 2]> = SmallVec::new();
    for (i, back) in returns.iter().enumerate() {
        let HandBackRule::Earlier(by) = back else { continue };
        let at = charged_at.saturating_sub(*by);
        match groups.iter_mut().find(|(group, _)| *group == at) {
            Some((_, of)) => of.push(i),
            None => groups.push((at, SmallVec::from_slice(&[i]))),
        }
    }
    groups
}
