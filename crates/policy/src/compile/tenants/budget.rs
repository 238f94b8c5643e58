//! Checks budgets: their totals, what their tenants are allotted, and what remains.

use super::plane::Plane;
use crate::Problem;
use crate::compile::Compiler;
use crate::compile::fraction::Fraction;
use crate::document::{Budget, BudgetMode, LimitTerms, Remainder, Sharing, TenantLimit};
use crate::rules::{Allocation, Numbers, WindowLength};
use tidegate_core::Algorithm;

impl Compiler<'_> {
    /// Reports a burst without a rate, which would have no effect.
    pub(super) fn check_burst(&mut self, path: &str, terms: &LimitTerms) {
        let burst = terms.burst.as_ref().map(|burst| (burst.at, "burst"));
        let preset = terms.preset.as_ref().map(|preset| (preset.at, "preset"));
        if let (None, Some((at, field))) = (&terms.sustained, burst.or(preset)) {
            let problem =
                Problem::error(at, format!("{path}.{field}"), format!("`{field}` without `sustained`"));
            self.report(problem.want("`sustained: { rate: …, window: … }` beside it"));
        }
    }

    pub(super) fn check_budget(&mut self, path: &str, budget: &Budget, own: Option<Numbers>) {
        let path = format!("{path}.budget");
        let unlimited = budget.mode == BudgetMode::Unlimited;
        if unlimited && (budget.total.is_some() || budget.overcommit.is_some()) {
            let message = "`total` and `overcommit_ratio` do nothing in an unlimited budget";
            let problem = Problem::warning(budget.at, path, message);
            self.report(problem.hint("write `mode: allocated` or `mode: shared` to use them"));
        } else if !unlimited && budget.total.is_some() && own.is_none() {
            let message = "`total` of a budget counts per window, and without `sustained` there is no window";
            let problem = Problem::error(budget.at, path, message);
            self.report(problem.want("`sustained: { rate: …, window: … }` beside the budget"));
        }
    }

    /// Checks every allocated budget, and sets what remains of it for children without numbers of their own.
    pub(super) fn check_allocations(&mut self, plane: &mut Plane<'_>) {
        for index in 0..plane.nodes.len() {
            let (limit, own) = (plane.limits[index], plane.nodes[index].own);
            let (Some(limit), Some(own)) = (limit, own) else { continue };
            let Some(budget) = limit.budget.filter(|budget| budget.mode == BudgetMode::Allocated) else {
                continue;
            };
            let children = &plane.tree.children[index];
            let listed = children.iter().filter(|&&child| plane.tree.unlisted != Some(child));
            let allotted: Vec<Numbers> = listed.filter_map(|&child| plane.nodes[child].own).collect();
            let sum = Fraction::sum(allotted.iter().map(|child| {
                let tokens = u128::from(child.rate) * u128::from(own.window.get());
                Fraction::new(tokens, u128::from(child.window.get()))
            }));
            let total = budget.total.map_or(own.rate, |total| total.value);
            plane.nodes[index].allocation = Some(allocation(&budget, sum, total));
            if !allotted.is_empty() {
                self.check_sum(plane, index, limit, (sum, total), own);
                self.check_bursts(plane, index, limit, &allotted, own);
            }
            // Nothing of a private limit reaches the tenants below, so nothing of it remains for them.
            if limit.sharing != Sharing::Private {
                plane.nodes[index].remainder = self.remainder(plane, index, &budget, (sum, total), own);
            }
        }
    }

    fn check_sum(
        &mut self,
        plane: &Plane<'_>,
        index: usize,
        limit: &TenantLimit,
        (sum, total): (Fraction, u64),
        own: Numbers,
    ) {
        let Some(budget) = &limit.budget else { return };
        let (id, window) = (plane.tree.id(index), WindowLength(own.window));
        let most = most(budget, total);
        let at = budget.total.map_or(budget.at, |total| total.at);
        let path = format!("{}.budget", limit.path);
        let message = format!(
            "the rates of the children of `{id}` add up to {} per {window}, and its budget is {total}",
            sum.ceil()
        );
        if sum > most {
            let want = format!("a sum of at most {} ({total} × overcommit_ratio)", most.floor());
            let problem = Problem::error(at, path, message).saw(sum.ceil().to_string()).want(want);
            self.report(
                problem
                    .hint("lower the children's rates, raise `total`, or raise `overcommit_ratio` (up to 2)"),
            );
        } else if sum > Fraction::new(u128::from(total), 1) {
            let problem = Problem::warning(at, path, message).saw(sum.ceil().to_string());
            let hint = "within overcommit_ratio: together the children still never get more than the budget";
            self.report(problem.hint(hint));
        }
    }

    /// Warns if the children's bursts together exceed the burst of the budget.
    fn check_bursts(
        &mut self,
        plane: &Plane<'_>,
        index: usize,
        limit: &TenantLimit,
        allotted: &[Numbers],
        own: Numbers,
    ) {
        let sum: u64 = allotted.iter().map(|child| u64::from(child.capacity)).sum();
        let is_bucket = plane.terms(index).algorithm == Algorithm::TokenBucket;
        if !is_bucket || sum <= u64::from(own.capacity) {
            return;
        }
        let id = plane.tree.id(index);
        let message = format!(
            "the bursts of the children of `{id}` add up to {sum}, and its own burst is {}",
            own.capacity
        );
        let problem = Problem::warning(limit.at, format!("{}.burst", limit.path), message);
        let hint = "when several children burst at once, this tenant's bucket may refuse some of it";
        self.report(problem.saw(sum.to_string()).hint(hint));
    }

    /// The numbers of what remains of an allocated budget, if a child has no numbers of its own.
    fn remainder(
        &mut self,
        plane: &Plane<'_>,
        index: usize,
        budget: &Budget,
        (sum, total): (Fraction, u64),
        own: Numbers,
    ) -> Option<Numbers> {
        let left = Fraction::new(u128::from(total), 1).minus(sum).floor();
        let without = plane.tree.children[index].iter().filter(|&&child| plane.nodes[child].own.is_none());
        let without: Vec<usize> = without.copied().collect();
        if without.is_empty() {
            return None;
        }
        if budget.remainder == Remainder::Reserve || left == 0 {
            without.into_iter().for_each(|child| self.report_unallotted(plane, index, child, budget, total));
            return None;
        }
        let rate = u64::try_from(left).unwrap_or(u64::MAX);
        let effective = plane.nodes[index].effective.unwrap_or(own);
        Some(Numbers { rate, window: own.window, capacity: effective.capacity })
    }

    fn report_unallotted(
        &mut self,
        plane: &Plane<'_>,
        index: usize,
        child: usize,
        budget: &Budget,
        total: u64,
    ) {
        let (id, parent) = (plane.tree.id(child), plane.tree.id(index));
        let entry = &plane.tree.entries[child];
        let (member, to) = match plane.upstream {
            Some(upstream) => (format!("upstreams.{upstream}.rate_limit"), format!(" for `{upstream}`")),
            None => ("rate_limit".to_owned(), String::new()),
        };
        let why = match budget.remainder {
            Remainder::Reserve => "keeps what remains in reserve".to_owned(),
            Remainder::Shared => format!("has allotted all of its {total}"),
        };
        let message = format!("`{id}` has no rate of its own{to}, and the budget of `{parent}` {why}");
        let problem = Problem::error(entry.at, format!("{}.{member}", entry.path), message);
        let want = format!("`{member}: {{ sustained: {{ rate: …, window: … }} }}` for `{id}`");
        let hint = match budget.remainder {
            Remainder::Reserve => "or write `remainder: shared` in the budget",
            Remainder::Shared => "or lower the rates of the others, or raise `total`",
        };
        self.report(problem.want(want).hint(hint));
    }
}

/// By how much the sum of the children may exceed a budget, in millionths.
fn overcommit(budget: &Budget) -> u32 {
    budget.overcommit.map_or(1_000_000, |ratio| ratio.value)
}

/// The largest sum of the children of a budget.
fn most(budget: &Budget, total: u64) -> Fraction {
    Fraction::new(u128::from(total) * u128::from(overcommit(budget)), 1_000_000)
}

fn allocation(budget: &Budget, sum: Fraction, total: u64) -> Allocation {
    let (most, whole) = (most(budget, total), |number: u128| u64::try_from(number).unwrap_or(u64::MAX));
    Allocation {
        sum: whole(sum.ceil()),
        total,
        overcommit_millionths: overcommit(budget).into(),
        left: whole(most.minus(sum).floor()),
        is_exceeded: sum > most,
    }
}
