//! The invariants that must hold in every run, whatever failed in it, and the check of all of them after a run.

mod account;
pub(crate) mod burst_record;
mod bursts;
mod envelope;
mod in_force;
mod lease_life;
mod ledger;
mod naive_bucket;
mod prepaid;
mod refusal_age;
pub(crate) mod served;
pub(crate) mod token_record;
mod trials;
mod window_counts;

use tidegate_core::{Limit, Meter, Nanos, Quota};
use tidegate_redis::StoreMode;

use crate::run::{RunNotes, ScenarioRun, SimRequest, SoloEvent};
use crate::scenario::{LimitSpec, Scenario};
use crate::world::lock;
use crate::{FaultKind, START, SeedOutcome};
use burst_record::ServerBurstEvent;
use token_record::BucketRecord;

pub use envelope::{Allowance, Envelope};
pub use lease_life::used_after_expiry;
pub use prepaid::{never_spent, spent_unpaid};
pub use refusal_age::has_recent_answer;
pub use window_counts::{WindowAllowance, count_violation};

/// After the last fault ends, every node must decide by the server again within this time.
const HEALS_WITHIN: Nanos = Nanos::from_secs(2);

/// The longest that a node refuses without a call to the server.
const REFUSAL_AGE_MAX: Nanos = Nanos::from_secs(5);

/// Checks all invariants after a run, and fills in the outcome.
pub(crate) fn check_all(run: &ScenarioRun, outcome: &mut SeedOutcome) {
    let (records, unknown_calls) = run.record.close();
    let notes = lock(&run.notes);
    let mut violations = Vec::new();
    if unknown_calls > 0 {
        violations.push(format!("{unknown_calls} calls about buckets that no request named"));
    }
    let events = run.record.take_served();
    ledger::check_ledger(&run.scenario, &notes, &events, &mut violations);
    let (records, tried) = records.split_at(run.scenario.buckets().len());
    for (bucket, record) in records.iter().enumerate() {
        let excess = check_envelope(&run.scenario, &notes, bucket, record, &mut violations);
        outcome.excess = outcome.excess.max(excess);
        check_lease_life(&run.scenario, &notes, bucket, record, &mut violations);
    }
    check_fallback_share(&run.scenario, &notes, &mut violations);
    check_refusal_age(&run.scenario, &notes, records, &mut violations);
    check_requests(run, &notes, &mut violations);
    outcome.compared = trials::check_trials(run, &notes, &events, &mut violations);
    trials::check_tried_windows(&run.scenario, &notes, tried, &mut violations);
    check_nothing_wasted(&run.scenario, records, &mut violations);
    check_throughput(&run.scenario, records, &mut violations);
    let events = run.network.bursts().close();
    outcome.penalties_lost = bursts::check_bursts(&run.scenario, &notes, &events, &mut violations);
    let is_escalation = |event: &ServerBurstEvent| matches!(event, ServerBurstEvent::Counted { answer, .. } if answer.action.is_some());
    outcome.escalations = events.server.iter().filter(|(_, event)| is_escalation(event)).count() as u64;
    violations.extend(notes.broken.iter().map(|broken| format!("a broken retry promise: {broken}")));
    outcome.requests = notes.requests.len() as u64;
    outcome.admitted = notes.requests.iter().filter(|request| request.answer.allowed).count() as u64;
    outcome.without_store =
        notes.requests.iter().filter(|request| request.answer.without_store).count() as u64;
    outcome.granted = records.iter().map(|record| record.granted.len() as u64).sum();
    outcome.promises = notes.promises;
    outcome.violations = violations;
}

