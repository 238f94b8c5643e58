//! Burst detectors on the model server, written from the rules: every window keeps its own count.

use std::collections::BTreeMap;

use tidegate::BurstAction;
use tidegate_core::Nanos;
use tidegate_redis::{BucketKey, BurstAnswer, BurstCall, BurstCallEntry};

use super::{Model, OutOfMemory};

/// The states of all detectors and clients.
pub(super) type StoredBurstMap = BTreeMap<BucketKey, StoredBursts>;

/// The state of a detector for one client.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredBursts {
    /// The length of a window.
    length: u64,
    /// By the number of the window: how many requests, and whether they have crossed the threshold.
    windows: BTreeMap<u64, (u64, bool)>,
    penalty: Option<Penalty>,
    /// When the state is forgotten.
    until: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Penalty {
    kind: BurstAction,
    ends: Nanos,
    /// The window that was warned, unless windows have another length since.
    warned_in: Option<u64>,
}

impl Model {
    /// Counts requests in burst detectors at the server's `now`, or at the instant that the call gives.
    ///
    /// # Errors
    /// When it would have to write and there is no memory left.
    pub fn count_bursts(&mut self, call: &BurstCall, now: Nanos) -> Result<Vec<BurstAnswer>, OutOfMemory> {
        let now = call.at.unwrap_or(now);
        let now = Nanos::new(now.get() / 1_000 * 1_000);
        let writes = call.entries.iter().any(|entry| entry.lifts || !entry.counts.is_empty());
        if self.out_of_memory && writes {
            return Err(OutOfMemory);
        }
        self.bursts.retain(|_, state| state.until > now);
        Ok(call.entries.iter().map(|entry| self.count_burst(entry, now)).collect())
    }

    /// Loses the states of all burst detectors.
    pub fn forget_bursts(&mut self) {
        self.bursts.clear();
    }

    fn count_burst(&mut self, entry: &BurstCallEntry, now: Nanos) -> BurstAnswer {
        let mut state = self.bursts.get(&entry.key).cloned().unwrap_or_default();
        let length = (entry.window.get() / 1_000).max(1) * 1_000;
        let newest = state.windows.keys().next_back().copied();
        let counts_matter = newest.is_some_and(|newest| (newest + 2) * state.length > now.get());
        if !counts_matter {
            state.windows.clear();
        }
        if !counts_matter && state.penalty.is_none_or(|penalty| penalty.ends <= now) {
            state = StoredBursts { length, ..StoredBursts::default() };
        }
        if state.length != length && !entry.lifts {
            (state.length, state.windows) = (length, BTreeMap::new());
            state.penalty.iter_mut().for_each(|penalty| penalty.warned_in = None);
        }
        state.penalty = state.penalty.filter(|penalty| penalty.ends > now && !entry.lifts);
        let mut actions = Vec::new();
        for &(age, requests) in &entry.counts {
            let age = Nanos::new(age.get() / 1_000 * 1_000);
            actions.extend(state.count(entry, now.saturating_sub(age), requests, now));
        }
        let penalty = state.penalty.map(|penalty| (penalty.kind, penalty.ends.saturating_sub(now)));
        if !entry.counts.is_empty() || (entry.lifts && self.bursts.contains_key(&entry.key)) {
            let newest = state.windows.keys().next_back().map_or(0, |newest| (newest + 2) * state.length);
            let forgotten = Nanos::new(newest).max(state.penalty.map_or(Nanos::ZERO, |penalty| penalty.ends));
            let left = Nanos::from_millis(forgotten.saturating_sub(now).as_millis_ceil() + 1);
            state.until = now.saturating_add(left);
            self.bursts.insert(entry.key.clone(), state);
        }
        let warned_before = actions == [BurstAction::Warned, BurstAction::Blocked];
        BurstAnswer { action: actions.last().copied(), warned_before, penalty }
    }
}

impl StoredBursts {
    /// Counts requests that were made at `at`, and escalates as of `now` if they cross the threshold of their window.
    fn count(&mut self, entry: &BurstCallEntry, at: Nanos, requests: u32, now: Nanos) -> Option<BurstAction> {
        let window = at.get() / self.length;
        let newest = self.windows.keys().next_back().copied().unwrap_or(window);
        if window + 1 < newest {
            return None;
        }
        let (count, crossed) = self.windows.entry(window).or_default();
        *count += u64::from(requests);
        if *crossed || *count <= u64::from(entry.threshold) {
            return None;
        }
        *crossed = true;
        let (kind, span, warned_in) = match self.penalty {
            None => (BurstAction::Warned, entry.penalty, Some(window)),
            Some(Penalty { kind: BurstAction::Warned, warned_in, .. })
                if warned_in.is_none_or(|warned_in| window > warned_in) =>
            {
                (BurstAction::Blocked, entry.penalty.saturating_add(entry.penalty), warned_in)
            }
            Some(_) => return None,
        };
        self.penalty = Some(Penalty { kind, ends: now.saturating_add(span), warned_in });
        Some(kind)
    }
}
