//! What must hold of burst detectors: nobody is punished who sent too little, no penalty is forgotten by the server
//! unless it lost writes, and no node admits a request of a user whose block it knows or must know.

use std::collections::BTreeMap;

use tidegate::BurstAction;
use tidegate::engine::bursts::BurstState;
use tidegate_core::Nanos;
use tidegate_redis::{BucketKey, BurstAnswer, BurstCallEntry, StoreMode};

use super::burst_record::{BurstEvents, HeardBurst, ServerBurstEvent};
use crate::run::RunNotes;
use crate::scenario::Scenario;
use crate::{FaultKind, START};

/// How often a node sends what it has counted.
const SENT_EVERY: Nanos = Nanos::from_millis(100);

/// How long after a fault nodes may decide without the server.
const HEALS_WITHIN: Nanos = Nanos::from_millis(2_200);

/// What the server should know of one key.
#[derive(Debug, Default)]
struct KeyTruth {
    length: Nanos,
    /// By the number of a window: how many requests it was told, and whether they have crossed the threshold.
    windows: BTreeMap<u64, (u64, bool)>,
    penalty: Option<TruePenalty>,
}

#[derive(Clone, Copy, Debug)]
struct TruePenalty {
    kind: BurstAction,
    /// By the server's clock.
    ends: Nanos,
    /// Has the server lost writes since?
    may_be_lost: bool,
}

/// The time in which a key is blocked, in true time.
#[derive(Clone, Debug)]
struct BlockSpan {
    key: BucketKey,
    from: Nanos,
    until: Nanos,
}

/// Checks everything; returns how many penalties the server has lost, which only a fault may do.
pub(super) fn check_bursts(
    scenario: &Scenario,
    notes: &RunNotes,
    events: &BurstEvents,
    violations: &mut Vec<String>,
) -> u64 {
    if scenario.bursts.is_none() {
        return 0;
    }
    let mut all = Vec::new();
    check_sent_once(events, &mut all);
    let (spans, lost) = check_server(events, &mut all);
    check_heard_blocks(scenario, notes, events, &mut all);
    check_blocks_spread(scenario, notes, events, &spans, &mut all);
    check_actions_counted(scenario, notes, events, &mut all);
    if scenario.is_calm() {
        check_calm(scenario, notes, events, &mut all);
    }
    // One of each kind says enough.
    all.truncate(20);
    violations.append(&mut all);
    lost
}

/// No node tells the server of more requests than it had.
fn check_sent_once(events: &BurstEvents, violations: &mut Vec<String>) {
    let mut told: BTreeMap<(usize, &BucketKey), u64> = BTreeMap::new();
    for (now, event) in &events.server {
        let ServerBurstEvent::Counted { node, entry, .. } = event else { continue };
        let Some(&user) = events.users.get(&entry.key) else { continue };
        let sum = told.entry((*node, &entry.key)).or_default();
        *sum += requests(entry);
        let made = events.made.get(&(*node, user)).map_or(0, |made| made.partition_point(|at| at <= now));
        if *sum > made as u64 {
            let at = now.saturating_sub(START);
            violations
                .push(format!("bursts: node {node} told {sum} requests of user {user} of {made}, at {at}"));
            return;
        }
    }
}

fn requests(entry: &BurstCallEntry) -> u64 {
    entry.counts.iter().map(|&(_, requests)| u64::from(requests)).sum()
}

