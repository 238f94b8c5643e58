//! Counts decisions by the route that a request took, so that one can see where requests are denied.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_policy::{Facts, RuleSet};

use super::counters::Totals;
use crate::engine::decision::Ruling;

/// How many patterns of routes have counters of their own; later ones in the policy share those of [`OTHERS`].
const ROUTES_MAX: usize = 200;

/// Requests that took no route of the policy, or one beyond the first [`ROUTES_MAX`]. No pattern looks like this.
const OTHERS: &str = "(other)";

/// Counters by the pattern of a route. A pattern keeps them as long as policies use it.
pub(crate) type RouteTotals = HashMap<Box<str>, Arc<Totals>>;

/// What became of a request, whatever limits applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOutcome {
    /// Admitted.
    Allowed,
    /// Denied by a limit, its queue, or a burst penalty.
    Denied,
    /// Refused for another reason: blocked, a credential, an unknown tenant, the store.
    Refused,
}

impl RouteOutcome {
    /// All of them.
    pub const ALL: [RouteOutcome; 3] = [RouteOutcome::Allowed, RouteOutcome::Denied, RouteOutcome::Refused];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            RouteOutcome::Allowed => "allowed",
            RouteOutcome::Denied => "denied",
            RouteOutcome::Refused => "refused",
        }
    }

    fn of(ruling: &Ruling) -> RouteOutcome {
        match ruling.allowed {
            true => RouteOutcome::Allowed,
            false if ruling.reason.is_over_limit() => RouteOutcome::Denied,
            false => RouteOutcome::Refused,
        }
    }
}

/// The decisions about requests that took one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteCount {
    /// The pattern as in the policy; `(other)` for requests that took none, and for patterns beyond the first 200.
    pub route: String,
    /// How many requests had each outcome, in the order of [`RouteOutcome::ALL`].
    pub outcomes: [u64; RouteOutcome::ALL.len()],
}

/// The counters for one policy: those of [`OTHERS`], then one for each pattern. None at all without routes.
#[derive(Debug, Default)]
pub(crate) struct RouteCounters {
    counters: Vec<(Box<str>, Arc<Totals>)>,
    /// For each entry of `routes`, the index of its counters.
    places: Box<[usize]>,
}

impl RouteCounters {
    /// The counters for a policy; patterns that are known keep theirs.
    pub(crate) fn of(rules: &RuleSet, known: &RouteTotals) -> RouteCounters {
        let fresh = || Arc::new(Totals::new(RouteOutcome::ALL.len()));
        let counter = |name: &str| known.get(name).cloned().unwrap_or_else(fresh);
        let mut counters = vec![(OTHERS.into(), counter(OTHERS))];
        let (mut by_pattern, mut places) = (HashMap::<&str, usize>::new(), Vec::new());
        for pattern in rules.route_patterns() {
            let has_room = counters.len() <= ROUTES_MAX;
            let place = *by_pattern.entry(pattern).or_insert_with(|| {
                if has_room {
                    counters.push((pattern.into(), counter(pattern)));
                }
                if has_room { counters.len() - 1 } else { 0 }
            });
            places.push(place);
        }
        if places.is_empty() {
            RouteCounters::default()
        } else {
            RouteCounters { counters, places: places.into() }
        }
    }

    /// The counters by name.
    pub(crate) fn by_name(&self) -> RouteTotals {
        self.counters.iter().cloned().collect()
    }

    /// Counts a decision.
    #[inline]
    pub(crate) fn count(&self, facts: &Facts<'_, '_>, ruling: &Ruling) {
        if self.counters.is_empty() {
            return;
        }
        let place = facts.route_number().map_or(0, |number| self.places[number as usize]);
        self.counters[place].1.add(RouteOutcome::of(ruling) as usize);
    }

    /// The counts, in the order of the document.
    pub(crate) fn counts(&self) -> Vec<RouteCount> {
        let count = |(route, totals): &(Box<str>, Arc<Totals>)| RouteCount {
            route: route.to_string(),
            outcomes: RouteOutcome::ALL.map(|outcome| totals.get(outcome as usize)),
        };
        self.counters.iter().map(count).collect()
    }
}