/// No token is spent that the server did not give, and no more than the limit plus the published bound.
fn check_envelope(
    scenario: &Scenario,
    notes: &RunNotes,
    bucket: usize,
    record: &BucketRecord,
    violations: &mut Vec<String>,
) -> (u64, u64) {
    let spec = &scenario.limits[scenario.buckets()[bucket]];
    let name = &spec.name;
    if let Some((at, tokens)) = spent_unpaid(record) {
        let at = at.saturating_sub(START);
        violations.push(format!(
            "bucket {bucket} ({name}): {tokens} tokens spent at {at} that the server had not given"
        ));
    }
    let allowances = allowances(notes, bucket, record);
    let Limit::Meter(Meter::TokenBucket(quota)) = &spec.limit else {
        check_windows(scenario, (bucket, spec), &record.spent, &allowances, violations);
        return (0, 0);
    };
    // The ledger has the numbers of each moment. This is what holds without it, in the largest of them.
    let quota = &scenario.raised(quota);
    let life = match scenario.mode {
        StoreMode::Strict => Nanos::ZERO,
        StoreMode::Hybrid { life } => life.into(),
    };
    let mut envelope = Envelope::new(quota, life);
    let mut allowances = allowances.into_iter().peekable();
    for &(at, tokens) in &record.spent {
        while let Some((at, allowance)) = allowances.next_if(|(when, _)| *when <= at) {
            envelope.allow(at, allowance);
        }
        envelope.spend(at, tokens);
    }
    let bound = notes.bounds.get(name).copied().unwrap_or(0) + stretch(scenario, notes, quota);
    let excess = envelope.excess();
    if excess > bound {
        violations
            .push(format!("bucket {bucket} ({name}): {excess} tokens above B + R·t, the bound is {bound}"));
    }
    (excess, bound)
}

/// What more may be spent of a bucket, in the order of time: because of faults, and by what the actions of the scenario say.
fn allowances(notes: &RunNotes, bucket: usize, record: &BucketRecord) -> Vec<(Nanos, Allowance)> {
    let of_faults = notes.allowances.iter().filter(|(_, of, _)| of.is_none_or(|of| of == bucket));
    let of_faults = of_faults.map(|&(at, _, allowance)| (at, allowance));
    let mut allowances: Vec<_> = of_faults.chain(record.granted.iter().copied()).collect();
    allowances.sort_by_key(|&(at, _)| at);
    allowances
}

/// Windows and logs count no more than their limit and what is allowed beyond it. A server whose clock is set has other
/// windows than the true time, so these worlds are left out.
fn check_windows(
    scenario: &Scenario,
    (bucket, spec): (usize, &LimitSpec),
    spent: &[(Nanos, u32)],
    allowances: &[(Nanos, Allowance)],
    violations: &mut Vec<String>,
) {
    if has_server_step(scenario) {
        return;
    }
    let most = spec.limit.capacity();
    let allowances: Vec<WindowAllowance> =
        allowances.iter().map(|&(at, allowance)| WindowAllowance::of(at, allowance, most)).collect();
    if let Some(why) = count_violation(&spec.limit, spent, &allowances) {
        violations.push(format!("bucket {bucket} ({}): {why}", spec.name));
    }
}

/// No node uses a lease after its life.
fn check_lease_life(
    scenario: &Scenario,
    notes: &RunNotes,
    bucket: usize,
    record: &BucketRecord,
    violations: &mut Vec<String>,
) {
    let Limit::Meter(Meter::TokenBucket(quota)) = &scenario.limits[scenario.buckets()[bucket]].limit else {
        return;
    };
    let StoreMode::Hybrid { life } = scenario.mode else { return };
    // A lease lives no longer than the bucket takes to fill.
    let fill =
        u128::from(quota.capacity()) * u128::from(quota.rate().nanos()) / u128::from(quota.rate().tokens());
    let life = Nanos::new(life.as_nanos().min(fill) as u64);
    for (node, used) in &record.from_leases {
        let stretched = notes.stretched.get(node).copied().unwrap_or_default();
        let life = slowest(life, scenario.drifts[*node]).saturating_add(stretched);
        let leased = record.leased.get(node).map_or(&[][..], |leased| leased);
        if let Some((at, tokens)) = used_after_expiry(leased, used, life) {
            let at = at.saturating_sub(START);
            violations.push(format!(
                "node {node} used {tokens} tokens of bucket {bucket} at {at} that no live lease held"
            ));
        }
    }
}

