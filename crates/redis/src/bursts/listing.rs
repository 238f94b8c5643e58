//! The list of penalties on the server, which every node reads and adds to.
//!
//! It is a directory: it says which keys have been warned or blocked, and how to show them. Whether a penalty is in force,
//! and until when, is read from the state of its detector, so that one that was lifted is never shown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tidegate::{BurstAction, Nanos, SHARED_PENALTIES_MAX, SharedPenalty, SharedPenaltyPage, Sleep};

use super::KEYS_AT_ONCE;
use crate::calls::{
    BurstCall, BurstCallEntry, Link, PenaltyListAnswer, PenaltyListCall, PenaltyListEntry,
    PenaltyListOperation,
};
use crate::failures::StoreError;
use crate::registry::keys;
use crate::store::RedisStore;

/// The penalties that this node has still to list, by key. Bounded as the list is.
#[derive(Debug, Default)]
pub(crate) struct WaitingPenalties {
    waiting: Mutex<BTreeMap<u128, SharedPenalty>>,
    without_room: AtomicU64,
}

impl WaitingPenalties {
    pub(crate) fn add(&self, penalty: SharedPenalty) {
        let mut waiting = self.waiting();
        if waiting.len() < SHARED_PENALTIES_MAX || waiting.contains_key(&penalty.key) {
            waiting.insert(penalty.key, penalty);
        } else {
            self.without_room.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes some that are about to be sent.
    fn take(&self, most: usize) -> Vec<SharedPenalty> {
        let mut waiting = self.waiting();
        let some: Vec<u128> = waiting.keys().take(most).copied().collect();
        some.iter().filter_map(|key| waiting.remove(key)).collect()
    }

    /// Puts back what may not have been sent, unless there is something newer. To list one twice does no harm.
    fn put_back(&self, penalties: Vec<SharedPenalty>) {
        let mut waiting = self.waiting();
        for penalty in penalties {
            if waiting.len() < SHARED_PENALTIES_MAX {
                waiting.entry(penalty.key).or_insert(penalty);
            } else {
                self.without_room.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u128, SharedPenalty>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// How many penalties of this node are or were in force without being in the list that nodes share, because it was
    /// full.
    pub fn unlisted_penalties(&self) -> u64 {
        self.penalties.without_room.load(Ordering::Relaxed)
    }

    /// Lists the penalties that wait for it.
    pub(super) async fn send_penalties(&self) -> Result<(), StoreError> {
        loop {
            let penalties = self.penalties.take(KEYS_AT_ONCE);
            if penalties.is_empty() {
                return Ok(());
            }
            let entry = |penalty: &SharedPenalty| PenaltyListEntry {
                id: penalty.key,
                lasts: penalty.left,
                text: to_text(&penalty.detector, &penalty.shown),
            };
            let entries = penalties.iter().map(entry).collect();
            let operation = PenaltyListOperation::Add { most: SHARED_PENALTIES_MAX, entries };
            match self.call_list(operation).await {
                Ok(PenaltyListAnswer::Changed(without_room)) => {
                    self.penalties.without_room.fetch_add(without_room, Ordering::Relaxed);
                }
                Ok(PenaltyListAnswer::Page(_)) => {}
                Err(error) => {
                    self.penalties.put_back(penalties);
                    return Err(error);
                }
            }
        }
    }

    /// Removes a penalty that was lifted from the list. If this fails, the penalty is not shown either, since it is not
    /// in force.
    pub(super) async fn remove_penalty(&self, key: u128) {
        let _: Result<PenaltyListAnswer, StoreError> =
            self.call_list(PenaltyListOperation::Remove(key)).await;
    }

    /// A part of the list.
    pub(super) async fn read_penalties(
        &self,
        after: Option<u128>,
        most: usize,
    ) -> Result<SharedPenaltyPage, StoreError> {
        self.send_penalties().await?;
        // One more than is shown tells whether there is a next page.
        let operation = PenaltyListOperation::Page { after, most: most.saturating_add(1) };
        let PenaltyListAnswer::Page(mut listed) = self.call_list(operation).await? else {
            return Ok(SharedPenaltyPage::default());
        };
        let is_last = listed.len() <= most;
        listed.truncate(most);
        let next = listed.last().filter(|_| !is_last).map(|&(key, _)| key);
        let mut penalties = Vec::new();
        for chunk in listed.chunks(KEYS_AT_ONCE) {
            let in_force = self.penalties_in_force(chunk).await?;
            for ((key, text), in_force) in chunk.iter().zip(in_force) {
                if let (Some((kind, left)), Some((detector, shown))) = (in_force, from_text(text)) {
                    penalties.push(SharedPenalty { key: *key, detector, shown, kind, left });
                }
            }
        }
        Ok(SharedPenaltyPage { penalties, next })
    }

    /// The penalties in force of these keys.
    async fn penalties_in_force(
        &self,
        listed: &[(u128, Vec<u8>)],
    ) -> Result<Vec<Option<(BurstAction, Nanos)>>, StoreError> {
        let entry = |(key, _): &(u128, Vec<u8>)| BurstCallEntry {
            key: keys::burst(&self.options.prefix, *key),
            window: Nanos::ZERO,
            threshold: 0,
            penalty: Nanos::ZERO,
            lifts: false,
            counts: smallvec::SmallVec::new(),
        };
        let at = self.given(self.clock.now());
        let calls = if self.link.has_slots() { listed.chunks(1) } else { listed.chunks(KEYS_AT_ONCE) };
        let answers = join_all(calls.map(|calls| async move {
            self.call_bursts(&BurstCall { entries: calls.iter().map(entry).collect(), at }).await
        }));
        let mut in_force = Vec::with_capacity(listed.len());
        for answers in answers.await {
            in_force.extend(answers?.into_iter().map(|answer| answer.penalty));
        }
        Ok(in_force)
    }

    async fn call_list(&self, operation: PenaltyListOperation) -> Result<PenaltyListAnswer, StoreError> {
        let now = self.clock.now();
        if !self.live.breakers.health(now).0 {
            return Err(StoreError::BreakerOpen);
        }
        let call =
            PenaltyListCall { key: keys::penalties(&self.options.prefix), operation, at: self.given(now) };
        // No decision needs the list, so a failure opens no breaker: the user of the server may lack the permission.
        let answer = self.link.list_penalties(&call).await;
        answer.map_err(|error| self.record_error(error.into()))
    }
}

/// A zero, the length of the detector's name, the name, then what is shown of the client's key.
fn to_text(detector: &str, shown: &str) -> Vec<u8> {
    let length = u32::try_from(detector.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes()[..], detector.as_bytes(), shown.as_bytes()].concat()
}

/// Reads such a text; `None` if it is none.
fn from_text(text: &[u8]) -> Option<(Box<str>, Box<str>)> {
    let (length, rest) = text.strip_prefix(&[0])?.split_first_chunk()?;
    let (detector, shown) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((str::from_utf8(detector).ok()?.into(), str::from_utf8(shown).ok()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for (detector, shown) in [("b", "ann, sk_l…#0a"), ("", ""), ("a\nb", "x")] {
            let text = to_text(detector, shown);
            assert_eq!(from_text(&text), Some((detector.into(), shown.into())));
        }
        for wrong in [&b""[..], b"\0abc", b"\0\0\0\0\x09short", b"\0\0\0\0\x01\xff", b"\x01\0\0\0\0"] {
            assert_eq!(from_text(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_newer_stays() {
        let penalty = |key: u128, kind| SharedPenalty {
            key,
            detector: "b".into(),
            shown: "x".into(),
            kind,
            left: Nanos::SECOND,
        };
        let waiting = WaitingPenalties::default();
        (0..SHARED_PENALTIES_MAX as u128).for_each(|key| waiting.add(penalty(key, BurstAction::Warned)));
        waiting.add(penalty(u128::MAX, BurstAction::Warned));
        assert_eq!(waiting.without_room.load(Ordering::Relaxed), 1);
        let taken = waiting.take(2);
        assert_eq!(taken.len(), 2);
        waiting.add(penalty(0, BurstAction::Blocked));
        waiting.put_back(taken);
        assert_eq!(waiting.take(1), [penalty(0, BurstAction::Blocked)]);
    }
}
