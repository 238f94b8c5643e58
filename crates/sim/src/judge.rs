//! All oracles over one play.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_core::{Limit, Meter, Nanos, Quota};
use tidegate_redis::StoreMode;

use crate::ledger::BucketAccount;
use crate::oracles::{Envelope, counted, is_backed, never_spent, spent_unpaid, used_stale};
use crate::scenario::Scenario;
use crate::stage::{RunNotes, ScenarioRun, SoloEvent};
use crate::world::lock;
use crate::{FaultKind, START};

/// After healing, within so long every node must decide by the server again.
const HEALS_WITHIN: Nanos = Nanos::from_secs(2);

/// The longest that a node refuses without having asked.
const ASKED_WITHIN: Nanos = Nanos::from_secs(5);

/// What came of a seed.
#[derive(Clone, Debug, Default)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// What must not be, in words. None if all is well.
    pub violations: Vec<String>,
    /// How many requests there were.
    pub requests: u64,
    /// How many of them were admitted.
    pub admitted: u64,
    /// How many were decided without the store.
    pub without_store: u64,
    /// How many commands the server was given.
    pub commands: u64,
    /// How many waits were taken at their word.
    pub promises: u64,
    /// The largest excess over an envelope, in tokens, and the bound it had.
    pub excess: (u64, u64),
    /// Everything that happened, if it was to be kept.
    pub trace: String,
}

/// Plays the scenario of a seed, and judges it.
pub fn run(seed: u64, traced: bool) -> SeedOutcome {
    play(Scenario::of(seed), traced)
}

/// Plays a scenario, and judges it. A node that panics is a violation, and ends the play.
pub fn play(scenario: Scenario, traced: bool) -> SeedOutcome {
    let stage = ScenarioRun::set(scenario, traced);
    let mut outcome = SeedOutcome { seed: stage.scenario.seed, ..SeedOutcome::default() };
    // What is left of the world is only looked at.
    match catch_unwind(AssertUnwindSafe(|| stage.play())) {
        Ok(()) => judge(&stage, &mut outcome),
        Err(panic) => {
            let at = stage.world.now().saturating_sub(START);
            outcome.violations.push(format!("a panic at {at}: {}", said_in(&*panic)));
        }
    }
    for violation in &outcome.violations {
        stage.world.note(None, format_args!("VIOLATION {violation}"));
    }
    outcome.commands = stage.network.commands();
    outcome.trace = stage.world.take_trace().into_text();
    // The tasks hold the world that holds them.
    stage.world.end();
    outcome
}