/// The longest true time that a span of a drifting clock may take; exact if it does not drift.
fn slowest(span: Nanos, drift: i64) -> Nanos {
    match drift {
        0 => span,
        _ => Nanos::new(span.get() + span.get() * drift.unsigned_abs() / 999_000 + 1_000),
    }
}

fn has_server_step(scenario: &Scenario) -> bool {
    scenario.faults.iter().any(|fault| matches!(fault.what, FaultKind::ServerStep(_)))
}

/// How many tokens leases can add to the bound because a clock is slow, was set back or stood still: the refill during
/// the time by which the leases live longer.
fn stretch(scenario: &Scenario, notes: &RunNotes, quota: &Quota) -> u64 {
    let StoreMode::Hybrid { life } = scenario.mode else { return 0 };
    let slow = scenario.drifts.iter().map(|drift| drift.min(&0).unsigned_abs()).max().unwrap_or(0);
    let by_drift = Nanos::from(life).get() * slow / 999_000;
    let by_steps = notes.stretched.values().max().map_or(0, |span| span.get());
    refilled(quota, Nanos::new(by_drift + by_steps))
}

/// The refill during a span, rounded up.
fn refilled(quota: &Quota, span: Nanos) -> u64 {
    let tokens = u128::from(span.get()) * u128::from(quota.rate().tokens());
    tokens.div_ceil(u128::from(quota.rate().nanos())) as u64
}

/// A node that decides without the server keeps to its share of each limit.
fn check_fallback_share(scenario: &Scenario, notes: &RunNotes, violations: &mut Vec<String>) {
    let buckets = scenario.buckets();
    for (&(node, bucket), events) in &notes.alone {
        let spec = &scenario.limits[buckets[bucket]];
        let Limit::Meter(Meter::TokenBucket(quota)) = &spec.limit else { continue };
        let nodes = events.iter().filter_map(|event| match event {
            SoloEvent::Spent(_, _, nodes) => Some(*nodes),
            SoloEvent::Allowance(..) => None,
        });
        let Some(nodes) = nodes.min() else { continue };
        let quota = &scenario.raised(quota);
        let rate = quota.rate();
        let window = Nanos::new(rate.nanos() * u64::from(nodes));
        let share = Quota::new(rate.tokens(), window, (quota.capacity() / nodes).max(1));
        let mut envelope = Envelope::new(&share.expect("a share of small numbers is in range"), Nanos::ZERO);
        let mut events = events.clone();
        events.sort_by_key(SoloEvent::at);
        for event in &events {
            match *event {
                SoloEvent::Spent(at, tokens, _) => envelope.spend(at, tokens),
                SoloEvent::Allowance(at, allowance) => envelope.allow(at, allowance),
            }
        }
        let length = scenario.end.saturating_sub(START);
        let by_drift =
            refilled(quota, Nanos::new(length.get() * scenario.drifts[node].unsigned_abs() / 1_000_000));
        if envelope.excess() > by_drift {
            let (excess, name) = (envelope.excess(), &spec.name);
            violations.push(format!(
                "node {node} without the server: {excess} tokens above its share of bucket {bucket} ({name})"
            ));
        }
    }
}

/// No node refuses because of an answer that is too old.
fn check_refusal_age(
    scenario: &Scenario,
    notes: &RunNotes,
    records: &[BucketRecord],
    violations: &mut Vec<String>,
) {
    for (node, refused, buckets) in &notes.refusals {
        let stretched = notes.stretched.get(node).copied().unwrap_or_default();
        let age = slowest(REFUSAL_AGE_MAX, scenario.drifts[*node]).saturating_add(stretched);
        if !buckets.iter().any(|&bucket| has_recent_answer(&records[bucket].answered, *node, *refused, age)) {
            let at = refused.saturating_sub(START);
            violations.push(format!(
                "node {node} refused buckets {buckets:?} at {at} without a recent answer of the server"
            ));
            return;
        }
    }
}

