//! The calls for one slot: repeated until the server has all its states in this node's numbers.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate::history::edits::StoredElsewhere;
use tidegate::{Charge, Cost, Limit, LimitDecision, Nanos, Role};

use super::replay::{States, refuse_for_now, replay};
use super::{DeadlineCheck, LimitState};
use crate::calls::wire::numbers::whole_micros;
use crate::calls::{BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Link, ScriptCall, State};
use crate::failures::StoreError;
use crate::registry::{LimitRegistry, RedisVersion};

/// The most rounds of migrating states, if there is time. Another node wins a round by charging the same key in
/// between; this many times in a row is no coincidence.
const ROUNDS: u32 = 16;

/// A call that is being prepared, with its entries' versions.
#[derive(Clone, Debug)]
pub(crate) struct CallDraft {
    pub(super) call: ScriptCall,
    pub(super) parts: Vec<CallPart>,
    /// Is it one of several, so that it is handed back if another one is refused?
    pub(super) can_be_undone: bool,
}

/// The data of one entry that is not sent with the call.
#[derive(Clone, Debug)]
pub(super) struct CallPart {
    /// The index of its charge in the request.
    index: usize,
    version: Arc<RedisVersion>,
    /// If it was found at another trust: the bucket as it stays if nothing is charged. Boxed, because it is rare.
    pub(super) unchanged: Option<Box<StoredElsewhere>>,
}

/// The result of one call.
#[derive(Debug)]
pub(super) struct RoundAnswer {
    pub(super) allowed: bool,
    pub(super) at: Nanos,
    pub(super) decisions: SmallVec<[LimitDecision; 8]>,
    pub(super) standings: Vec<LimitState>,
    /// The decisions and the states if nothing were taken, where something was that can be undone.
    pub(super) before: Option<(SmallVec<[LimitDecision; 8]>, Vec<LimitState>)>,
    /// Which entries were charged, and how many tokens were leased.
    pub(super) taken: SmallVec<[bool; 8]>,
    pub(super) leased: SmallVec<[u32; 8]>,
    pub(super) poisoned: u32,
    /// Was it refused only because states could not be migrated in time?
    pub(super) contended: bool,
}

impl RoundAnswer {
    /// Turns this into the result after everything was handed back.
    pub(super) fn revert(&mut self) {
        if let Some((decisions, standings)) = self.before.take() {
            (self.decisions, self.standings) = (decisions, standings);
        }
        self.leased.iter_mut().for_each(|leased| *leased = 0);
        self.allowed = false;
    }
}

impl CallDraft {
    pub(super) fn new(
        registry: &LimitRegistry,
        verb: CallVerb,
        charges: &[Charge<'_>],
        wants: &[u32],
        charged_at: Nanos,
        at: Option<Nanos>,
    ) -> CallDraft {
        let mut entries: Vec<BucketEntry> = Vec::with_capacity(charges.len());
        let mut parts: Vec<CallPart> = Vec::with_capacity(charges.len());
        for (index, charge) in charges.iter().enumerate() {
            let version = registry.version(charge.limit);
            let key = version.data.namer().key(registry.prefix(), charge.key, charge.tag);
            // A bucket that appears twice is charged by one version of its limit.
            let before = entries.iter().position(|entry| entry.key == key);
            let version = before.map_or(version, |before| parts[before].version.clone());
            entries.push(BucketEntry {
                key,
                limit: version.limit,
                text: version.data.text(),
                cost: charge.cost,
                binding: charge.role == Role::Binding,
                delay: whole_micros(charge.delay),
                want: wants.get(index).copied().unwrap_or(0),
                spare: version.extra_idle_time(),
                charged_at,
                migrated: None,
            });
            parts.push(CallPart { index, version, unchanged: None });
        }
        CallDraft { call: ScriptCall { verb, entries, at }, parts, can_be_undone: false }
    }

    /// The indices of its charges, in the order of its entries.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().map(|parts| parts.index)
    }

