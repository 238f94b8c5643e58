//! What a candidate decides otherwise than the policy in force, in bounded memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::BesideDecision;
use super::side::DecidedSide;
use crate::engine::counting::hot_keys::{HOT_KEYS_MAX, HotKeys};
use crate::engine::decision::Decision;
use crate::measure::Totals;

/// Differences are counted by limit for at most so many limits; the others are counted together.
const LIMITS_MAX: usize = 256;

/// How many examples are kept of each kind.
const EXAMPLES_MAX: usize = 32;

/// Once that many examples are kept, a new one takes the place of the oldest at most this often.
const EXAMPLE_INTERVAL: Nanos = Nanos::SECOND;

/// Longer values of examples are cut: clients choose them.
const VALUE_CHARS_MAX: usize = 128;

/// What a candidate decides otherwise than the policy in force. Reading it changes nothing.
#[derive(Debug)]
pub struct ComparisonReport {
    /// By [`Compared`].
    totals: Totals,
    newly_denied: Differences,
    newly_admitted: Differences,
}

/// What came of a comparison.
#[derive(Clone, Copy, Debug)]
enum Compared {
    BothAdmit,
    BothDeny,
    NewlyDenied,
    NewlyAdmitted,
    /// One of the two could not be decided.
    Undecided,
}

/// How many decisions a candidate would make otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonTotals {
    /// Both policies admit the request.
    pub both_admit: u64,
    /// Both deny it.
    pub both_deny: u64,
    /// The policy in force admits it, the candidate denies it.
    pub newly_denied: u64,
    /// The policy in force denies it, the candidate admits it.
    pub newly_admitted: u64,
    /// One of them was not decided: the store did not answer, there was too much to do, or the policy in force refused
    /// the client before it was identified and the candidate would not have.
    pub not_compared: u64,
}

/// What a candidate decides otherwise than the policy in force, at one instant.
#[derive(Clone, Debug, Default)]
pub struct ComparisonSnapshot {
    /// How many.
    pub totals: ComparisonTotals,
    /// Requests that the candidate denies and the policy in force admits; by the candidate's limits.
    pub newly_denied: DifferingDecisions,
    /// Requests that the candidate admits and the policy in force denies; by the limits of the policy in force.
    pub newly_admitted: DifferingDecisions,
}

/// Decisions that differ in one direction.
#[derive(Clone, Debug, Default)]
pub struct DifferingDecisions {
    /// How many, by what denies: the name of a limit or detector, `block` or a reason.
    pub by_rule: BTreeMap<Box<str>, u64>,
    /// How many were denied by others, since there are too many.
    pub by_others: u64,
    /// The keys with the most of them, most first.
    pub keys: Vec<DifferingKey>,
    /// No other key has more.
    pub others_at_most: u64,
    /// Some of them, oldest first.
    pub examples: Vec<ComparedExample>,
}

/// A key whose requests are decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingKey {
    /// What denies.
    pub rule: Box<str>,
    /// The key for people, without secrets.
    pub key: String,
    /// How many requests; never too low.
    pub count: u64,
    /// By how much the count may be too high.
    pub error: u64,
}

/// A request that was decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedExample {
    /// When, by the wall clock.
    pub at: Nanos,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// The user.
    pub user: Option<Box<str>>,
    /// The client application.
    pub client: Option<Box<str>>,
    /// The client's address.
    pub ip: Option<IpAddr>,
    /// The HTTP method.
    pub method: Option<Box<str>>,
    /// The path, without a query.
    pub path: Option<Box<str>>,
    /// The decision of the policy in force.
    pub live: DecidedSide,
    /// The decision of the candidate.
    pub candidate: DecidedSide,
}

/// Decisions that differ in one direction, while they are counted.
#[derive(Debug)]
struct Differences {
    counted: Mutex<Counted>,
    keys: HotKeys,
}

#[derive(Debug, Default)]
struct Counted {
    /// The number of each name, and how often it denied.
    rules: HashMap<Box<str>, (u32, u64)>,
    others: u64,
    examples: VecDeque<ComparedExample>,
}

impl Default for ComparisonReport {
    fn default() -> ComparisonReport {
        ComparisonReport {
            totals: Totals::new(Compared::Undecided as usize + 1),
            newly_denied: Differences::new(),
            newly_admitted: Differences::new(),
        }
    }
}

impl ComparisonReport {
    /// How many decisions differ.
    pub fn totals(&self) -> ComparisonTotals {
        let get = |compared: Compared| self.totals.get(compared as usize);
        ComparisonTotals {
            both_admit: get(Compared::BothAdmit),
            both_deny: get(Compared::BothDeny),
            newly_denied: get(Compared::NewlyDenied),
            newly_admitted: get(Compared::NewlyAdmitted),
            not_compared: get(Compared::Undecided),
        }
    }

    /// Everything that is known.
    pub fn snapshot(&self) -> ComparisonSnapshot {
        ComparisonSnapshot {
            totals: self.totals(),
            newly_denied: self.newly_denied.snapshot(),
            newly_admitted: self.newly_admitted.snapshot(),
        }
    }

