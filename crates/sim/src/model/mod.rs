//! A model of the server: it answers the calls of a [`Link`](tidegate_redis::Link) as the scripts do on Redis, with
//! core's arithmetic. A test compares its answers with those of a real server, call by call.

mod bucket;
mod bursts;
mod link;
mod penalties;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Meter, Nanos};
use tidegate_redis::{
    BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, FoundState, Heartbeat, ScriptCall,
};

use bucket::{BucketState, StoredValue};
use bursts::StoredBurstMap;
pub use link::ModelLink;
use penalties::ListedPenaltyMap;

/// The state of the server. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Model {
    kept: BTreeMap<BucketKey, StoredValue>,
    heartbeats: BTreeMap<u128, Nanos>,
    bursts: StoredBurstMap,
    penalties: ListedPenaltyMap,
    /// Is there no memory left? Then calls that would write are refused.
    pub out_of_memory: bool,
}

/// The server has no memory left for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OOM command not allowed when used memory > 'maxmemory'.")]
pub struct OutOfMemory;

/// The buckets of a call that is being executed.
struct CallState<'c> {
    call: &'c ScriptCall,
    now: Nanos,
    /// The state of each key before the call.
    opened: BTreeMap<&'c BucketKey, BucketState>,
    /// The state of each key so far.
    states: BTreeMap<&'c BucketKey, BucketState>,
    /// The keys that were stored in other numbers, and are used as the caller has migrated them.
    migrated: BTreeSet<&'c BucketKey>,
    poisoned: u32,
}

impl Model {
    /// Answers a call at the server's `now`, or at the instant that the call gives.
    ///
    /// # Errors
    /// When it would have to write and there is no memory left.
    pub fn call(&mut self, call: &ScriptCall, now: Nanos) -> Result<CallAnswer, OutOfMemory> {
        let now = call.at.unwrap_or(now);
        let now = Nanos::new(now.get() / 1_000 * 1_000);
        self.expire_keys(now);
        if let Some(found) = self.found_in_other_numbers(call, now) {
            return Ok(answer(now, CallOutcome::Migrate, found, nothing_leased(call), 0));
        }
        let mut state = self.open(call, now)?;
        let found = state.found();
        let mut leased = nothing_leased(call);
        let outcome = match call.verb {
            CallVerb::Take | CallVerb::Peek => state.take(&mut leased),
            CallVerb::Refund | CallVerb::HandBack => {
                state.give();
                CallOutcome::Done
            }
        };
        let poisoned = state.poisoned;
        if outcome == CallOutcome::Refused || call.verb == CallVerb::Peek {
            return Ok(answer(now, outcome, found, nothing_leased(call), poisoned));
        }
        let given_logs = state.given_logs(found);
        let gives = matches!(call.verb, CallVerb::Refund | CallVerb::HandBack);
        // The script rewrites a log that tokens are returned to, even if it stays the same, and after a refund a bucket that
        // was stored in other numbers.
        let is_renumbered = |key: &BucketKey, kept: &BucketState| {
            call.verb == CallVerb::Refund && state.is_renumbered_bucket(key, kept)
        };
        let is_changed = |key: &BucketKey, kept: &BucketState| {
            state.opened[key] != *kept
                || (gives && matches!(kept, BucketState::Log(_)))
                || is_renumbered(key, kept)
        };
        let changed = state.states.iter().filter(|(key, kept)| is_changed(key, kept));
        let changed = changed.map(|(&key, kept)| (key.clone(), kept.clone())).collect();
        self.keep(call, changed, now)?;
        Ok(answer(now, outcome, given_logs, leased, poisoned))
    }

    /// Records a heartbeat, and returns how many nodes are alive.
    ///
    /// # Errors
    /// When there is no memory left.
    pub fn heartbeat(&mut self, heartbeat: &Heartbeat, now: Nanos) -> Result<u32, OutOfMemory> {
        if self.out_of_memory {
            return Err(OutOfMemory);
        }
        if heartbeat.alive {
            self.heartbeats.insert(heartbeat.node, now);
        } else {
            self.heartbeats.remove(&heartbeat.node);
        }
        // A heartbeat in the future means that the clock stepped back.
        let within = heartbeat.within;
        let counts = |last: Nanos| last.saturating_add(within) >= now && last <= now.saturating_add(within);
        self.heartbeats.retain(|_, last| counts(*last));
        Ok(self.heartbeats.len() as u32)
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.kept.len()
    }

