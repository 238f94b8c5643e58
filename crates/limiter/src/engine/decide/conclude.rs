//! From what a store says to a decision. Pure.

use tidegate_core::{Algorithm, LimitDecision, Nanos};
use tidegate_policy::{Plan, PlanItem, Rule, RuleSet, Strategy};

use crate::Verdict;
use crate::engine::decision::{Reason, Refuser, RuleStanding, Ruling};

/// Can the caller wait? Then a `queue` limit makes it wait; otherwise it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanWait {
    Waits,
    DoesNotWait,
}

/// The decision that a verdict on a plan amounts to. It is large, so it is filled in where it is.
pub(crate) fn conclude(
    rules: &RuleSet,
    plan: &Plan,
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
    let standings = &ruling.standings;
    let denied = |standing: &&RuleStanding| !standing.decision.is_allowed();
    let shadow = |standing: &&RuleStanding| rules.rule(standing.rule).is_shadow();
    let would_deny = standings.iter().filter(denied).filter(shadow).map(|s| Refuser::Rule(s.rule));
    ruling.shadow_denied.extend(would_deny);
    if verdict.allowed {
        let marks = |number: &u32| degrades(rules.rule(*number));
        ruling.degraded_by = standings.iter().filter(denied).map(|s| s.rule).find(marks);
        ruling.speaker = least_left(standings, |s| !shadow(&s));
        if ruling.speaker.is_some() {
            ruling.reason = Reason::Ok;
        }
        return ruling;
    }
    let refuses = |s: &RuleStanding| refuses(rules, s);
    // Who can wait for a queue need only be told of what nobody can wait for.
    let is_final = |s: &RuleStanding| caller == CanWait::DoesNotWait || !can_be_waited_for(rules, s);
    let speaker =
        tightest_of(standings, |s| refuses(s) && is_final(s)).or_else(|| tightest_of(standings, refuses));
    let refused = standings[speaker.expect("only a limit that binds refuses")];
    let is_never = refused.decision.is_never();
    ruling.allowed = false;
    ruling.reason = if is_never { Reason::CostExceedsCapacity } else { exceeded(rules.rule(refused.rule)) };
    ruling.refuser = Some(Refuser::Rule(refused.rule));
    let queues = standings.iter().filter(|s| refuses(s) && !is_final(s));
    let queueing = queues.map(|s| until_queued(rules, s)).max().unwrap_or_default();
    ruling.retry_after = refused.decision.wait().map(|wait| wait.max(queueing));
    ruling.retry_after_secs = ruling.retry_after.map(|wait| wait.as_secs_ceil().max(1));
    ruling.speaker = speaker;
    ruling
}

/// Does this limit refuse the request?
pub(crate) fn refuses(rules: &RuleSet, standing: &RuleStanding) -> bool {
    let rule = rules.rule(standing.rule);
    !standing.decision.is_allowed() && !rule.is_shadow() && !degrades(rule)
}

/// Would waiting in its queue help?
pub(crate) fn can_be_waited_for(rules: &RuleSet, standing: &RuleStanding) -> bool {
    matches!(rules.rule(standing.rule).strategy, Strategy::Queue { .. }) && !standing.decision.is_never()
}

/// How long until its queue would take the request: the promise of a refusal
/// includes that the queues have come down to what may be waited for.
fn until_queued(rules: &RuleSet, standing: &RuleStanding) -> Nanos {
    match (&rules.rule(standing.rule).strategy, standing.decision.wait()) {
        (Strategy::Queue { max_wait, .. }, Some(wait)) => wait.saturating_sub(*max_wait),
        _ => Nanos::ZERO,
    }
}

/// Does it only mark what it denies?
pub(crate) fn degrades(rule: &Rule) -> bool {
    !rule.is_shadow() && matches!(rule.strategy, Strategy::Degrade { .. })
}

/// The first of those that count which nothing that counts goes before.
fn first_of(
    standings: &[RuleStanding],
    counts: impl Fn(&RuleStanding) -> bool,
    goes_before: impl Fn(&LimitDecision, &LimitDecision) -> bool,
) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (place, standing) in standings.iter().enumerate() {
        let is_better = || best.is_none_or(|held| goes_before(&standing.decision, &standings[held].decision));
        if counts(standing) && is_better() {
            best = Some(place);
        }
    }
    best
}

/// The one with the smallest share remaining, whatever it says.
fn least_left(standings: &[RuleStanding], counts: impl Fn(&RuleStanding) -> bool) -> Option<usize> {
    first_of(standings, counts, LimitDecision::has_less_left_than)
}

fn tightest_of(standings: &[RuleStanding], counts: impl Fn(&RuleStanding) -> bool) -> Option<usize> {
    first_of(standings, counts, LimitDecision::is_tighter_than)
}

fn exceeded(rule: &Rule) -> Reason {
    match rule.limit.algorithm() {
        Algorithm::TokenBucket => Reason::TokenBucketExceeded,
        Algorithm::SlidingWindow => Reason::SlidingWindowExceeded,
        Algorithm::SlidingLog => Reason::SlidingLogExceeded,
        Algorithm::FixedWindow => Reason::FixedWindowExceeded,
    }
}