/// The server escalates only where it was told of too many requests, once a window, and remembers every penalty until its
/// end. Returns when keys were blocked, and how many penalties it lost with other writes.
fn check_server(events: &BurstEvents, violations: &mut Vec<String>) -> (Vec<BlockSpan>, u64) {
    let mut truths: BTreeMap<&BucketKey, KeyTruth> = BTreeMap::new();
    let (mut spans, mut lost, mut last, mut stepped_back) = (Vec::new(), 0, Nanos::ZERO, false);
    for (now, event) in &events.server {
        let ServerBurstEvent::Counted { at, entry, answer, .. } = event else {
            forget_after_loss(&mut truths, &mut spans, *now);
            continue;
        };
        // The server counts in microseconds.
        let at = Nanos::new(at.get() / 1_000 * 1_000);
        if at < last {
            // Time that passes twice may be counted twice, once the first count was forgotten.
            stepped_back = true;
            truths.values_mut().for_each(|truth| truth.windows.clear());
        }
        last = at;
        for truth in truths.values_mut() {
            truth.penalty = truth.penalty.filter(|penalty| penalty.ends > at);
        }
        let truth = truths.entry(&entry.key).or_default();
        let crossings = truth.count(entry, at);
        let when = now.saturating_sub(START);
        if answer.action.is_some() && crossings == 0 && !stepped_back {
            violations
                .push(format!("bursts: {:?} at {when} without too many requests in a window", answer.action));
        }
        match truth.check_penalty(entry, answer, at) {
            PenaltyCheck::Known => {}
            PenaltyCheck::Lost => lost += 1,
            PenaltyCheck::Forgotten => {
                violations.push(format!("bursts: the server forgot a penalty, at {when}"))
            }
            PenaltyCheck::FromNowhere if stepped_back => {}
            PenaltyCheck::FromNowhere => {
                violations.push(format!("bursts: a penalty that no request caused, at {when}"));
            }
        }
        if answer.action == Some(BurstAction::Blocked) {
            let left = answer.penalty.map_or(Nanos::ZERO, |(_, left)| left);
            spans.push(BlockSpan { key: entry.key.clone(), from: *now, until: now.saturating_add(left) });
        }
    }
    (spans, lost)
}

/// The server has lost writes: what it knew may be gone, and a window may escalate again.
fn forget_after_loss(truths: &mut BTreeMap<&BucketKey, KeyTruth>, spans: &mut [BlockSpan], now: Nanos) {
    for truth in truths.values_mut() {
        truth.windows.values_mut().for_each(|(_, crossed)| *crossed = false);
        truth.penalty.iter_mut().for_each(|penalty| penalty.may_be_lost = true);
    }
    spans.iter_mut().for_each(|span| span.until = span.until.min(now));
}

/// What an answer says about the penalty of a key.
enum PenaltyCheck {
    /// What is known, or what begins now.
    Known,
    /// Nothing, and it was lost with other writes.
    Lost,
    /// Nothing, and nothing was lost.
    Forgotten,
    /// A penalty that did not begin with this call or an earlier one.
    FromNowhere,
}

impl KeyTruth {
    /// Counts, and returns how many windows cross the threshold by it.
    fn count(&mut self, entry: &BurstCallEntry, at: Nanos) -> usize {
        let length = Nanos::new((entry.window.get() / 1_000).max(1) * 1_000);
        if self.length != length && !entry.counts.is_empty() {
            (self.length, self.windows) = (length, BTreeMap::new());
        }
        let mut crossings = 0;
        for &(age, requests) in &entry.counts {
            let made_at = at.saturating_sub(Nanos::new(age.get() / 1_000 * 1_000));
            let (sum, crossed) = self.windows.entry(made_at.get() / length.get()).or_default();
            *sum += u64::from(requests);
            if !*crossed && *sum > u64::from(entry.threshold) {
                (*crossed, crossings) = (true, crossings + 1);
            }
        }
        crossings
    }