    /// Writes invalid values under the keys that `chosen` selects, and returns these.
    pub fn poison(&mut self, mut chosen: impl FnMut(&BucketKey) -> bool) -> Vec<BucketKey> {
        let mut poisoned = Vec::new();
        for (key, stored) in &mut self.kept {
            if chosen(key) {
                stored.state = BucketState::Junk;
                poisoned.push(key.clone());
            }
        }
        poisoned
    }

    /// Loses all state.
    pub fn wipe(&mut self) {
        self.kept.clear();
        self.heartbeats.clear();
        self.bursts.clear();
        self.penalties.clear();
    }

    fn expire_keys(&mut self, now: Nanos) {
        self.kept.retain(|_, stored| stored.until > now);
    }

    /// The states found, if one of them is stored under another text and is not migrated yet.
    fn found_in_other_numbers(&self, call: &ScriptCall, now: Nanos) -> Option<Vec<FoundState>> {
        let other = |entry: &BucketEntry| {
            let stored = self.kept.get(&entry.key)?;
            if stored.text == entry.text || stored.is_junk() {
                return None;
            }
            let raw = written::raw(stored);
            let is_brought = entry.migrated.as_deref().is_some_and(|(from, _)| *from == raw);
            (!is_brought).then_some(raw)
        };
        if !call.entries.iter().any(|entry| other(entry).is_some()) {
            return None;
        }
        let found = |entry: &BucketEntry| match other(entry) {
            Some(raw) => FoundState::Other(raw),
            None => {
                let kept = self.kept.get(&entry.key).map(|stored| stored.state.clone());
                FoundState::Here(kept.unwrap_or_default().answer_state(entry, now))
            }
        };
        Some(call.entries.iter().map(found).collect())
    }

    /// Reads the buckets of a call. A state that lies too far in the future to be valid is replaced at once.
    fn open<'c>(&mut self, call: &'c ScriptCall, now: Nanos) -> Result<CallState<'c>, OutOfMemory> {
        let mut state = CallState {
            call,
            now,
            opened: BTreeMap::new(),
            states: BTreeMap::new(),
            migrated: BTreeSet::new(),
            poisoned: 0,
        };
        for entry in &call.entries {
            if state.states.contains_key(&entry.key) {
                continue;
            }
            let stored = self.kept.get(&entry.key);
            let migrated = entry.migrated.as_deref().filter(|_| stored.is_some_and(|s| s.text != entry.text));
            if migrated.is_some() && stored.is_some_and(|stored| !stored.is_junk()) {
                state.migrated.insert(&entry.key);
            }
            let mut kept = match (stored, migrated) {
                (None, _) => BucketState::untouched(&entry.limit),
                (Some(stored), _) if stored.is_junk() => {
                    state.poisoned += 1;
                    BucketState::untouched(&entry.limit)
                }
                (Some(_), Some((_, state))) => BucketState::migrated(state),
                (Some(stored), None) => stored.state.clone(),
            };
            if let Some(instead) = written::replacement_if_too_far(&entry.limit, &kept, now) {
                state.poisoned += 1;
                if call.verb != CallVerb::Peek {
                    self.keep(call, vec![(entry.key.clone(), instead.clone())], now)?;
                }
                kept = instead;
            }
            state.states.insert(&entry.key, kept);
        }
        state.opened = state.states.clone();
        Ok(state)
    }

    /// Stores the changed buckets until they are full again at any trust.
    fn keep(
        &mut self,
        call: &ScriptCall,
        changed: Vec<(BucketKey, BucketState)>,
        now: Nanos,
    ) -> Result<(), OutOfMemory> {
        if self.out_of_memory && !changed.is_empty() {
            return Err(OutOfMemory);
        }
        for (key, kept) in changed {
            let entry = call.entries.iter().find(|entry| entry.key == key).expect("a key of the call");
            let forgotten_in = kept.full_in(&entry.limit, now).saturating_add(entry.spare);
            if forgotten_in == Nanos::ZERO || kept == BucketState::untouched(&entry.limit) {
                self.kept.remove(&key);
                continue;
            }
            // If a test gives the time, keys are kept an hour longer, as by the script.
            let slack = if call.at.is_some() { Nanos::HOUR } else { Nanos::ZERO };
            let life = Nanos::from_millis(forgotten_in.as_millis_ceil() + 1).saturating_add(slack);
            let (text, limit, until) = (entry.text.clone(), entry.limit, now.saturating_add(life));
            self.kept.insert(key, StoredValue { text, limit, state: kept, written: now, until });
        }
        Ok(())
    }
}

