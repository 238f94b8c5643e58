//! The limits of one slot, asked until the server has them all in the numbers of this node.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate::{Charge, Cost, Limit, LimitDecision, Meter, Nanos, Role};

use super::replay::{States, refuse_for_now, replay};
use super::{DeadlineCheck, LimitState};
use crate::errors::StoreError;
use crate::link::{BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Link, ScriptCall, State};
use crate::registry::{LimitRegistry, RedisVersion};
use crate::wire::numbers::whole_micros;

/// How often states are brought up while others change them, if there is time. Others win a round by charging the
/// same key in between; that many times in a row is more than chance.
const ROUNDS: u32 = 16;

/// A call in the making.
#[derive(Clone, Debug)]
pub(super) struct CallDraft {
    pub(super) call: ScriptCall,
    pub(super) asked: SmallVec<[CallPart; 8]>,
}

/// One entry of it.
#[derive(Clone, Debug)]
pub(super) struct CallPart {
    /// Which of the charges it is.
    place: usize,
    version: Arc<RedisVersion>,
    /// Found at another trust: the bucket as it stays if nothing is charged.
    pub(super) unchanged: Option<(Meter, u64)>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct RoundAnswer {
    pub(super) allowed: bool,
    pub(super) at: Nanos,
    pub(super) decisions: SmallVec<[LimitDecision; 8]>,
    /// What they would be if nothing were taken.
    pub(super) looks: SmallVec<[LimitDecision; 8]>,
    pub(super) standings: SmallVec<[LimitState; 8]>,
    pub(super) befores: SmallVec<[LimitState; 8]>,
    /// Which were taken, with what was leased.
    pub(super) taken: SmallVec<[bool; 8]>,
    pub(super) leased: SmallVec<[u32; 8]>,
    pub(super) poisoned: u32,
    /// Was it refused only since there was no end to bringing states up?
    pub(super) contended: bool,
    pub(super) calls: u32,
}

impl RoundAnswer {
    /// What was taken has been handed back.
    pub(super) fn take_back(&mut self) {
        self.decisions = std::mem::take(&mut self.looks);
        self.standings = std::mem::take(&mut self.befores);
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
        let mut entries: SmallVec<[BucketEntry; 8]> = SmallVec::with_capacity(charges.len());
        let mut asked: SmallVec<[CallPart; 8]> = SmallVec::with_capacity(charges.len());
        for (place, charge) in charges.iter().enumerate() {
            let version = registry.version(charge.limit);
            let key = version.data.namer().key(registry.prefix(), charge.key, charge.tag);
            // One bucket is charged by one version of its limit, however often it is named.
            let before = entries.iter().position(|entry| entry.key == key);
            let version = before.map_or(version, |before| asked[before].version.clone());
            entries.push(BucketEntry {
                key,
                limit: version.limit,
                text: version.data.text(),
                cost: charge.cost,
                binding: charge.role == Role::Binding,
                delay: whole_micros(charge.delay),
                want: wants.get(place).copied().unwrap_or(0),
                spare: registry.spare(&version),
                charged_at,
                brought: None,
            });
            asked.push(CallPart { place, version, unchanged: None });
        }
        CallDraft { call: ScriptCall { verb, entries, at }, asked }
    }

    /// Which charges it is about, in the order of its entries.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.asked.iter().map(|asked| asked.place)
    }

    /// The same in groups whose keys are kept together.
    pub(super) fn by_tag(self) -> Vec<CallDraft> {
        let (verb, at) = (self.call.verb, self.call.at);
        let mut groups: Vec<CallDraft> = Vec::new();
        for (entry, asked) in self.call.entries.into_iter().zip(self.asked) {
            let group = groups.iter_mut().find(|group| group.call.entries[0].key.tag() == entry.key.tag());
            match group {
                Some(group) => {
                    group.call.entries.push(entry);
                    group.asked.push(asked);
                }
                None => {
                    let call = ScriptCall { verb, entries: SmallVec::from_iter([entry]), at };
                    groups.push(CallDraft { call, asked: SmallVec::from_iter([asked]) });
                }
            }
        }
        groups
    }

