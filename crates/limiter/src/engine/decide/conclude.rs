//! From the verdict of a store to a decision. A pure function.

use std::sync::Arc;

use tidegate_core::{Algorithm, LimitDecision, Nanos};
use tidegate_policy::{BoundOverride, Plan, PlanItem, PlanOverrides, Rule, RuleSet, Strategy};

use crate::engine::decision::{Refuser, RuleStanding, Ruling};
use crate::engine::reason::Reason;
use crate::{Charge, Verdict};

/// Can the caller wait? If so, a `queue` limit lets it wait; otherwise the limit denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanWait {
    Waits,
    DoesNotWait,
}

/// The decision that follows from a verdict on the charges of a plan. It is large, so it is filled in place.
pub(crate) fn conclude(
    rules: &RuleSet,
    (plan, charges): (&Plan, &[Charge<'_>]),
    verdict: &Verdict,
    now: Nanos,
    caller: CanWait,
) -> Ruling {
    let mut ruling = Ruling::admitted(now, Reason::NoLimit);
    let pairs = plan.items().iter().zip(&verdict.decisions);
    let standing = |(item, decision): (&PlanItem, &LimitDecision)| RuleStanding {
        rule: item.rule,
        decision: *decision,
        queued: false,
    };
    ruling.standings.extend(pairs.map(standing));
    ruling.overrides = charged_overrides(plan, charges);
    let standings = &ruling.standings;
    let denied = |standing: &&RuleStanding| !standing.decision.is_allowed();
    let shadow = |standing: &&RuleStanding| rules.rule(standing.rule).is_shadow();
    let would_deny = standings.iter().filter(denied).filter(shadow).map(|s| Refuser::Rule(s.rule));
    ruling.shadow_denied.extend(would_deny);
    if verdict.allowed {
        let marks = |number: &u32| degrades(rules.rule(*number));
        ruling.degraded_by = standings.iter().filter(denied).map(|s| s.rule).find(marks);
        ruling.tightest = least_left(standings, |s| !shadow(&s));
        if ruling.tightest.is_some() {
            ruling.reason = Reason::Ok;
        }
        return ruling;
    }
    let refuses = |s: &RuleStanding| refuses(rules, s);
    // For a caller that can wait, denials that no queue can lift are reported first.
    let is_final = |s: &RuleStanding| caller == CanWait::DoesNotWait || !can_be_waited_for(rules, s);
    let tightest =
        tightest_of(standings, |s| refuses(s) && is_final(s)).or_else(|| tightest_of(standings, refuses));
    let refused = standings[tightest.expect("only a limit that binds refuses")];
    let is_never = refused.decision.is_never();
    ruling.allowed = false;
    ruling.reason = if is_never { Reason::CostExceedsCapacity } else { exceeded(rules.rule(refused.rule)) };
    ruling.refuser = Some(Refuser::Rule(refused.rule));
    let queues = standings.iter().filter(|s| refuses(s) && !is_final(s));
    let queueing = queues.map(|s| until_queued(rules, s)).max().unwrap_or_default();
    ruling.retry_after = refused.decision.wait().map(|wait| wait.max(queueing));
    ruling.retry_after_secs = ruling.retry_after.map(|wait| wait.as_secs_ceil().max(1));
    ruling.tightest = tightest;
    ruling
}

/// The overrides in whose numbers limits were charged. A store that cannot count in those of an override charges the limit
/// itself, and of requests that are decided together one may be charged in the numbers of another.
fn charged_overrides(plan: &Plan, charges: &[Charge<'_>]) -> PlanOverrides {
    let is_charged = |(index, overridden): &&(u32, Arc<BoundOverride>)| {
        charges[*index as usize].limit.variant().numbers == Some(overridden.numbers)
    };
    plan.overrides.iter().filter(is_charged).cloned().collect()
}

/// Does this limit refuse the request?
pub(crate) fn refuses(rules: &RuleSet, standing: &RuleStanding) -> bool {
    let rule = rules.rule(standing.rule);
    !standing.decision.is_allowed() && !rule.is_shadow() && !degrades(rule)
}

/// Would waiting in the queue of this limit help?
pub(crate) fn can_be_waited_for(rules: &RuleSet, standing: &RuleStanding) -> bool {
    matches!(rules.rule(standing.rule).strategy, Strategy::Queue { .. }) && !standing.decision.is_never()
}

/// The time until the queue of this limit would accept the request: the wait returned with a denial includes
/// the time until the queues are short enough.
fn until_queued(rules: &RuleSet, standing: &RuleStanding) -> Nanos {
    match (&rules.rule(standing.rule).strategy, standing.decision.wait()) {
        (Strategy::Queue { max_wait, .. }, Some(wait)) => wait.saturating_sub(*max_wait),
        _ => Nanos::ZERO,
    }
}

/// Does the limit only mark what it denies?
pub(crate) fn degrades(rule: &Rule) -> bool {
    !rule.is_shadow() && matches!(rule.strategy, Strategy::Degrade { .. })
}

/// The index of the first standing in the order of `goes_before`, among those for which `counts` is true.
fn first_of(
    standings: &[RuleStanding],
    counts: impl Fn(&RuleStanding) -> bool,
    goes_before: impl Fn(&LimitDecision, &LimitDecision) -> bool,
) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, standing) in standings.iter().enumerate() {
        let is_better = || best.is_none_or(|held| goes_before(&standing.decision, &standings[held].decision));
        if counts(standing) && is_better() {
            best = Some(index);
        }
    }
    best
}

/// The standing with the smallest fraction remaining, allowed or denied.
fn least_left(standings: &[RuleStanding], counts: impl Fn(&RuleStanding) -> bool) -> Option<usize> {
    first_of(standings, counts, LimitDecision::has_less_left_than)
}

fn tightest_of(standings: &[RuleStanding], counts: impl Fn(&RuleStanding) -> bool) -> Option<usize> {
    first_of(standings, counts, LimitDecision::is_tighter_than)
}

pub(crate) fn exceeded(rule: &Rule) -> Reason {
    match rule.limit.algorithm() {
        Algorithm::TokenBucket => Reason::TokenBucketExceeded,
        Algorithm::SlidingWindow => Reason::SlidingWindowExceeded,
        Algorithm::SlidingLog => Reason::SlidingLogExceeded,
        Algorithm::FixedWindow => Reason::FixedWindowExceeded,
    }
}