impl CallState<'_> {
    /// Is it a token bucket that was stored in other numbers, and is not full?
    fn is_renumbered_bucket(&self, key: &BucketKey, kept: &BucketState) -> bool {
        let limit = self.call.entries.iter().find(|entry| entry.key == *key).map(|entry| &entry.limit);
        let bucket = limit.filter(|limit| matches!(limit, Limit::Meter(Meter::TokenBucket(_))));
        self.migrated.contains(key) && bucket.is_some_and(|limit| kept.full_in(limit, self.now) > Nanos::ZERO)
    }

    fn found(&self) -> Vec<FoundState> {
        let state =
            |entry: &BucketEntry| FoundState::Here(self.states[&entry.key].answer_state(entry, self.now));
        self.call.entries.iter().map(state).collect()
    }

    /// For logs that tokens are returned to, the answer has the state after the call.
    fn given_logs(&self, found: Vec<FoundState>) -> Vec<FoundState> {
        if matches!(self.call.verb, CallVerb::Take | CallVerb::Peek) {
            return found;
        }
        let state = |(entry, found): (&BucketEntry, FoundState)| match &self.states[&entry.key] {
            kept @ BucketState::Log(_) => {
                let zero_cost = BucketEntry { cost: Cost::ZERO, delay: Nanos::ZERO, ..entry.clone() };
                FoundState::Here(kept.answer_state(&zero_cost, self.now))
            }
            _ => found,
        };
        self.call.entries.iter().zip(found).map(state).collect()
    }

    /// Takes all binding costs or refuses; then the advisory ones that fit; then leases.
    fn take(&mut self, leased: &mut SmallVec<[u32; 8]>) -> CallOutcome {
        for binding in [true, false] {
            for entry in self.call.entries.iter().filter(|entry| entry.binding == binding) {
                let kept = self.states.get_mut(&entry.key).expect("every key was opened");
                // A peek answers each entry by itself.
                let fits = match self.call.verb {
                    CallVerb::Peek => kept.clone().charge(&entry.limit, entry.cost, self.now, entry.delay),
                    _ => kept.charge(&entry.limit, entry.cost, self.now, entry.delay),
                };
                if !fits && binding {
                    return CallOutcome::Refused;
                }
            }
        }
        if self.call.verb == CallVerb::Take {
            for binding in [true, false] {
                let wanting =
                    |(entry, _): &(&BucketEntry, &mut u32)| entry.binding == binding && entry.want > 0;
                for (entry, leased) in self.call.entries.iter().zip(leased.iter_mut()).filter(wanting) {
                    let kept = self.states.get_mut(&entry.key).expect("every key was opened");
                    let grant = entry.want.min(kept.left(&entry.limit, self.now) / 2);
                    if kept.charge(&entry.limit, Cost::new(grant), self.now, Nanos::ZERO) {
                        *leased = grant;
                    }
                }
            }
        }
        CallOutcome::Done
    }

    /// Returns tokens; hand-backs in reverse, since they undo charges.
    fn give(&mut self) {
        let entries = self.call.entries.iter();
        let ordered: SmallVec<[&BucketEntry; 8]> = match self.call.verb {
            CallVerb::HandBack => entries.rev().collect(),
            _ => entries.collect(),
        };
        for entry in ordered {
            let kept = self.states.get_mut(&entry.key).expect("every key was opened");
            match self.call.verb {
                CallVerb::Refund => kept.refund(&entry.limit, entry.cost, self.now),
                _ => kept.hand_back(entry, self.now),
            }
        }
    }
}

fn nothing_leased(call: &ScriptCall) -> SmallVec<[u32; 8]> {
    SmallVec::from_elem(0, call.entries.len())
}

fn answer(
    at: Nanos,
    outcome: CallOutcome,
    found: Vec<FoundState>,
    leased: SmallVec<[u32; 8]>,
    poisoned: u32,
) -> CallAnswer {
    CallAnswer { at, outcome, found, leased, poisoned }
}
