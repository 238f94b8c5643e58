//! The counters of a limiter, incremented once per decision for every protocol.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Descriptor, Facts, Plan, RuleSet, TENANT_DEPTH_MAX, TENANT_PREFIX, values_of_key};

use super::counters::{RuleCounters, RuleOutcome, RuleSnapshot, Totals, TrustHistogram};
use super::hot_keys::{HotKey, HotKeys};
use super::routes::{RouteCounters, RouteTotals};
use super::unlimited::{MissingCounters, UnlimitedCounters};
use crate::engine::active::{Active, NamedCounters};
use crate::engine::bursts::BurstAction;
use crate::engine::decide::conclude::degrades;
use crate::engine::decision::Ruling;
use crate::engine::reason::Reason;
use crate::measure::DurationHistogram;

/// How many of the busiest keys are tracked.
const HOT_KEYS: usize = 64;

/// Counters of a limiter.
#[derive(Debug)]
pub(crate) struct Stats {
    /// By [`Reason`].
    pub(crate) reasons: Totals,
    /// Warned, blocked.
    pub(crate) burst_actions: Totals,
    pub(crate) unknown_tenants: Totals,
    /// Denials by the limit of an ancestor, by its depth in the tree of tenants.
    pub(crate) contention: Totals,
    pub(crate) trust: TrustHistogram,
    pub(crate) queue_waits: DurationHistogram,
    pub(crate) retry_waits: DurationHistogram,
    consumers: HotKeys,
    denied: HotKeys,
    names: Mutex<Names>,
}

/// The limits by name, across policies.
#[derive(Debug, Default)]
struct Names {
    known: HashMap<Box<str>, NamedCounters>,
    /// What the limits of each name count by.
    keys: HashMap<Box<str>, NamedKey>,
    given: u32,
    missing: MissingCounters,
    routes: RouteTotals,
    former_tenants: RuleSnapshot,
}

/// What the limits of a name count by; `None` if they count by different things.
type NamedKey = Option<Arc<[Descriptor]>>;

/// The counters of all limits at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedLimits {
    /// The limits in force, by name.
    pub limits: Vec<(String, RuleSnapshot)>,
    /// The sum of tenants' limits that no policy has any more. Added to those in force, the sum over all tenants never
    /// falls.
    pub former_tenants: RuleSnapshot,
}

/// Which parts of a decision to count, if it is one of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountScope<'a> {
    /// Was the decision charged, if it was allowed?
    pub(crate) charged: bool,
    /// For each item, whether its bucket is counted with another decision.
    pub(crate) counted_elsewhere: &'a [bool],
}

impl Default for CountScope<'_> {
    /// Counts everything, for a single decision.
    fn default() -> Self {
        CountScope { charged: true, counted_elsewhere: &[] }
    }
}

/// The keys that took the most tokens, or were denied most often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyKeys {
    /// The keys, highest count first.
    pub keys: Vec<BusyKey>,
    /// No other key has a higher count.
    pub others_at_most: u64,
}

/// A key that took many tokens or was denied often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyKey {
    /// The name of the limit.
    pub limit: String,
    /// The key, escaped for display and shortened.
    pub key: String,
    /// The values of the key, escaped for display, in the order of the limit's key; those that were cut off are missing.
    pub parts: Vec<String>,
    /// The values as requests have them, one for each descriptor of `of`: what is shown of a value may stand for another one.
    /// `None` for one that is not known to its end. Empty if it is not known which value is which.
    pub values: Vec<Option<String>>,
    /// What the values are: the limit's key at the time when they were counted. `None` if limits of this name have different
    /// keys.
    pub of: Option<Arc<[Descriptor]>>,
    /// Tokens taken, or requests denied. Too high by at most `error`.
    pub count: u64,
    /// By how much the count may be too high.
    pub error: u64,
}

impl Stats {
    pub(crate) fn new() -> Stats {
        Stats {
            reasons: Totals::new(Reason::ALL.len()),
            burst_actions: Totals::new(2),
            unknown_tenants: Totals::new(1),
            contention: Totals::new(TENANT_DEPTH_MAX),
            trust: TrustHistogram::new(),
            queue_waits: DurationHistogram::new(),
            retry_waits: DurationHistogram::new(),
            consumers: HotKeys::new(HOT_KEYS),
            denied: HotKeys::new(HOT_KEYS),
            names: Mutex::default(),
        }
    }

    /// The counters of each name in a rule set, old or new. Names that it no longer has are dropped by
    /// [`Stats::use_names`].
    ///
    /// A limit whose key was edited gets another id: the values that were counted before are of another kind, so they must
    /// not be read by the new key, which could show a credential as if it were a user.
    pub(crate) fn names_of(&self, rules: &RuleSet) -> HashMap<Box<str>, NamedCounters> {
        let (mut names, wanted) = (self.names(), keys_of(rules));
        let Names { known, keys, given, .. } = &mut *names;
        let mut named = |name: &str| {
            let known = known.get(name);
            if let Some(known) = known.filter(|_| keys.get(name) == wanted.get(name)) {
                return known.clone();
            }
            *given += 1;
            let counters = known.map(|known| Arc::clone(&known.counters));
            NamedCounters { id: *given, counters: counters.unwrap_or_else(|| Arc::new(RuleCounters::new())) }
        };
        rules.rules().iter().map(|rule| (rule.name.clone(), named(&rule.name))).collect()
    }

