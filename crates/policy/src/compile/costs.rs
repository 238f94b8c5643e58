//! Finds costs that no bucket can ever hold.

use super::Compiler;
use crate::document::{CostEntry, Document, LimitEntry, RouteEntry};
use crate::rules::{CostRule, Rule};
use crate::{Condition, Descriptor, PathSpelling, Pattern, Problem, Spanned};

/// How many comparisons are made in total.
const COMPARISONS_MAX: usize = 5_000_000;

impl Compiler<'_> {
    /// Warns of a limit whose own cost is above its capacity.
    pub(super) fn check_own_cost(&mut self, entry: &LimitEntry, rule: &Rule) {
        let (at, cost) = match &entry.terms.cost {
            Some(CostEntry::Plain(cost) | CostEntry::PerCall(cost)) => (cost.at, cost.value),
            Some(CostEntry::From { from, default, .. }) => (from.at, *default),
            None => return,
        };
        if cost > rule.limit.capacity() {
            let message =
                format!("a request costs {cost}, and the limit holds at most {}", rule.limit.capacity());
            let problem = Problem::warning(at, format!("{}.cost", entry.path), message);
            let problem = problem.want(format!("at most {}", rule.limit.capacity()));
            self.report(problem.hint("it admits no such request, ever: raise the burst, or lower the cost"));
        }
    }

    /// Warns of routes that cost more than a limit that can apply to them ever holds.
    pub(super) fn check_route_costs(&mut self, document: &Document, rules: &[Rule]) {
        // In shadow mode or with `degrade` such a limit denies nobody, but says the same of every request.
        let is_replaced = |rule: &&Rule| rule.enabled && matches!(rule.cost, CostRule::Plain(_));
        let mut small: Vec<&Rule> = rules.iter().filter(is_replaced).collect();
        // The smallest first, so that a route is compared only with limits that it exceeds.
        small.sort_by_key(|rule| rule.limit.capacity());
        let mut left = COMPARISONS_MAX;
        for route in document.routes.iter().filter(|route| route.enabled) {
            let Some(cost) = route.cost else { continue };
            let pattern = route.pattern.value.with_spelling(document.defaults.paths);
            let exceeded = small.iter().take_while(|rule| rule.limit.capacity() < cost.value).find(|rule| {
                left = left.saturating_sub(1);
                left > 0 && can_meet(rule, route, &pattern, document.defaults.paths)
            });
            if let Some(rule) = exceeded {
                self.report(too_dear(route, cost, rule));
            }
        }
    }
}

fn too_dear(route: &RouteEntry, cost: Spanned<u32>, rule: &Rule) -> Problem {
    let message = format!(
        "costs {}, and the limit `{}` holds at most {}",
        cost.value,
        rule.name,
        rule.limit.capacity()
    );
    let hint = format!(
        "`{}` admits no request to this route, ever: raise its burst, lower the cost, or give the limit `cost: {{ fixed: 1 }}` \
         to count calls",
        rule.name
    );
    let want = format!("at most {}", rule.limit.capacity());
    Problem::warning(cost.at, format!("{}.cost", route.path), message).want(want).hint(hint)
}

/// Can a limit apply to a request to a route? `false` is certain; `true` may be wrong.
fn can_meet(rule: &Rule, route: &RouteEntry, pattern: &Pattern, spelling: PathSpelling) -> bool {
    let can_hold = |condition: &Condition| match condition {
        Condition::Path(patterns) => patterns.iter().any(|other| other.overlaps(pattern)),
        Condition::Method(methods) => {
            let known =
                |method: &Spanned<String>| methods.iter().any(|m| m.eq_ignore_ascii_case(&method.value));
            route.methods.is_empty() || route.methods.iter().any(known)
        }
        Condition::Value(Descriptor::Route, routes) => {
            let name = route.pattern.value.with_spelling(spelling);
            routes.iter().any(|known| **known == *name.as_str())
        }
        Condition::Value(Descriptor::Upstream, names) => {
            route.upstream.as_ref().is_none_or(|upstream| names.iter().any(|name| **name == *upstream.value))
        }
        Condition::Address(_) | Condition::Value(..) => true,
    };
    let always_holds = |condition: &Condition| match condition {
        Condition::Path(patterns) => patterns.iter().any(|other| other.covers(pattern)),
        Condition::Method(methods) => {
            let known =
                |method: &Spanned<String>| methods.iter().any(|m| m.eq_ignore_ascii_case(&method.value));
            !route.methods.is_empty() && route.methods.iter().all(known)
        }
        _ => false,
    };
    let excepted = !rule.unless.is_empty() && rule.unless.iter().all(always_holds);
    rule.conditions.iter().all(can_hold) && !excepted
}
