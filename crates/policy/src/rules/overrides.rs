//! Overrides: other numbers of a limit for some clients, for a while, beside the policy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tidegate_core::{Limit, Meter, Nanos, OverrideNumbers, QuotaError, Rate};

use crate::matching::{Condition, Index};
use crate::{Facts, GateRule, Rule};

/// An override.
#[derive(Debug)]
pub struct OverrideRule {
    /// Its name.
    pub id: Box<str>,
    /// The name of the limit, as decisions show it.
    pub limit: Box<str>,
    /// The numbers in place of those of the limit.
    pub numbers: OverrideNumbers,
    /// Whom it is for: all must hold. None if it is empty: then it is for everybody.
    pub conditions: Box<[Condition]>,
    /// Why it is there.
    pub reason: Option<Box<str>>,
    /// It applies before this point in time.
    pub until: Option<Nanos>,
    /// Among how many nodes its numbers are divided.
    nodes: u32,
    use_record: Arc<OverrideUse>,
}

/// When an override was last used, which outlives the compiled rule.
#[derive(Debug, Default)]
pub struct OverrideUse {
    last_used: AtomicU64,
    /// For which policy it is known whether the limit can have its numbers, and in the lowest bit whether it cannot. One
    /// word, so that the answer for one policy is never taken for that of another.
    known: AtomicU64,
}

impl OverrideUse {
    /// How exact `last_used` is. A busy override is not written to with every decision: all threads would write one word.
    const STEP: Nanos = Nanos::from_millis(100);

    /// When it last applied to a request that was counted, by the wall clock, to a tenth of a second.
    pub fn last_used(&self) -> Option<Nanos> {
        let at = self.last_used.load(Ordering::Relaxed);
        (at > 0).then_some(Nanos::new(at))
    }

    /// Can the limit not have these numbers, by the policy under which it last matched a request? Then the limit itself
    /// applies.
    pub fn is_refused(&self) -> bool {
        self.known.load(Ordering::Relaxed) & 1 == 1
    }

    /// Records a use, if the limit can have these numbers. `can_have` is asked once for each policy, which
    /// `policy` is the number of: no other policy under which this is used has the same one.
    pub fn record(&self, policy: u64, can_have: impl FnOnce() -> bool, wall: Nanos) {
        // Zero is that of no policy.
        let policy = policy + 1;
        let mut known = self.known.load(Ordering::Relaxed);
        if known >> 1 != policy {
            known = policy << 1 | u64::from(!can_have());
            self.known.store(known, Ordering::Relaxed);
        }
        let last_used = Nanos::new(self.last_used.load(Ordering::Relaxed));
        if known & 1 == 0 && last_used.saturating_add(Self::STEP) <= wall {
            self.last_used.fetch_max(wall.get(), Ordering::Relaxed);
        }
    }
}

impl OverrideRule {
    /// An override for whom an entry of a gate is about, until that entry ends.
    pub fn new(
        id: &str,
        limit: &str,
        numbers: OverrideNumbers,
        who: GateRule,
        use_record: Arc<OverrideUse>,
    ) -> OverrideRule {
        OverrideRule {
            id: id.into(),
            limit: limit.into(),
            numbers,
            conditions: who.conditions,
            reason: who.reason,
            until: who.until,
            nodes: 1,
            use_record,
        }
    }

    /// The same override for one of so many nodes, each of which enforces its share of every limit.
    #[must_use]
    pub fn divided(self, nodes: u32) -> OverrideRule {
        OverrideRule { nodes, ..self }
    }

    /// When it was last used.
    pub fn use_record(&self) -> &Arc<OverrideUse> {
        &self.use_record
    }

    /// Does it apply at the instant that `now` returns, by the wall clock?
    fn holds(&self, facts: &Facts<'_, '_>, now: impl Fn() -> Nanos) -> bool {
        self.until.is_none_or(|until| now() < until)
            && self.conditions.iter().all(|condition| condition.holds(facts))
    }
}

/// An override in the numbers that it gives one rule, which are computed once and not in each decision.
#[derive(Clone, Debug)]
pub struct BoundOverride {
    /// The override.
    pub rule: Arc<OverrideRule>,
    /// This node's share of its numbers, at most what the ancestors of the tenant allow.
    pub numbers: OverrideNumbers,
    /// The limit of the rule in these numbers, before trust; `None` if it cannot have them. Then the limit itself applies.
    pub limit: Option<Limit>,
}