    /// Gives a rule set its counters of requests without a limit, and by route; what is known keeps them.
    pub(crate) fn count_for(&self, set: &mut Active) {
        let names = self.names();
        set.unlimited = UnlimitedCounters::of(&set.rules, &names.missing);
        set.routes = RouteCounters::of(&set.rules, &names.routes);
    }

    /// Makes these the names in use.
    pub(crate) fn use_names(&self, named: HashMap<Box<str>, NamedCounters>, set: &Active) {
        let (keys, mut names) = (keys_of(&set.rules), self.names());
        let Names { known, former_tenants, .. } = &mut *names;
        let is_dropped = |name: &str| name.starts_with(TENANT_PREFIX) && !named.contains_key(name);
        for (_, dropped) in known.iter().filter(|(name, _)| is_dropped(name)) {
            former_tenants.add(&dropped.counters.snapshot());
        }
        (names.known, names.keys) = (named, keys);
        (names.missing, names.routes) = (set.unlimited.by_name(), set.routes.by_name());
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a decision that was made; peeks are not counted.
    pub(crate) fn count(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: Option<&Plan>,
        ruling: &Ruling,
        scope: CountScope<'_>,
    ) {
        self.count_reason(ruling.reason, ruling.retry_after.filter(|_| !ruling.allowed));
        if let Some(trust) = plan.map_or(facts.request.trust, |plan| plan.trust) {
            self.trust.count(trust.hundredths());
        }
        set.routes.count(facts, ruling);
        if ruling.reason == Reason::NoLimit {
            set.unlimited.count(&set.rules, facts, !ruling.standings.is_empty());
        }
        let Some(plan) = plan else { return };
        if let Some(ancestor) = set.contended(facts, ruling) {
            self.contention.add(ancestor.depth as usize);
        }
        for (index, (item, standing)) in plan.items().iter().zip(&ruling.standings).enumerate() {
            if scope.counted_elsewhere.get(index).is_some_and(|elsewhere| *elsewhere) {
                continue;
            }
            let rule = set.rules.rule(item.rule);
            let named = &set.bound[item.rule as usize].named;
            let decision = &standing.decision;
            let outcome = match decision.is_allowed() {
                true if standing.queued => RuleOutcome::Queued,
                true => RuleOutcome::Allowed,
                false if rule.is_shadow() => RuleOutcome::ShadowDenied,
                false if degrades(rule) => RuleOutcome::Degraded,
                false => RuleOutcome::Denied,
            };
            named.counters.count(outcome);
            named.counters.count_remaining(decision.remaining, decision.limit);
            // A bucket for everybody has the empty key or the shared one, which are not recorded as busy.
            if rule.is_shadow() || plan.key(item).is_empty() || plan.is_shared(item) {
                continue;
            }
            if scope.charged && ruling.allowed && decision.is_allowed() && item.cost > Cost::ZERO {
                self.consumers.record(named.id, plan.key(item), item.cost.get().into());
            } else if outcome == RuleOutcome::Denied {
                self.denied.record(named.id, plan.key(item), 1);
            }
        }
    }

    /// Counts the reason of a decision, and the wait of a denial.
    pub(crate) fn count_reason(&self, reason: Reason, retry_after: Option<Nanos>) {
        self.reasons.add(reason as usize);
        if let Some(wait) = retry_after {
            self.retry_waits.record(wait);
        }
    }

    pub(crate) fn count_action(&self, action: BurstAction) {
        self.burst_actions.add(match action {
            BurstAction::Warned => 0,
            BurstAction::Blocked => 1,
        });
    }

    /// The keys that took the most.
    pub(crate) fn top_consumers(&self, most: usize) -> BusyKeys {
        self.named(&self.consumers, most)
    }

    /// The keys that were denied the most.
    pub(crate) fn top_denied(&self, most: usize) -> BusyKeys {
        self.named(&self.denied, most)
    }

    /// Starts a new span of both.
    pub(crate) fn start_span(&self) {
        self.consumers.start_span();
        self.denied.start_span();
    }

    /// The first keys, with the names of their limits. Keys of limits that no longer exist are left out.
    fn named(&self, hot: &HotKeys, most: usize) -> BusyKeys {
        let names = self.names();
        let by_id: HashMap<u32, &str> = names.known.iter().map(|(name, named)| (named.id, &**name)).collect();
        let top = hot.top_of(most, |limit| by_id.contains_key(&limit));
        let named = |key: HotKey| {
            let HotKey { limit, parts, recorded, is_cut, count, error, .. } = key;
            let limit = *by_id.get(&limit)?;
            let readable = parts.join(", ").trim_end_matches(", ").to_owned();
            let of = names.keys.get(limit).cloned().flatten();
            let known = of.as_ref().filter(|of| of.len() == parts.len());
            let values = known.and_then(|of| values_of_key(&recorded, of.len(), is_cut)).unwrap_or_default();
            Some(BusyKey { limit: limit.to_owned(), key: readable, parts, values, of, count, error })
        };
        BusyKeys {
            keys: top.keys.into_iter().filter_map(named).collect(),
            others_at_most: top.others_at_most,
        }
    }

    /// Each limit in use, by name, with its counters.
    pub(crate) fn limits(&self) -> CountedLimits {
        let names = self.names();
        let mut limits: Vec<(String, RuleSnapshot)> =
            names.known.iter().map(|(name, named)| (name.to_string(), named.counters.snapshot())).collect();
        limits.sort_by(|a, b| a.0.cmp(&b.0));
        CountedLimits { limits, former_tenants: names.former_tenants }
    }
}

/// What the limits of each name count by. Equal keys are stored once: a policy may have a limit for each of many tenants.
fn keys_of(rules: &RuleSet) -> HashMap<Box<str>, NamedKey> {
    let (mut stored, mut keys) = (HashSet::<Arc<[Descriptor]>>::new(), HashMap::new());
    for rule in rules.rules() {
        let key = stored.get(&*rule.key).cloned().unwrap_or_else(|| {
            let new: Arc<[Descriptor]> = rule.key.to_vec().into();
            stored.insert(Arc::clone(&new));
            new
        });
        match keys.entry(rule.name.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(Some(key))),
            Entry::Occupied(mut entry) if entry.get().as_ref() != Some(&key) => drop(entry.insert(None)),
            Entry::Occupied(_) => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use tidegate_policy::{Policy, Request};

    use crate::engine::{BusyKey, Limiter};
    use crate::{ManualClock, MemoryOptions, Nanos};

    fn rules(limits: &[&str]) -> Policy {
        Policy::parse(&format!("version: 1\nlimits:\n{}", limits.concat())).expect("a policy")
    }

    fn limit(name: &str, key: &str) -> String {
        format!("- {{ name: {name}, key: [{key}], missing: skip, sustained: {{ rate: 1000 }} }}\n")
    }

    fn values(keys: &[BusyKey]) -> Vec<&str> {
        keys.iter().map(|key| key.key.as_str()).collect()
    }

    #[test]
    fn values_are_as_requests_have_them_whatever_is_shown() {
        let (by_user, by_both) = (limit("one", "user"), limit("both", "user, client"));
        let options = MemoryOptions { max_keys: 100, ..MemoryOptions::default() };
        let clock = ManualClock::new(Nanos::from_secs(1_800_000_000));
        let limiter = Limiter::in_memory(rules(&[&by_user, &by_both]), options, clock).expect("a limiter");
        let long = "x".repeat(60);
        let users = [
            "ann",
            "DOMAIN\\ann",
            "e\u{301}",
            "\u{e02}\u{e49}",
            "a\u{1f}b",
            "\u{1b}_",
            "ann\u{1f}",
            "cut…",
            &long,
        ];
        for user in users {
            let _ = limiter.check(&Request::new().user(user).client("c\u{1f}d\\"));
        }
        let keys = limiter.top_consumers(99).keys;
        for user in users {
            let known = (user != long).then(|| user.to_owned());
            let both = vec![known.clone(), Some("c\u{1f}d\\".to_owned())];
            let has = |limit: &str, values: &[Option<String>]| {
                keys.iter().any(|key| key.limit == limit && key.values == values)
            };
            // The client after a long user is cut off, so it is not known which value is which.
            assert!(if user == long { has("both", &[]) } else { has("both", &both) }, "{user:?}: {keys:?}");
            // A single value may be anything, so one with a separator is shown as if it were two.
            assert!(has("one", &if user == "a\u{1f}b" { vec![] } else { vec![known] }), "{user:?}: {keys:?}");
        }
    }

    #[test]
    fn values_of_a_former_key_are_forgotten() {
        let (by_client, by_user) = (limit("l", "client"), limit("l", "user"));
        let options = MemoryOptions { max_keys: 100, ..MemoryOptions::default() };
        let clock = ManualClock::new(Nanos::from_secs(1_800_000_000));
        let limiter = Limiter::in_memory(rules(&[&by_client]), options, clock).expect("a limiter");
        let request = Request::new().user("ann").client("a-secret");
        for _ in 0..3 {
            let _ = limiter.check(&request);
        }
        assert_eq!(values(&limiter.top_consumers(9).keys), ["a-secret"]);
        limiter.swap(rules(&[&by_client, &limit("other", "user")])).expect("it fits");
        assert_eq!(limiter.top_consumers(9).keys[0].count, 3, "the key is what it was");
        limiter.swap(rules(&[&by_user])).expect("it fits");
        assert!(limiter.top_consumers(9).keys.is_empty(), "no value was counted by the new key");
        let _ = limiter.check(&request);
        let top = limiter.top_consumers(1);
        assert_eq!((values(&top.keys), top.others_at_most), (vec!["ann"], 0), "former values take no place");
        assert_eq!(limiter.counted_limits().limits[0].1.allowed, 4, "the counters of the name go on");
    }
}