fn said_in(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

fn judge(stage: &ScenarioRun, outcome: &mut SeedOutcome) {
    let (accounts, strangers) = stage.ledger.close();
    let notes = lock(&stage.notes);
    let mut found = Vec::new();
    if strangers > 0 {
        found.push(format!("{strangers} calls about buckets that nobody asked for"));
    }
    for (bucket, account) in accounts.iter().enumerate() {
        let excess = judge_bucket(&stage.scenario, &notes, bucket, account, &mut found);
        outcome.excess = outcome.excess.max(excess);
        judge_leases(&stage.scenario, &notes, bucket, account, &mut found);
    }
    judge_alone(&stage.scenario, &notes, &mut found);
    judge_refusals(&stage.scenario, &notes, &accounts, &mut found);
    judge_requests(stage, &notes, &mut found);
    judge_waste(&stage.scenario, &accounts, &mut found);
    judge_throughput(&stage.scenario, &accounts, &mut found);
    found.extend(notes.broken.iter().map(|broken| format!("a broken promise: {broken}")));
    outcome.requests = notes.requests.len() as u64;
    outcome.admitted = notes.requests.iter().filter(|asked| asked.said.allowed).count() as u64;
    outcome.without_store = notes.requests.iter().filter(|asked| asked.said.without_store).count() as u64;
    outcome.promises = notes.promises;
    outcome.violations = found;
}

/// Nothing is spent unpaid, and no more than the limit and the published bound.
fn judge_bucket(
    scenario: &Scenario,
    notes: &RunNotes,
    bucket: usize,
    account: &BucketAccount,
    found: &mut Vec<String>,
) -> (u64, u64) {
    let spec = &scenario.limits[scenario.buckets()[bucket]];
    let name = &spec.name;
    if let Some((at, tokens)) = spent_unpaid(account) {
        let at = at.saturating_sub(START);
        found.push(format!("bucket {bucket} ({name}): {tokens} spent at {at} that nobody paid for"));
    }
    let reliefs = || notes.reliefs.iter().filter(|(_, of, _)| of.is_none_or(|of| of == bucket));
    let Limit::Meter(Meter::TokenBucket(quota)) = &spec.limit else {
        let is_disturbed = reliefs().next().is_some() || has_server_step(scenario);
        if let Some(why) = (!is_disturbed).then(|| counted(&spec.limit, &account.spent)).flatten() {
            found.push(format!("bucket {bucket} ({name}): {why}"));
        }
        return (0, 0);
    };
    let life = match scenario.mode {
        StoreMode::Strict => Nanos::ZERO,
        StoreMode::Hybrid { life } => life,
    };
    let mut envelope = Envelope::new(quota, life);
    let mut reliefs = reliefs().peekable();
    for &(at, tokens) in &account.spent {
        while let Some(&(at, _, relief)) = reliefs.next_if(|(when, ..)| *when <= at) {
            envelope.relieve(at, relief);
        }
        envelope.spend(at, tokens);
    }
    let bound = notes.bounds.get(name).copied().unwrap_or(0) + stretch(scenario, notes, quota);
    let excess = envelope.excess();
    if excess > bound {
        found.push(format!("bucket {bucket} ({name}): {excess} above the envelope, the bound is {bound}"));
    }
    (excess, bound)
}

/// No node uses a lease after its life.
fn judge_leases(
    scenario: &Scenario,
    notes: &RunNotes,
    bucket: usize,
    account: &BucketAccount,
    found: &mut Vec<String>,
) {
    let Limit::Meter(Meter::TokenBucket(quota)) = &scenario.limits[scenario.buckets()[bucket]].limit else {
        return;
    };
    let StoreMode::Hybrid { life } = scenario.mode else { return };
    // No longer than the bucket takes to fill.
    let fill =
        u128::from(quota.capacity()) * u128::from(quota.rate().nanos()) / u128::from(quota.rate().tokens());
    let life = Nanos::new(u128::from(life.get()).min(fill) as u64);
    for (node, used) in &account.from_leases {
        let stretched = notes.stretched.get(node).copied().unwrap_or_default();
        let life = slowest(life, scenario.drifts[*node]).saturating_add(stretched);
        let leased = account.leased.get(node).map_or(&[][..], |leased| leased);
        if let Some((at, tokens)) = used_stale(leased, used, life) {
            let at = at.saturating_sub(START);
            found.push(format!(
                "node {node} used {tokens} of bucket {bucket} at {at} that no living lease held"
            ));
        }
    }
}

/// How long a span of a clock may be by the true time; exact if it does not drift.
fn slowest(span: Nanos, drift: i64) -> Nanos {
    match drift {
        0 => span,
        _ => Nanos::new(span.get() + span.get() * drift.unsigned_abs() / 999_000 + 1_000),
    }
}

fn has_server_step(scenario: &Scenario) -> bool {
    scenario.faults.iter().any(|fault| matches!(fault.what, FaultKind::ServerStep(_)))
}

/// What leases can bring beyond the bound where a clock is slow, is set back or stands still: what the rate adds in
/// the time by which they live longer.
fn stretch(scenario: &Scenario, notes: &RunNotes, quota: &Quota) -> u64 {
    let StoreMode::Hybrid { life } = scenario.mode else { return 0 };
    let slow = scenario.drifts.iter().map(|drift| drift.min(&0).unsigned_abs()).max().unwrap_or(0);
    let by_drift = life.get() * slow / 999_000;
    let by_steps = notes.stretched.values().max().map_or(0, |span| span.get());
    refilled(quota, Nanos::new(by_drift + by_steps))
}

/// What the rate adds in a span, rounded up.
fn refilled(quota: &Quota, span: Nanos) -> u64 {
    let tokens = u128::from(span.get()) * u128::from(quota.rate().tokens());
    tokens.div_ceil(u128::from(quota.rate().nanos())) as u64
}

/// A node that is by itself keeps to its share.
fn judge_alone(scenario: &Scenario, notes: &RunNotes, found: &mut Vec<String>) {
    let buckets = scenario.buckets();
    for (&(node, bucket), events) in &notes.alone {
        let spec = &scenario.limits[buckets[bucket]];
        let Limit::Meter(Meter::TokenBucket(quota)) = &spec.limit else { continue };
        let nodes = events.iter().filter_map(|event| match event {
            SoloEvent::Spent(_, _, nodes) => Some(*nodes),
            SoloEvent::Allowance(..) => None,
        });
        let Some(nodes) = nodes.min() else { continue };
        let rate = quota.rate();
        let window = Nanos::new(rate.nanos() * u64::from(nodes));
        let share = Quota::new(rate.tokens(), window, (quota.capacity() / nodes).max(1));
        let mut envelope = Envelope::new(&share.expect("a share of modest numbers is in range"), Nanos::ZERO);
        let mut events = events.clone();
        events.sort_by_key(SoloEvent::at);
        for event in &events {
            match *event {
                SoloEvent::Spent(at, tokens, _) => envelope.spend(at, tokens),
                SoloEvent::Allowance(at, relief) => envelope.relieve(at, relief),
            }
        }
        let length = scenario.end.saturating_sub(START);
        let by_drift =
            refilled(quota, Nanos::new(length.get() * scenario.drifts[node].unsigned_abs() / 1_000_000));
        if envelope.excess() > by_drift {
            let (excess, name) = (envelope.excess(), &spec.name);
            found.push(format!("node {node} alone: {excess} above its share of bucket {bucket} ({name})"));
        }
    }
}

/// No node refuses by what it was told too long ago.
fn judge_refusals(
    scenario: &Scenario,
    notes: &RunNotes,
    accounts: &[BucketAccount],
    found: &mut Vec<String>,
) {
    for (node, refused, buckets) in &notes.refusals {
        let stretched = notes.stretched.get(node).copied().unwrap_or_default();
        let age = slowest(ASKED_WITHIN, scenario.drifts[*node]).saturating_add(stretched);
        if !buckets.iter().any(|&bucket| is_backed(&accounts[bucket].answered, *node, *refused, age)) {
            let at = refused.saturating_sub(START);
            found.push(format!("node {node} refused {buckets:?} at {at} without having asked for long"));
            return;
        }
    }
}

/// Nobody waits longer than the deadline, nothing fails where nothing is wrong, and what was wrong heals.
fn judge_requests(stage: &ScenarioRun, notes: &RunNotes, found: &mut Vec<String>) {
    let scenario = &stage.scenario;
    // Where a call is about several slots, what one has refused another may have to be given back first.
    let calls = if scenario.has_slots { 2 } else { 1 };
    let longest = Nanos::new(scenario.deadline.get() * calls);
    let was_stopped = |node: usize, from: Nanos, until: Nanos| {
        scenario.faults.iter().any(|fault| {
            matches!(fault.what, FaultKind::Suspend { node: stopped, .. } if stopped == node)
                && fault.from <= until
                && from <= fault.until
        })
    };
    let late = notes.requests.iter().find(|asked| {
        asked.until.saturating_sub(asked.from) > longest && !was_stopped(asked.node, asked.from, asked.until)
    });
    if let Some(asked) = late {
        let took = asked.until.saturating_sub(asked.from);
        found.push(format!("a request at node {} took {took}", asked.node));
    }
    let healed = if scenario.is_calm() { START } else { scenario.healed.saturating_add(HEALS_WITHIN) };
    let unhealed = notes.requests.iter().find(|asked| asked.said.without_store && asked.from >= healed);
    if let Some(asked) = unhealed {
        let at = asked.from.saturating_sub(START);
        found.push(format!("node {} decides without the store at {at}, when nothing is wrong", asked.node));
    }
    for node in 0..scenario.nodes {
        let is_up = stage.limiter(node).is_some_and(|limiter| limiter.store().health().up);
        if !is_up {
            found.push(format!("node {node} holds the store to be down at the end"));
        }
    }
}

/// Where there are no leases, whatever the server gave was spent, but for calls of which nobody heard.
fn judge_waste(scenario: &Scenario, accounts: &[BucketAccount], found: &mut Vec<String>) {
    if scenario.mode != StoreMode::Strict || !scenario.is_calm() {
        return;
    }
    // What was given just before the end may be under way, and so may what hands it back.
    let end = scenario.end.saturating_sub(Nanos::new(3 * scenario.deadline.get()));
    for (bucket, account) in accounts.iter().enumerate() {
        let settled = |&&(at, tokens): &&(Nanos, i64)| tokens < 0 || at < end;
        let given = account.given.iter().filter(settled).copied().collect();
        let wasted =
            never_spent(&BucketAccount { given, spent: account.spent.clone(), ..BucketAccount::default() });
        if wasted > 0 {
            found.push(format!("bucket {bucket}: the server gave {wasted} that nobody spent"));
        }
    }
}

/// Under load, where nothing is wrong, a limit lets nearly all through that it may.
fn judge_throughput(scenario: &Scenario, accounts: &[BucketAccount], found: &mut Vec<String>) {
    let Some(rate) = scenario.is_overloaded() else { return };
    let length = scenario.end.saturating_sub(START);
    let may = u128::from(length.get()) * u128::from(rate) / u128::from(Nanos::SECOND.get());
    let admitted: u64 = accounts[0].spent.iter().map(|&(_, tokens)| u64::from(tokens)).sum();
    if u128::from(admitted) * 10 < may * 8 {
        found.push(format!("under load only {admitted} were admitted of at least {may}"));
    }
}
