//! A model of the server that keeps the limits: it answers the calls of a [`Link`](tidegate_redis::Link) as the
//! scripts do on Redis, with the arithmetic of core. Tests hold the two together, call by call.

mod bucket;
mod link;
mod written;

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_redis::{BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, FoundState, ScriptCall};

use bucket::{BucketState, StoredValue};
pub use link::ModelLink;

/// What the server keeps. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Model {
    kept: BTreeMap<BucketKey, StoredValue>,
    beats: BTreeMap<u128, Nanos>,
    /// Is there no memory left? Then whatever would write is refused.
    pub out_of_memory: bool,
}

/// The server has no memory left for what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OOM command not allowed when used memory > 'maxmemory'.")]
pub struct OutOfMemory;

/// The buckets of a call under way: what is found under their keys, and what becomes of it.
struct Desk<'c> {
    call: &'c ScriptCall,
    now: Nanos,
    /// One for each key of the call, as it was…
    opened: BTreeMap<&'c BucketKey, BucketState>,
    /// …and as it becomes.
    states: BTreeMap<&'c BucketKey, BucketState>,
    poisoned: u32,
}

impl Model {
    /// Answers a call at the server's `now`, or at the instant that the call names.
    ///
    /// # Errors
    /// When it would have to write and there is no memory left.
    pub fn call(&mut self, call: &ScriptCall, now: Nanos) -> Result<CallAnswer, OutOfMemory> {
        let now = call.at.unwrap_or(now);
        let now = Nanos::new(now.get() / 1_000 * 1_000);
        self.forget_what_is_full(now);
        if let Some(found) = self.written_otherwise(call, now) {
            return Ok(answer(now, CallOutcome::BringUp, found, nothing_leased(call), 0));
        }
        let mut desk = self.open(call, now)?;
        let found = desk.found();
        let mut leased = nothing_leased(call);
        let said = match call.verb {
            CallVerb::Take | CallVerb::Peek => desk.take(&mut leased),
            CallVerb::Refund | CallVerb::HandBack => {
                desk.give();
                CallOutcome::Done
            }
        };
        let poisoned = desk.poisoned;
        if said == CallOutcome::Refused || call.verb == CallVerb::Peek {
            return Ok(answer(now, said, found, nothing_leased(call), poisoned));
        }
        let given_logs = desk.given_logs(found);
        let gives = matches!(call.verb, CallVerb::Refund | CallVerb::HandBack);
        // A log that is given back to is written anew, whatever comes of it.
        let is_changed = |key: &BucketKey, kept: &BucketState| {
            desk.opened[key] != *kept || (gives && matches!(kept, BucketState::Log(_)))
        };
        let changed = desk.states.iter().filter(|(key, kept)| is_changed(key, kept));
        let changed = changed.map(|(&key, kept)| (key.clone(), kept.clone())).collect();
        self.keep(call, changed, now)?;
        Ok(answer(now, said, given_logs, leased, poisoned))
    }

    /// Hears from a node, or that it leaves, and tells how many were heard of `within` that time.
    ///
    /// # Errors
    /// When there is no memory left.
    pub fn beat(&mut self, node: u128, alive: bool, within: Nanos, now: Nanos) -> Result<u32, OutOfMemory> {
        if self.out_of_memory {
            return Err(OutOfMemory);
        }
        if alive {
            self.beats.insert(node, now);
        } else {
            self.beats.remove(&node);
        }
        // None is heard of ahead of time, unless the clock has stepped back.
        let counts =
            |heard: Nanos| heard.saturating_add(within) >= now && heard <= now.saturating_add(within);
        self.beats.retain(|_, heard| counts(*heard));
        Ok(self.beats.len() as u32)
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.kept.len()
    }

    /// Writes nonsense under the keys whose turn `chosen` says it is.
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

    /// Loses everything.
    pub fn wipe(&mut self) {
        self.kept.clear();
        self.beats.clear();
    }

    fn forget_what_is_full(&mut self, now: Nanos) {
        self.kept.retain(|_, stored| stored.until > now);
    }