    fn check_penalty(&mut self, entry: &BurstCallEntry, answer: &BurstAnswer, at: Nanos) -> PenaltyCheck {
        let known = self.penalty.take().filter(|_| !entry.lifts);
        self.penalty = answer.penalty.map(|(kind, left)| TruePenalty {
            kind,
            ends: at.saturating_add(left),
            may_be_lost: false,
        });
        let is_block = |kind: BurstAction| kind == BurstAction::Blocked;
        match (known, self.penalty) {
            (None, Some(_)) if answer.action.is_none() => PenaltyCheck::FromNowhere,
            (None, _) => PenaltyCheck::Known,
            (Some(known), Some(now))
                if now.ends >= known.ends && (is_block(now.kind) || !is_block(known.kind)) =>
            {
                self.penalty = Some(TruePenalty { may_be_lost: known.may_be_lost, ..now });
                PenaltyCheck::Known
            }
            (Some(known), _) if known.may_be_lost => PenaltyCheck::Lost,
            (Some(_), _) => PenaltyCheck::Forgotten,
        }
    }
}

/// No node admits a request while a block runs that it has heard of.
fn check_heard_blocks(
    scenario: &Scenario,
    notes: &RunNotes,
    events: &BurstEvents,
    violations: &mut Vec<String>,
) {
    let mut by_user: BTreeMap<(usize, usize), Vec<&HeardBurst>> = BTreeMap::new();
    for heard in &events.heard {
        if let Some(&user) = events.users.get(&heard.key) {
            by_user.entry((heard.node, user)).or_default().push(heard);
        }
    }
    for request in notes.requests.iter().filter(|request| request.answer.allowed) {
        // With a clock that jumps, a node cannot know when a block ends.
        if has_jumping_clock(scenario, request.node) {
            continue;
        }
        let started = events.starts.iter().filter(|&&(at, node)| node == request.node && at <= request.from);
        let started = started.map(|&(at, _)| at).max().unwrap_or(START);
        let user = request.user.unwrap_or_default();
        let about = || by_user.get(&(request.node, user)).into_iter().flatten();
        // What a request hears while it waits counts, too. Of what happens at the same instant the order is not known.
        let (waits, at_once) =
            (request.until > request.from, |heard: &HeardBurst| heard.received == request.from);
        let known = about().filter(|heard| started <= heard.sent && heard.received <= request.until);
        let is_unclear = !waits && about().any(|heard| at_once(heard));
        let Some(latest) = known.max_by_key(|heard| heard.sent).filter(|_| !is_unclear) else { continue };
        let Some((BurstAction::Blocked, left)) = latest.answer.penalty else { continue };
        // By the fastest clock.
        let ends = latest.received.saturating_add(Nanos::new(left.get() - left.get() / 1_000));
        if request.until < ends {
            let (node, at) = (request.node, request.from.saturating_sub(START));
            violations.push(format!("bursts: node {node} admitted user {user} at {at}, whose block it knew"));
            return;
        }
    }
}

fn has_jumping_clock(scenario: &Scenario, node: usize) -> bool {
    scenario.faults.iter().any(|fault| {
        matches!(fault.what, FaultKind::NodeStep(stepped, _) if stepped == node)
            || matches!(fault.what, FaultKind::Suspend { node: suspended, .. } if suspended == node)
    })
}

/// A block on the server is noticed by every node that reaches it: in strict mode by each request, otherwise soon after
/// the first one.
fn check_blocks_spread(
    scenario: &Scenario,
    notes: &RunNotes,
    events: &BurstEvents,
    spans: &[BlockSpan],
    violations: &mut Vec<String>,
) {
    let deadlines = |number: u64| Nanos::new(scenario.deadline.get() * number);
    let late_by = match scenario.mode {
        StoreMode::Strict => Nanos::ZERO,
        // Then a node has sent its counts, and heard the answer.
        StoreMode::Hybrid { life } => SENT_EVERY.max(life.into()).saturating_add(deadlines(5)),
    };
    for span in spans {
        let Some(user) = events.users.get(&span.key) else { continue };
        let mut first: BTreeMap<usize, Nanos> = BTreeMap::new();
        // By the fastest clock.
        let early_by = Nanos::new(span.until.saturating_sub(span.from).get() / 1_000);
        for request in notes.requests.iter().filter(|request| request.user == Some(*user)) {
            if request.from <= span.from || request.until.saturating_add(early_by) >= span.until {
                continue;
            }
            let first = first.entry(request.node).or_insert(request.from);
            *first = request.from.min(*first);
            let must_know =
                scenario.mode == StoreMode::Strict || request.from > first.saturating_add(late_by);
            if request.answer.allowed && must_know && is_quiet(scenario, span.from.min(*first), request.until)
            {
                let (node, at) = (request.node, request.from.saturating_sub(START));
                let since = span.from.saturating_sub(START);
                violations.push(format!(
                    "bursts: node {node} admitted user {user} at {at}, who was blocked on the server since {since}"
                ));
                return;
            }
        }
    }
}

