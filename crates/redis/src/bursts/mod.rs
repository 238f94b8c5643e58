//! Burst detectors that nodes share.
//!
//! Counts and penalties are on the server, which escalates by its own clock. A decision that waits for the server sends
//! its counts at the same time, and knows the answer. Other counts are collected here (`memory`) and sent by
//! maintenance, with their age, so that they count in the window in which they were made. Penalties are listed on the
//! server (`listing`), so that every node can show them. An action that no request waits for is reported by whoever takes
//! the late ones (`late`).

mod late;
mod listing;
pub(crate) mod memory;

pub(crate) use listing::WaitingPenalties;

use futures_util::future::join_all;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tidegate::{
    BurstCount, BurstCounts, BurstDetector, BurstSubject, BurstVerdict, KnownBurst, LateBurst, Later, Nanos,
    SharedBursts, SharedPenalty, SharedPenaltyPage, Sleep,
};

use crate::calls::{BurstAnswer, BurstCall, BurstCallEntry, Link, LinkError};
use crate::failures::StoreError;
use crate::failures::breaker_set::RecordingLink;
use crate::registry::{BucketKey, keys};
use crate::store::{RedisStore, StoreMode};
use late::LateBursts;
use memory::{BurstCallTimes, WaitingCounts};

/// The most keys in one call.
const KEYS_AT_ONCE: usize = 64;

/// Counts that are being sent.
type Sending = (BurstCount, WaitingCounts);

/// What a call does beside sending the counts that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BurstOperation {
    /// Nothing.
    Send,
    /// Counts one request in each detector.
    CountOne,
    /// Ends the penalty.
    Lift,
}

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// Sends the counts that wait, if there are any, and the penalties to list.
    pub(crate) async fn send_burst_counts(&self) {
        self.send_own_counts().await;
        // In calls of their own, with which those of the policy in force cannot fail.
        for beside in self.besides() {
            beside.send_own_counts().await;
        }
        // Those that could not be sent wait for the next time.
        let _: Result<(), StoreError> = self.send_penalties().await;
    }

    async fn send_own_counts(&self) {
        let now = self.clock.now();
        for chunk in self.side.bursts.take_all().chunks(KEYS_AT_ONCE) {
            self.count_on_server(chunk, BurstOperation::Send, now).await;
        }
    }

    /// Counts on the server: in one call, or in one for each key if they are in slots. Returns whether all were
    /// counted. What certainly was not counted is put back; what may have been counted is never sent twice.
    async fn count_on_server(&self, counts: &[Sending], operation: BurstOperation, now: Nanos) -> bool {
        let calls = if self.link.has_slots() { counts.chunks(1) } else { counts.chunks(KEYS_AT_ONCE) };
        let sent = join_all(calls.map(|calls| async move {
            let sent = self.send_one_burst_call(calls, operation, now).await;
            if matches!(
                sent,
                Err(StoreError::BreakerOpen | StoreError::Link(LinkError::Down(_) | LinkError::Refused(_)))
            ) {
                calls
                    .iter()
                    .for_each(|(count, waiting)| self.side.bursts.put_back(count, waiting.clone(), now));
            }
            sent.is_ok()
        }));
        sent.await.into_iter().all(|is_sent| is_sent)
    }

    async fn send_one_burst_call(
        &self,
        counts: &[Sending],
        operation: BurstOperation,
        now: Nanos,
    ) -> Result<(), StoreError> {
        let one = (operation == BurstOperation::CountOne).then_some((Nanos::ZERO, 1));
        let entry = |(count, waiting): &Sending| BurstCallEntry {
            key: keys::burst(&self.options.prefix, count.key),
            window: count.detector.window,
            threshold: count.detector.threshold,
            penalty: count.detector.penalty,
            lifts: operation == BurstOperation::Lift,
            counts: waiting
                .counts
                .iter()
                .map(|&(at, requests)| (now.saturating_sub(at), requests))
                .chain(one)
                .collect(),
        };
        let call = BurstCall { entries: counts.iter().map(entry).collect(), at: self.given(now) };
        let answers = self.call_bursts(&call).await?;
        let answered = self.local_now(now);
        let has_asked = operation == BurstOperation::CountOne;
        for ((count, waiting), answer) in counts.iter().zip(&answers) {
            match operation {
                BurstOperation::Lift => self.side.bursts.lift(count, answered),
                BurstOperation::Send | BurstOperation::CountOne => {
                    let times = BurstCallTimes { sent: now, answered, has_asked };
                    self.side.bursts.record(count, waiting.subject.as_deref(), answer, times);
                }
            }
        }
        Ok(())
    }

    /// Calls the server, unless it fails at the moment.
    async fn call_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, StoreError> {
        let link = self.link_for(call.entries.iter().map(|entry| entry.key.clone()))?;
        link.count_bursts(call).await.map_err(|error| self.record_error(error.into()))
    }

    /// A link for a call about these keys, unless their server fails at the moment.
    fn link_for(
        &self,
        keys: impl Iterator<Item = BucketKey> + Clone,
    ) -> Result<RecordingLink<'_, L, C>, StoreError> {
        if !self.may_call(keys, self.clock.now()) {
            return Err(StoreError::BreakerOpen);
        }
        Ok(self.recording_link())
    }
}

