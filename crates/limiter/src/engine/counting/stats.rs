//! The counters of a limiter, incremented once per decision for every protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, RuleSet, TENANT_DEPTH_MAX, TENANT_PREFIX};

use super::counters::{RuleCounters, RuleOutcome, RuleSnapshot, Totals, TrustHistogram};
use super::hot_keys::{HotKey, HotKeys, TopKeys};
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

/// The separator between the parts of a key, as [`HotKey`] prints it.
const SEPARATOR: &str = "\\u{1f}";

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
    given: u32,
    missing: MissingCounters,
    routes: RouteTotals,
    former_tenants: RuleSnapshot,
}

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
    /// The values of the key, in the order of the limit's key; those that were cut off are missing.
    pub parts: Vec<String>,
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
    pub(crate) fn names_of(&self, rules: &RuleSet) -> HashMap<Box<str>, NamedCounters> {
        let mut names = self.names();
        let Names { known, given, .. } = &mut *names;
        let mut named = |name: &str| {
            let fresh = || {
                *given += 1;
                NamedCounters { id: *given, counters: Arc::new(RuleCounters::new()) }
            };
            known.get(name).cloned().unwrap_or_else(fresh)
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
        let mut names = self.names();
        let Names { known, former_tenants, .. } = &mut *names;
        let is_dropped = |name: &str| name.starts_with(TENANT_PREFIX) && !named.contains_key(name);
        for (_, dropped) in known.iter().filter(|(name, _)| is_dropped(name)) {
            former_tenants.add(&dropped.counters.snapshot());
        }
        (names.known, names.missing, names.routes) = (named, set.unlimited.by_name(), set.routes.by_name());
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
        self.named(self.consumers.top(most))
    }

    /// The keys that were denied the most.
    pub(crate) fn top_denied(&self, most: usize) -> BusyKeys {
        self.named(self.denied.top(most))
    }

    /// Starts a new span of both.
    pub(crate) fn start_span(&self) {
        self.consumers.start_span();
        self.denied.start_span();
    }

    /// Adds the names of limits. Keys of limits that no longer exist are left out.
    fn named(&self, TopKeys { keys, others_at_most }: TopKeys) -> BusyKeys {
        let names = self.names();
        let by_id: HashMap<u32, &str> = names.known.iter().map(|(name, named)| (named.id, &**name)).collect();
        let named = |key: HotKey| {
            let limit = (*by_id.get(&key.limit)?).to_owned();
            // Each value is followed by a separator.
            let values = key.key.strip_suffix(SEPARATOR).unwrap_or(&key.key);
            let parts: Vec<String> = values.split(SEPARATOR).map(str::to_owned).collect();
            let readable = parts.join(", ").trim_end_matches(", ").to_owned();
            Some(BusyKey { limit, key: readable, parts, count: key.count, error: key.error })
        };
        BusyKeys { keys: keys.into_iter().filter_map(named).collect(), others_at_most }
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
