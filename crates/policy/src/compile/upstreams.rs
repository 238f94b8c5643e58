//! Compiles `upstreams`, and checks what refers to them.

use std::collections::{BTreeSet, HashMap, HashSet};

use tidegate_core::{Algorithm, Nanos};
use tidegate_document::nearest;

use super::Compiler;
use crate::document::{Absorbs, ConditionEntry, ConditionTest, Document, UpstreamEntry};
use crate::matching::HostIndex;
use crate::rules::{Rule, Upstreams};
use crate::{Condition, Descriptor, Problem, Spanned, Strategy};

impl Compiler<'_> {
    pub(super) fn upstreams(&mut self, document: &Document) -> Upstreams {
        let mut hosts = HostIndex::default();
        let mut names = Vec::new();
        for (number, entry) in (0..).zip(document.upstreams.iter().filter(|entry| entry.enabled)) {
            entry.hosts.iter().for_each(|pattern| hosts.insert(&pattern.value, number));
            names.push(entry.name.value.as_str().into());
        }
        Upstreams::new(names, hosts)
    }

    /// Checks the names of upstreams in routes and conditions, and what can reach each upstream.
    pub(super) fn check_upstreams(&mut self, document: &Document, limits: &[Rule]) {
        let declared: BTreeSet<&str> =
            document.upstream_names.iter().map(|entry| entry.name.value.as_str()).collect();
        for route in &document.routes {
            if let Some(name) = route.upstream.as_ref().filter(|name| !declared.contains(name.value.as_str()))
            {
                let message = format!("`upstreams` has no `{}`", name.value);
                let problem = Problem::error(name.at, format!("{}.upstream", route.path), message);
                self.report(
                    problem.want("the name of an upstream").hint(upstream_hint(&name.value, &declared)),
                );
            }
        }
        if !declared.is_empty() {
            self.check_upstream_conditions(document, &declared);
        }
        let totals = Totals::new(limits);
        for entry in document.upstreams.iter().filter(|entry| entry.enabled) {
            if let Some(absorbs) = &entry.absorbs {
                self.check_absorbs(entry, absorbs, &totals);
            }
        }
    }

    /// An upstream that is not declared can still be named by requests, so a condition on one is only suspicious.
    fn check_upstream_conditions(&mut self, document: &Document, declared: &BTreeSet<&str>) {
        let gates = document.allow.iter().chain(&document.block);
        let gates = gates.map(|entry| (entry.path.clone(), &entry.conditions));
        let limits = document.limits.iter().map(|entry| (format!("{}.match", entry.path), &entry.conditions));
        for (path, conditions) in limits.chain(gates) {
            for name in conditions.iter().flat_map(upstream_names) {
                if !declared.contains(name.value.as_str()) {
                    let message =
                        format!("`upstreams` has no `{}`: only requests that name it match", name.value);
                    let problem = Problem::warning(name.at, format!("{path}.upstream"), message);
                    self.report(problem.hint(upstream_hint(&name.value, declared)));
                }
            }
        }
    }

    /// Warns if no limit keeps all requests to an upstream within what it absorbs.
    fn check_absorbs(&mut self, entry: &UpstreamEntry, absorbs: &Spanned<Absorbs>, totals: &Totals<'_>) {
        let least = totals.of(&entry.name.value);
        let Absorbs { rate, burst } = absorbs.value;
        if least.is_some_and(|least| least.burst <= u128::from(burst) && least.is_within(rate)) {
            return;
        }
        let reaching = match least {
            Some(least) => format!("{} requests at once and {} a second", least.burst, least.per_second()),
            None => "any number of requests".to_owned(),
        };
        let name = &entry.name.value;
        let message =
            format!("{reaching} can reach `{name}`, which absorbs {burst} at once and {rate} a second");
        let hint = format!(
            "add a limit for all requests to it: `match: {{ upstream: {name} }}, key: [], sustained: {{ rate: {rate} }}, \
             burst: {{ capacity: {burst} }}`"
        );
        self.report(Problem::warning(absorbs.at, format!("{}.absorbs", entry.path), message).hint(hint));
    }
}

/// How many tokens a limit admits. Every request takes at least one.
#[derive(Clone, Copy, Debug)]
struct Reach {
    burst: u128,
    rate: u128,
    window: u128,
}

impl Reach {
    fn of(rule: &Rule) -> Reach {
        let numbers = rule.numbers;
        let burst = match rule.limit.algorithm() {
            Algorithm::TokenBucket => u128::from(numbers.capacity),
            Algorithm::SlidingWindow | Algorithm::SlidingLog => u128::from(numbers.rate),
            // The end of one window and the beginning of the next.
            Algorithm::FixedWindow => 2 * u128::from(numbers.rate),
        };
        Reach { burst, rate: numbers.rate.into(), window: numbers.window.get().into() }
    }

    /// Of two limits that apply to the same requests: the smaller burst and the lower rate.
    fn min(self, other: Reach) -> Reach {
        let slower = other.rate * self.window < self.rate * other.window;
        let (rate, window) = if slower { (other.rate, other.window) } else { (self.rate, self.window) };
        Reach { burst: self.burst.min(other.burst), rate, window }
    }

    fn is_within(self, a_second: u64) -> bool {
        self.rate * u128::from(Nanos::SECOND.get()) <= u128::from(a_second) * self.window
    }

    /// Rounded up.
    fn per_second(self) -> u128 {
        (self.rate * u128::from(Nanos::SECOND.get())).div_ceil(self.window)
    }
}

/// What the limits that count all requests together admit.
#[derive(Debug, Default)]
struct Totals<'r> {
    /// By limits without conditions.
    all: Option<Reach>,
    /// By limits for certain upstreams only.
    by_upstream: HashMap<&'r str, Reach>,
}

impl<'r> Totals<'r> {
    fn new(limits: &'r [Rule]) -> Totals<'r> {
        let mut totals = Totals::default();
        let mut groups: HashSet<u32> = HashSet::new();
        for rule in limits.iter().filter(|rule| rule.enabled && !rule.is_shadow()) {
            // Later limits of a group apply to what is left over by the first.
            let is_first = rule.group.as_ref().is_none_or(|group| groups.insert(group.number));
            let denies = !matches!(rule.strategy, Strategy::Degrade { .. });
            if !is_first || !denies || !rule.key.is_empty() {
                continue;
            }
            let reach = Reach::of(rule);
            let tighten = |held: Option<Reach>| held.map_or(reach, |held| held.min(reach));
            match &*rule.conditions {
                [] => totals.all = Some(tighten(totals.all)),
                [Condition::Value(Descriptor::Upstream, names)] => {
                    for name in names {
                        let held = totals.by_upstream.get(&**name).copied();
                        totals.by_upstream.insert(name, tighten(held));
                    }
                }
                _ => {}
            }
        }
        totals
    }

    /// What can reach an upstream; `None` if no limit counts all requests to it.
    fn of(&self, upstream: &str) -> Option<Reach> {
        let own = self.by_upstream.get(upstream).copied();
        self.all.into_iter().chain(own).reduce(Reach::min)
    }
}

/// The names of upstreams in a condition.
fn upstream_names(condition: &ConditionEntry) -> &[Spanned<String>] {
    match &condition.test {
        ConditionTest::Value(Descriptor::Upstream, names) => names,
        _ => &[],
    }
}

fn upstream_hint(name: &str, declared: &BTreeSet<&str>) -> String {
    match nearest(name, declared.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("add `{{ name: {name}, hosts: […] }}` to `upstreams`"),
    }
}