impl<L: Link, C: Sleep> SharedBursts for RedisStore<L, C> {
    fn key(&self, detector: &BurstDetector, key: &[u8]) -> u128 {
        let hash = Sha256::new().chain_update(detector.id.to_le_bytes()).chain_update(key).finalize();
        u128::from_be_bytes(hash[..16].try_into().expect("a hash has 32 bytes"))
    }

    fn known(&self, count: &BurstCount, takes_action: bool, now: Nanos) -> KnownBurst {
        let local = self.local_now(now);
        let known = self.side.bursts.known(count.key, takes_action, local);
        // The caller's clock may differ from the store's: what they share is how long the block still lasts.
        let on_callers_clock = |until: Nanos| now.saturating_add(until.saturating_sub(local));
        let verdict =
            BurstVerdict { blocked_until: known.blocked_until.map(on_callers_clock), action: known.action };
        KnownBurst { verdict, is_stale: known.is_stale, is_late: known.is_late }
    }

    fn add(&self, counts: &[BurstCount], describe: &dyn Fn(usize) -> BurstSubject, now: Nanos) -> bool {
        let now = self.local_now(now);
        // While the server fails, counts would only be late: the node's own detectors decide.
        if !self.live.breakers.health(now).0 || !self.side.breakers.health(now).0 {
            return false;
        }
        // All are added, even after one for which there is no room.
        let add = |(index, count)| self.side.bursts.add(count, || describe(index), now);
        let added = counts.iter().enumerate().filter(|&one| add(one)).count();
        added == counts.len()
    }

    fn has_late(&self) -> bool {
        self.side.bursts.late().is_some_and(LateBursts::has_some)
    }

    fn take_late(&self, most: usize, now: Nanos) -> Vec<LateBurst> {
        let local = self.local_now(now);
        let mut late = self.side.bursts.late().map_or_else(Vec::new, |late| late.take(most));
        // On the caller's clock: what the two clocks share is how long ago it was.
        late.iter_mut().for_each(|late| late.at = now.saturating_sub(local.saturating_sub(late.at)));
        late
    }

    fn ask(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        Box::pin(async move {
            let now = self.local_now(now);
            let sending: SmallVec<[Sending; 2]> =
                counts.iter().map(|count| (*count, self.side.bursts.take(count.key))).collect();
            self.count_on_server(&sending, BurstOperation::CountOne, now).await
        })
    }

    fn look(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        Box::pin(async move {
            let nothing = |count: &BurstCount| (*count, WaitingCounts::default());
            let looked_at: SmallVec<[Sending; 2]> = counts.iter().map(nothing).collect();
            self.count_on_server(&looked_at, BurstOperation::Send, self.local_now(now)).await
        })
    }

    fn asks_always(&self) -> bool {
        self.options.mode == StoreMode::Strict
    }

    fn lift(&self, key: u128) -> Later<'_, bool> {
        Box::pin(async move {
            let detector = BurstDetector { id: 0, window: Nanos::ZERO, threshold: 0, penalty: Nanos::ZERO };
            let lifted = BurstCount { detector, key };
            let lifted = [(lifted, WaitingCounts::default())];
            let is_lifted = self.count_on_server(&lifted, BurstOperation::Lift, self.clock.now()).await;
            if is_lifted {
                self.remove_penalty(key).await;
            }
            is_lifted
        })
    }

    fn list(&self, penalty: SharedPenalty) {
        self.penalties.add(penalty);
    }

    fn listed(&self, after: Option<u128>, most: usize) -> Later<'_, Option<SharedPenaltyPage>> {
        // The error is counted.
        Box::pin(async move { self.read_penalties(after, most).await.ok() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::memory::tests::subject;
}