impl BoundOverride {
    /// The numbers that an override gives a rule.
    pub fn new(overridden: &Arc<OverrideRule>, rule: &Rule) -> BoundOverride {
        let numbers = rule.overridden(overridden.numbers, overridden.nodes);
        BoundOverride { rule: Arc::clone(overridden), numbers, limit: rule.limit.at(numbers.into()).ok() }
    }
}

/// Overrides that apply to items of a plan, each with the index of its item. There is hardly ever more than one, so up to two
/// need no allocation.
pub type PlanOverrides = SmallVec<[(u32, Arc<BoundOverride>); 2]>;

/// The overrides of all limits.
#[derive(Debug, Default)]
pub struct Overrides {
    by_limit: HashMap<Box<str>, Arc<LimitOverrides>>,
}

/// The overrides of one limit, with an index over their conditions.
#[derive(Debug)]
pub struct LimitOverrides {
    /// Newest first.
    entries: Box<[Arc<OverrideRule>]>,
    index: Index,
}

impl Overrides {
    /// Overrides from the newest to the oldest: the first that matches applies.
    pub fn new(newest_first: impl IntoIterator<Item = impl Into<Arc<OverrideRule>>>) -> Overrides {
        let mut by_limit: HashMap<Box<str>, Vec<Arc<OverrideRule>>> = HashMap::new();
        for rule in newest_first.into_iter().map(Into::into) {
            by_limit.entry(rule.limit.clone()).or_default().push(rule);
        }
        let compile = |(name, entries): (Box<str>, Vec<Arc<OverrideRule>>)| {
            let index = Index::new((0..).zip(&entries).map(|(number, rule)| (number, &*rule.conditions)));
            (name, Arc::new(LimitOverrides { entries: entries.into(), index }))
        };
        Overrides { by_limit: by_limit.into_iter().map(compile).collect() }
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.by_limit.is_empty()
    }

    /// Those of the limit with this name.
    pub fn of_limit(&self, name: &str) -> Option<&Arc<LimitOverrides>> {
        self.by_limit.get(name)
    }
}

impl LimitOverrides {
    /// The newest that matches a request and applies at the instant that `now` returns, by the wall clock: its index in
    /// [`LimitOverrides::entries`].
    pub fn find(&self, facts: &Facts<'_, '_>, now: impl Fn() -> Nanos) -> Option<usize> {
        let candidates = self.index.candidates(facts);
        let mut numbers = candidates.iter().map(|&number| number as usize);
        numbers.find(|&number| self.entries[number].holds(facts, &now))
    }

    /// All, newest first.
    pub fn entries(&self) -> &[Arc<OverrideRule>] {
        &self.entries
    }
}

/// The share of one of `nodes` nodes in the numbers of an override of a limit. A rate too slow to be divided stays whole. What
/// a window or a log counts is rounded down, but at least one if it was before.
pub fn override_share(numbers: OverrideNumbers, limit: &Limit, nodes: u32) -> OverrideNumbers {
    match numbers {
        OverrideNumbers::Fixed { rate, capacity } if nodes > 1 => OverrideNumbers::Fixed {
            rate: rate.map(|rate| rate_share(rate, limit, nodes)),
            capacity: capacity.map(|capacity| (capacity / nodes).max(1)),
        },
        OverrideNumbers::Fixed { .. } | OverrideNumbers::Times(_) => numbers,
    }
}

fn rate_share(rate: Rate, limit: &Limit, nodes: u32) -> Rate {
    let share = match limit {
        Limit::Meter(Meter::TokenBucket(_)) => {
            Rate::new(rate.tokens(), Nanos::new(rate.nanos().saturating_mul(u64::from(nodes))))
        }
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
            counted_share(rate, quota.length(), nodes)
        }
        Limit::Log(quota) => counted_share(rate, quota.window(), nodes),
    };
    share.unwrap_or(rate)
}

fn counted_share(rate: Rate, window: Nanos, nodes: u32) -> Result<Rate, QuotaError> {
    let count = u128::from(rate.tokens()) * u128::from(window.get()) / u128::from(rate.nanos());
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if count == 0 {
        return Ok(rate);
    }
    Rate::new((count / u64::from(nodes)).max(1), window)
}

#[cfg(test)]
mod tests {
    use tidegate_core::{LogQuota, Quota, WindowQuota};

    use super::*;
    use crate::{Policy, Request, RuleSet};