/// Was there no fault, nor the time in which nodes recover from one?
fn is_quiet(scenario: &Scenario, from: Nanos, until: Nanos) -> bool {
    let disturbs = |begin: Nanos, end: Nanos| begin <= until && from <= end.saturating_add(HEALS_WITHIN);
    !scenario.faults.iter().any(|fault| disturbs(fault.from, fault.until))
}

/// Every action that a node has heard of is counted there once, whether or not a request has asked for it.
fn check_actions_counted(
    scenario: &Scenario,
    notes: &RunNotes,
    events: &BurstEvents,
    violations: &mut Vec<String>,
) {
    for (&node, &counted) in &notes.burst_actions {
        // What a node has counted is lost when it ends.
        if events.starts.iter().filter(|&&(_, started)| started == node).count() > 1 {
            continue;
        }
        let actions = |until: Nanos| -> u64 {
            let heard = events.heard.iter().filter(|heard| heard.node == node && heard.received <= until);
            heard.map(|heard| actions_of(&heard.answer)).sum()
        };
        // Requests that hear of one at the end are not decided yet. Own detectors decide only if there are faults.
        let least = actions(scenario.end.saturating_sub(Nanos::SECOND));
        let most = if scenario.is_calm() { actions(scenario.end) } else { u64::MAX };
        if !(least..=most).contains(&counted) {
            violations.push(format!("bursts: node {node} counted {counted} actions of {least} to {most}"));
        }
    }
}

fn actions_of(answer: &BurstAnswer) -> u64 {
    u64::from(answer.action.is_some()) + u64::from(answer.warned_before)
}

/// Without faults and edits the server is told of every request, and each escalation is told to one request at most.
fn check_calm(scenario: &Scenario, notes: &RunNotes, events: &BurstEvents, violations: &mut Vec<String>) {
    let (mut told, mut actions) = (BTreeMap::<usize, u64>::new(), BTreeMap::<usize, u64>::new());
    for (_, event) in &events.server {
        let ServerBurstEvent::Counted { entry, answer, .. } = event else { continue };
        let Some(&user) = events.users.get(&entry.key) else { continue };
        *told.entry(user).or_default() += requests(entry);
        *actions.entry(user).or_default() += actions_of(answer);
    }
    let (mut made, mut decided) = (BTreeMap::<usize, u64>::new(), BTreeMap::<usize, u64>::new());
    // The last counts may still be under way.
    let counted_until = scenario.end.saturating_sub(Nanos::SECOND);
    for request in &notes.requests {
        let Some(user) = request.user else { continue };
        let state = request.answer.burst;
        // What is blocked is not counted.
        if request.until < counted_until && !request.answer.is_blocked {
            *made.entry(user).or_default() += 1;
        }
        let escalated = matches!(state, Some(BurstState::WarningIssued | BurstState::BlockedTemporarily));
        *decided.entry(user).or_default() += u64::from(escalated);
    }
    for (user, made) in made {
        let told = told.get(&user).copied().unwrap_or(0);
        if told < made {
            violations.push(format!("bursts: the server was told {told} of {made} requests of user {user}"));
        }
    }
    for (user, decided) in decided {
        let actions = actions.get(&user).copied().unwrap_or(0);
        if decided > actions {
            violations.push(format!("bursts: user {user} was told {decided} escalations of {actions}"));
        }
    }
}