    /// Splits it into calls for one hash tag each: their keys are in one slot.
    pub(super) fn by_tag(&mut self) -> Vec<CallDraft> {
        let (verb, at) = (self.call.verb, self.call.at);
        let mut groups: Vec<CallDraft> = Vec::new();
        for (entry, parts) in self.call.entries.drain(..).zip(self.parts.drain(..)) {
            let group = groups.iter_mut().find(|group| group.call.entries[0].key.tag() == entry.key.tag());
            match group {
                Some(group) => {
                    group.call.entries.push(entry);
                    group.parts.push(parts);
                }
                None => {
                    let call = ScriptCall { verb, entries: vec![entry], at };
                    groups.push(CallDraft { call, parts: vec![parts], can_be_undone: false });
                }
            }
        }
        let is_split = groups.len() > 1;
        groups.iter_mut().for_each(|group| group.can_be_undone = is_split);
        groups
    }

    /// The call that hands back all that was taken; `None` if nothing was.
    pub(super) fn undo(&self, result: &RoundAnswer) -> Option<CallDraft> {
        let mut back = CallDraft {
            call: ScriptCall { verb: CallVerb::HandBack, entries: Vec::new(), at: self.call.at },
            parts: Vec::new(),
            can_be_undone: false,
        };
        for (index, (entry, parts)) in self.call.entries.iter().zip(&self.parts).enumerate() {
            let cost = if result.taken[index] { entry.cost.get() } else { 0 };
            let cost = Cost::new(cost.saturating_add(result.leased[index]));
            if cost == Cost::ZERO {
                continue;
            }
            let (charged_at, delay) = match (&entry.limit, &result.standings[index].state) {
                // A log may have added it to its newest entry, which stops counting last.
                (Limit::Log(quota), State::Log(log)) => {
                    (log.empty_at.saturating_sub(quota.window()), Nanos::ZERO)
                }
                _ => (result.at, entry.delay),
            };
            let entry = BucketEntry { cost, want: 0, migrated: None, charged_at, delay, ..entry.clone() };
            back.call.entries.push(entry);
            back.parts.push(CallPart { unchanged: None, ..parts.clone() });
        }
        (!back.call.entries.is_empty()).then_some(back)
    }

    /// Sends the call; while states are found in other numbers, migrates them and sends it again. If that does not end,
    /// the request is refused, which is safe: deciding without the server would not be.
    pub(super) async fn send<L: Link>(
        &mut self,
        link: &L,
        registry: &LimitRegistry,
        in_time: DeadlineCheck<'_>,
    ) -> Result<RoundAnswer, StoreError> {
        let (mut poisoned, mut round) = (0, 0);
        loop {
            round += 1;
            let answer = link.call(&self.call).await?;
            poisoned += answer.poisoned;
            if answer.outcome != CallOutcome::Migrate {
                let result = replay(self, answer)?;
                return Ok(RoundAnswer { poisoned, ..result });
            }
            let at = answer.at;
            let contended: SmallVec<[bool; 8]> =
                answer.found.iter().map(|found| matches!(found, FoundState::Other(_))).collect();
            let (states, none) = self.migrate(registry, answer);
            poisoned += none;
            if round >= ROUNDS || !in_time() {
                let result = refuse_for_now(self, &contended, states, at).ok_or(StoreError::Contended)?;
                return Ok(RoundAnswer { poisoned, ..result });
            }
        }
    }

    /// Migrates the states that were found in other numbers. Returns all states, and how many values were no valid
    /// states.
    fn migrate(&mut self, registry: &LimitRegistry, answer: CallAnswer) -> (States, u32) {
        let (mut states, mut poisoned) = (States::new(), 0);
        let hands_back = self.call.verb == CallVerb::HandBack;
        for ((entry, parts), found) in self.call.entries.iter_mut().zip(&mut self.parts).zip(answer.found) {
            let raw = match found {
                FoundState::Other(raw) => raw,
                FoundState::Here(state) => {
                    states.push(state);
                    continue;
                }
            };
            let migrated = registry.migrate(&parts.version, &raw, answer.at);
            poisoned += u32::from(migrated.poisoned);
            if hands_back && !migrated.keeps_tokens {
                entry.cost = Cost::ZERO;
            }
            if !hands_back {
                // The instant of the migration: a window's state is read as of an instant.
                entry.charged_at = answer.at;
            }
            entry.limit = migrated.version.limit;
            entry.text = migrated.version.data.text();
            entry.spare = migrated.version.extra_idle_time();
            states.push(migrated.state.clone());
            entry.migrated = Some(Box::new((raw, migrated.state)));
            parts.version = migrated.version;
            parts.unchanged = migrated.unchanged.map(Box::new);
        }
        (states, poisoned)
    }
}