    /// Overrides of the limit `a` for whom these entries are about, the first one the newest.
    fn overrides(who: &str) -> Overrides {
        let text = format!("version: 1\nlimits: []\nblock:\n{who}");
        let rules: RuleSet = Policy::parse(&text).expect("it is a policy").into();
        let rule = |(times, who): (u16, &GateRule)| {
            let numbers = OverrideNumbers::Times(times);
            OverrideRule::new(&times.to_string(), "a", numbers, who.clone(), Arc::default())
        };
        Overrides::new((1..).zip(rules.block().entries()).map(rule))
    }

    fn found(overrides: &Overrides, request: &Request<'_>, now: u64) -> Option<String> {
        let (limit, facts) = (overrides.of_limit("a")?, Facts::new(request));
        limit.find(&facts, || Nanos::from_secs(now)).map(|index| limit.entries()[index].id.to_string())
    }

    #[test]
    fn the_newest_that_matches_and_has_not_ended_applies() {
        let overrides = overrides(
            "- { user: \"42\", until: 1970-01-01T00:01:40Z }\n- { user: [\"42\", \"43\"], plan: free }\n- { tenant: t }\n",
        );
        let user = |user| Request::new().user(user).plan("free");
        assert_eq!(found(&overrides, &user("42"), 99).as_deref(), Some("1"));
        assert_eq!(found(&overrides, &user("42"), 100).as_deref(), Some("2"));
        assert_eq!(found(&overrides, &user("43").tenant("t"), 0).as_deref(), Some("2"));
        assert_eq!(found(&overrides, &Request::new().user("43").tenant("t"), 0).as_deref(), Some("3"));
        assert_eq!(found(&overrides, &user("44"), 0), None);
        assert!(overrides.of_limit("b").is_none() && !overrides.is_empty());
    }

    #[test]
    fn a_use_is_remembered_and_so_is_a_refusal() {
        let record = OverrideUse::default();
        assert_eq!((record.last_used(), record.is_refused()), (None, false));
        record.record(1, || true, Nanos::from_secs(5));
        record.record(2, || false, Nanos::from_secs(6));
        record.record(2, || unreachable!("it is known for this version"), Nanos::from_secs(7));
        assert_eq!((record.last_used(), record.is_refused()), (Some(Nanos::from_secs(5)), true));
        record.record(3, || true, Nanos::from_secs(4));
        assert_eq!((record.last_used(), record.is_refused()), (Some(Nanos::from_secs(5)), false));
    }

    #[test]
    fn the_share_of_a_node_is_exact_where_it_can_be() {
        let bucket = Limit::from(Quota::new(5, Nanos::SECOND, 5).expect("in range"));
        let rate = |tokens, secs| Some(Rate::new(tokens, Nanos::from_secs(secs)).expect("in range"));
        let fixed = |rate, capacity| OverrideNumbers::Fixed { rate, capacity };
        let share = |numbers, nodes| override_share(numbers, &bucket, nodes);
        assert_eq!(share(fixed(rate(10, 1), Some(50)), 3), fixed(rate(10, 3), Some(16)));
        assert_eq!(share(fixed(None, Some(2)), 3), fixed(None, Some(1)));
        let slowest = fixed(rate(1, 366 * 86_400), None);
        assert_eq!(share(slowest, 2), slowest);
        assert_eq!(share(OverrideNumbers::Times(250), 3), OverrideNumbers::Times(250));
    }

    /// Otherwise the override would do nothing on any node.
    #[test]
    fn every_node_has_one_of_what_is_counted() {
        let window = WindowQuota::new(3, Nanos::MINUTE).expect("in range");
        let limits = [
            Limit::sliding_window(window),
            Limit::fixed_window(window),
            Limit::from(LogQuota::new(3, Nanos::MINUTE).expect("in range")),
        ];
        let counts = |limit: &Limit, tokens, window, nodes| {
            let rate = Some(Rate::new(tokens, window).expect("in range"));
            let share = override_share(OverrideNumbers::Fixed { rate, capacity: None }, limit, nodes);
            limit.at(share.into()).map(|limit| limit.capacity()).ok()
        };
        for limit in &limits {
            assert_eq!(counts(limit, 10, Nanos::MINUTE, 4), Some(2), "{limit}");
            assert_eq!(counts(limit, 2, Nanos::MINUTE, 4), Some(1), "{limit}");
            assert_eq!(counts(limit, 60, Nanos::HOUR, 4), Some(1), "{limit}: one a minute");
            assert_eq!(counts(limit, 59, Nanos::HOUR, 4), None, "{limit}: less than one, divided or not");
            assert_eq!(counts(limit, 59, Nanos::HOUR, 1), None, "{limit}");
        }
    }
}