/// No request takes longer than the deadline, no call fails while nothing is wrong, and nodes recover from faults.
fn check_requests(run: &ScenarioRun, notes: &RunNotes, violations: &mut Vec<String>) {
    let scenario = &run.scenario;
    // With several slots, one may refuse, and then the others are handed back: two calls.
    let calls = if scenario.has_slots { 2 } else { 1 };
    // After an edit or an override, a call may have to be repeated with a migrated state.
    let is_same = scenario.edits.is_empty() && scenario.overrides.is_empty();
    let calls = if is_same { calls } else { calls + 2 };
    let longest = Nanos::new(scenario.deadline.get() * calls);
    let was_stopped = |node: usize, from: Nanos, until: Nanos| {
        scenario.faults.iter().any(|fault| {
            matches!(fault.what, FaultKind::Suspend { node: suspended, .. } if suspended == node)
                && fault.from <= until
                && from <= fault.until
        })
    };
    let late = notes.requests.iter().find(|request| {
        request.until.saturating_sub(request.from) > longest
            && !was_stopped(request.node, request.from, request.until)
    });
    if let Some(request) = late {
        let took = request.until.saturating_sub(request.from);
        violations.push(format!("a request at node {} took {took}", request.node));
    }
    let heals = if scenario.is_calm() { START } else { scenario.healed.saturating_add(HEALS_WITHIN) };
    // A node whose clock was set back tries again that much later.
    let healed = |node| heals.saturating_add(notes.stretched.get(&node).copied().unwrap_or_default());
    let is_unhealed =
        |request: &&SimRequest| request.answer.without_store && request.from >= healed(request.node);
    let unhealed = notes.requests.iter().find(is_unhealed);
    if let Some(request) = unhealed {
        let at = request.from.saturating_sub(START);
        violations
            .push(format!("node {} decides without the store at {at}, while nothing is wrong", request.node));
    }
    for node in 0..scenario.nodes {
        let is_up = run.limiter(node).is_some_and(|limiter| limiter.store().health().up);
        if !is_up {
            violations.push(format!("node {node} reports the store as down at the end"));
        }
    }
}

/// Without leases and faults, every token that the server gave was spent.
fn check_nothing_wasted(scenario: &Scenario, records: &[BucketRecord], violations: &mut Vec<String>) {
    if scenario.mode != StoreMode::Strict || !scenario.is_calm() {
        return;
    }
    // Answers and hand-backs of the last moments may still be under way.
    let end = scenario.end.saturating_sub(Nanos::new(3 * scenario.deadline.get()));
    for (bucket, record) in records.iter().enumerate() {
        let complete = |&&(at, tokens): &&(Nanos, i64)| tokens < 0 || at < end;
        let given = record.given.iter().filter(complete).copied().collect();
        let wasted =
            never_spent(&BucketRecord { given, spent: record.spent.clone(), ..BucketRecord::default() });
        if wasted > 0 {
            violations
                .push(format!("bucket {bucket}: the server gave {wasted} tokens that were never spent"));
        }
    }
}

/// Under load and without faults, a limit admits at least four fifths of its rate.
fn check_throughput(scenario: &Scenario, records: &[BucketRecord], violations: &mut Vec<String>) {
    let Some(rate) = scenario.is_overloaded() else { return };
    let length = scenario.end.saturating_sub(START);
    let may = u128::from(length.get()) * u128::from(rate) / u128::from(Nanos::SECOND.get());
    let admitted: u64 = records[0].spent.iter().map(|&(_, tokens)| u64::from(tokens)).sum();
    if u128::from(admitted) * 10 < may * 8 {
        violations
            .push(format!("under load only {admitted} tokens were admitted, of {may} that the rate allows"));
    }
}