    /// Compares two decisions on the same requests, each with the index of the request that it is about.
    pub(super) fn compare(
        &self,
        requests: &[Request<'_>],
        (index, live): (usize, &Decision),
        decided: BesideDecision,
    ) {
        let Some((own_index, own)) = decided else { return self.lose_one() };
        if live.without_store() || own.without_store() {
            return self.lose_one();
        }
        let sides = || {
            (
                DecidedSide::of(live, &requests[index]),
                DecidedSide::of(&own, &requests[own_index]),
                live.wall(),
            )
        };
        self.add((live.is_allowed(), own.is_allowed()), requests, (index, own_index), sides);
    }

    /// The same, long after the decision of the policy in force.
    pub(super) fn compare_late(
        &self,
        requests: &[Request<'_>],
        (index, live, wall): (usize, DecidedSide, Nanos),
        decided: BesideDecision,
    ) {
        let Some((own_index, own)) = decided else { return self.lose_one() };
        if live.without_store || own.without_store() {
            return self.lose_one();
        }
        let allowed = (live.allowed, own.is_allowed());
        let sides = || (live, DecidedSide::of(&own, &requests[own_index]), wall);
        self.add(allowed, requests, (index, own_index), sides);
    }

    /// Counts a decision that could not be compared.
    pub(super) fn lose_one(&self) {
        self.totals.add(Compared::Undecided as usize);
    }

    fn add(
        &self,
        (live, own): (bool, bool),
        requests: &[Request<'_>],
        (live_index, own_index): (usize, usize),
        sides: impl FnOnce() -> (DecidedSide, DecidedSide, Nanos),
    ) {
        let (compared, differences, index) = match (live, own) {
            (true, true) => return self.totals.add(Compared::BothAdmit as usize),
            (false, false) => return self.totals.add(Compared::BothDeny as usize),
            (true, false) => (Compared::NewlyDenied, &self.newly_denied, own_index),
            (false, true) => (Compared::NewlyAdmitted, &self.newly_admitted, live_index),
        };
        let (live, candidate, at) = sides();
        differences.add(&requests[index], live, candidate, at);
        // Last, so that nobody sees a count before what it counts.
        self.totals.add(compared as usize);
    }
}

impl Differences {
    fn new() -> Differences {
        Differences { counted: Mutex::default(), keys: HotKeys::new(HOT_KEYS_MAX) }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, request: &Request<'_>, live: DecidedSide, candidate: DecidedSide, at: Nanos) {
        let denying = if live.allowed { &candidate } else { &live };
        let mut counted = self.counted();
        if let Some(number) = counted.count(denying.rule.as_deref().unwrap_or_default())
            && let Some(key) = denying.key.as_deref().filter(|key| !key.is_empty())
        {
            self.keys.record(number, key.as_bytes(), 1);
        }
        counted.show(request, live, candidate, at);
    }

    fn snapshot(&self) -> DifferingDecisions {
        let counted = self.counted();
        let names: HashMap<u32, &str> = counted.rules.iter().map(|(name, (id, _))| (*id, &**name)).collect();
        let top = self.keys.top(HOT_KEYS_MAX);
        let keys = top.keys.into_iter().filter_map(|hot| {
            let rule = (*names.get(&hot.limit)?).into();
            Some(DifferingKey { rule, key: hot.key, count: hot.count, error: hot.error })
        });
        DifferingDecisions {
            by_rule: counted.rules.iter().map(|(name, (_, count))| (name.clone(), *count)).collect(),
            by_others: counted.others,
            keys: keys.collect(),
            // Keys of limits that have no number are not counted apart.
            others_at_most: top.others_at_most.max(counted.others),
            examples: counted.examples.iter().cloned().collect(),
        }
    }
}

impl Counted {
    /// Counts a denial, and returns the number of its name; `None` if there are too many names.
    fn count(&mut self, name: &str) -> Option<u32> {
        if let Some((id, count)) = self.rules.get_mut(name) {
            *count += 1;
            return Some(*id);
        }
        if self.rules.len() == LIMITS_MAX {
            self.others += 1;
            return None;
        }
        let id = self.rules.len() as u32;
        self.rules.insert(name.into(), (id, 1));
        Some(id)
    }

    /// Keeps an example, unless there are enough that are new.
    fn show(&mut self, request: &Request<'_>, live: DecidedSide, candidate: DecidedSide, at: Nanos) {
        if self.examples.len() == EXAMPLES_MAX {
            let newest = self.examples.back().map_or(Nanos::ZERO, |example| example.at);
            if at.saturating_sub(newest) < EXAMPLE_INTERVAL {
                return;
            }
            self.examples.pop_front();
        }
        let path = request.path.as_deref().and_then(|path| path.split('?').next());
        self.examples.push_back(ComparedExample {
            at,
            tenant: request.tenant.as_deref().map(cut),
            user: request.user.as_deref().map(cut),
            client: request.client.as_deref().map(cut),
            ip: request.ip,
            method: request.method.as_deref().map(cut),
            path: path.map(cut),
            live,
            candidate,
        });
    }
}

/// A text of bounded length.
fn cut(text: &str) -> Box<str> {
    text.chars().take(VALUE_CHARS_MAX).collect()
}