    /// If something is written under another text than its entry's, and not brought up: what is found.
    fn written_otherwise(&self, call: &ScriptCall, now: Nanos) -> Option<SmallVec<[FoundState; 8]>> {
        let other = |entry: &BucketEntry| {
            let stored = self.kept.get(&entry.key)?;
            if stored.text == entry.text || stored.is_junk() {
                return None;
            }
            let raw = written::raw(stored);
            let is_brought = entry.brought.as_ref().is_some_and(|(from, _)| *from == raw);
            (!is_brought).then_some(raw)
        };
        if !call.entries.iter().any(|entry| other(entry).is_some()) {
            return None;
        }
        let found = |entry: &BucketEntry| match other(entry) {
            Some(raw) => FoundState::Other(raw),
            None => {
                let kept = self.kept.get(&entry.key).map(|stored| stored.state.clone());
                FoundState::Here(kept.unwrap_or_default().told(entry, now))
            }
        };
        Some(call.entries.iter().map(found).collect())
    }

    /// Puts the buckets of a call on the desk. What lies too far ahead to be true is replaced there and then.
    fn open<'c>(&mut self, call: &'c ScriptCall, now: Nanos) -> Result<Desk<'c>, OutOfMemory> {
        let mut desk = Desk { call, now, opened: BTreeMap::new(), states: BTreeMap::new(), poisoned: 0 };
        for entry in &call.entries {
            if desk.states.contains_key(&entry.key) {
                continue;
            }
            let stored = self.kept.get(&entry.key);
            let brought = entry.brought.as_ref().filter(|_| stored.is_some_and(|s| s.text != entry.text));
            let mut kept = match (stored, brought) {
                (None, _) => BucketState::untouched(&entry.limit),
                (Some(stored), _) if stored.is_junk() => {
                    desk.poisoned += 1;
                    BucketState::untouched(&entry.limit)
                }
                (Some(_), Some((_, state))) => BucketState::brought(state),
                (Some(stored), None) => stored.state.clone(),
            };
            if let Some(instead) = written::instead_of(&entry.limit, &kept, now) {
                desk.poisoned += 1;
                if call.verb != CallVerb::Peek {
                    self.keep(call, vec![(entry.key.clone(), instead.clone())], now)?;
                }
                kept = instead;
            }
            desk.states.insert(&entry.key, kept);
        }
        desk.opened = desk.states.clone();
        Ok(desk)
    }

    /// Keeps what became of the buckets until they are full again, at any trust they may be asked at.
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
            // Where the time is given, an edit may be told of later than the bucket is full.
            let slack = if call.at.is_some() { Nanos::HOUR } else { Nanos::ZERO };
            let life = Nanos::from_millis(forgotten_in.as_millis_ceil() + 1).saturating_add(slack);
            let (text, limit, until) = (entry.text.clone(), entry.limit, now.saturating_add(life));
            self.kept.insert(key, StoredValue { text, limit, state: kept, written: now, until });
        }
        Ok(())
    }
}

impl Desk<'_> {
    fn found(&self) -> SmallVec<[FoundState; 8]> {
        let told = |entry: &BucketEntry| FoundState::Here(self.states[&entry.key].told(entry, self.now));
        self.call.entries.iter().map(told).collect()
    }

    /// Of logs that are given back to, what they say after it is told.
    fn given_logs(&self, found: SmallVec<[FoundState; 8]>) -> SmallVec<[FoundState; 8]> {
        if matches!(self.call.verb, CallVerb::Take | CallVerb::Peek) {
            return found;
        }
        let told = |(entry, found): (&BucketEntry, FoundState)| match &self.states[&entry.key] {
            kept @ BucketState::Log(_) => {
                let asking = BucketEntry { cost: Cost::ZERO, delay: Nanos::ZERO, ..entry.clone() };
                FoundState::Here(kept.told(&asking, self.now))
            }
            _ => found,
        };
        self.call.entries.iter().zip(found).map(told).collect()
    }

    /// Takes all that binds, or says no; then what is only advised and fits; then leases.
    fn take(&mut self, leased: &mut SmallVec<[u32; 8]>) -> CallOutcome {
        for binding in [true, false] {
            for entry in self.call.entries.iter().filter(|entry| entry.binding == binding) {
                let kept = self.states.get_mut(&entry.key).expect("every key was opened");
                // Who only looks is told of each entry by itself.
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

    /// Who came last is handed back first.
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
    said: CallOutcome,
    found: SmallVec<[FoundState; 8]>,
    leased: SmallVec<[u32; 8]>,
    poisoned: u32,
) -> CallAnswer {
    CallAnswer { at, said, found, leased, poisoned }
}