    /// What hands back all that was taken; `None` if nothing was.
    pub(super) fn undo(&self, told: &RoundAnswer) -> Option<CallDraft> {
        let mut back = CallDraft {
            call: ScriptCall { verb: CallVerb::HandBack, entries: SmallVec::new(), at: self.call.at },
            asked: SmallVec::new(),
        };
        for (index, (entry, asked)) in self.call.entries.iter().zip(&self.asked).enumerate() {
            let cost = if told.taken[index] { entry.cost.get() } else { 0 };
            let cost = Cost::new(cost.saturating_add(told.leased[index]));
            if cost == Cost::ZERO {
                continue;
            }
            let (charged_at, delay) = match (&entry.limit, &told.standings[index].state) {
                // A log may have counted it with its newest entry, which stops counting last.
                (Limit::Log(quota), State::Log(log)) => {
                    (log.empty_at.saturating_sub(quota.window()), Nanos::ZERO)
                }
                _ => (told.at, entry.delay),
            };
            let entry = BucketEntry { cost, want: 0, brought: None, charged_at, delay, ..entry.clone() };
            back.call.entries.push(entry);
            back.asked.push(CallPart { unchanged: None, ..asked.clone() });
        }
        (!back.call.entries.is_empty()).then_some(back)
    }

    /// Asks, and asks again with what was found in other numbers brought up. If that has no end it is refused, which
    /// is safe: a decision beside the server would not be.
    pub(super) async fn ask<L: Link>(
        mut self,
        link: &L,
        registry: &LimitRegistry,
        in_time: DeadlineCheck<'_>,
    ) -> Result<(CallDraft, RoundAnswer), StoreError> {
        let (mut poisoned, mut round) = (0, 0);
        loop {
            round += 1;
            let answer = link.call(&self.call).await?;
            poisoned += answer.poisoned;
            if answer.said != CallOutcome::BringUp {
                let told = replay(&self, answer)?;
                return Ok((self, RoundAnswer { poisoned, calls: round, ..told }));
            }
            let at = answer.at;
            let contended: SmallVec<[bool; 8]> =
                answer.found.iter().map(|found| matches!(found, FoundState::Other(_))).collect();
            let (states, none) = self.bring_up(registry, answer);
            poisoned += none;
            if round >= ROUNDS || !in_time() {
                let told = refuse_for_now(&self, &contended, states, at).ok_or(StoreError::Contended)?;
                return Ok((self, RoundAnswer { poisoned, calls: round, ..told }));
            }
        }
    }

    /// The states as they are brought up, and how many of those that were found were none.
    fn bring_up(&mut self, registry: &LimitRegistry, answer: CallAnswer) -> (States, u32) {
        let (mut states, mut poisoned) = (States::new(), 0);
        let hands_back = self.call.verb == CallVerb::HandBack;
        for ((entry, asked), found) in self.call.entries.iter_mut().zip(&mut self.asked).zip(answer.found) {
            let raw = match found {
                FoundState::Other(raw) => raw,
                FoundState::Here(state) => {
                    states.push(state);
                    continue;
                }
            };
            let brought = registry.bring_up(&asked.version, &raw, answer.at);
            poisoned += u32::from(brought.poisoned);
            if hands_back && !brought.keeps_tokens {
                entry.cost = Cost::ZERO;
            }
            if !hands_back {
                // When it was brought up, for those whose state is to be read as of some instant.
                entry.charged_at = answer.at;
            }
            entry.limit = brought.version.limit;
            entry.text = brought.version.data.text();
            entry.spare = registry.spare(&brought.version);
            states.push(brought.state.clone());
            entry.brought = Some((raw, brought.state));
            asked.version = brought.version;
            asked.unchanged = brought.unchanged;
        }
        (states, poisoned)
    }
}
