//! The clients: many at every node, and one that tests the retry promise of denials.

use std::sync::Arc;

use tidegate::{Clock, Sleep};
use tidegate_core::Nanos;

use crate::run::node::{self, NodeAnswer};
use crate::run::{ScenarioRun, SimRequest, SoloEvent};
use crate::scenario::{ArrivalShape, ScenarioFallback};
use crate::world::lock;
use crate::{NodeClock, Random, START};

/// Starts the clients of a node; they send requests for as long as it lives.
pub(crate) fn start_clients(run: &ScenarioRun, node: usize) {
    let here = run.clone();
    run.world.spawn(Some(node), async move {
        let load = here.scenario.load;
        loop {
            let since = here.world.now().saturating_sub(START);
            let (wait, burst) = here.world.random(|random| next(load.shape, load.gap, since, random));
            here.world.until(here.world.now().saturating_add(wait)).await;
            for _ in 0..burst {
                request(&here, node);
            }
        }
    });
}

/// The wait until the next requests, and how many there are. Waves are in step at all nodes.
fn next(shape: ArrivalShape, gap: u64, since: Nanos, random: &mut Random) -> (Nanos, u64) {
    let wait = Nanos::new(random.wait_about(gap));
    let (on, off, burst) = match shape {
        ArrivalShape::Steady => return (wait, 1),
        ArrivalShape::Waves { on, off } => (on, off, 1),
        ArrivalShape::Ambush { on, off, burst } => (on, off, burst),
    };
    let (on, period) = (Nanos::from_millis(on), Nanos::from_millis(on + off));
    let into = Nanos::new(since.saturating_add(wait).get() % period.get());
    if into < on { (wait, 1) } else { (wait.saturating_add(period.saturating_sub(into)), burst) }
}

/// One request, as a task of its own.
fn request(run: &ScenarioRun, node: usize) {
    let Some(limiter) = run.limiter(node) else { return };
    let scenario = Arc::clone(&run.scenario);
    let (keys, user, cost) = run.world.random(|random| {
        let limits = if random.chance(scenario.load.all_limits_permille) { scenario.limits.len() } else { 1 };
        // The first key of a limit is the busiest.
        let key =
            |random: &mut Random, keys: u64| if random.chance(600) { 0 } else { random.between(0, keys - 1) };
        let keys: Vec<(usize, usize)> = (0..limits)
            .map(|limit| (limit, key(random, scenario.limits[limit].keys as u64) as usize))
            .collect();
        let user = scenario.bursts.map(|bursts| key(random, bursts.users as u64) as usize);
        (keys, user, random.between(1, u64::from(scenario.load.cost_max)) as u32)
    });
    let here = run.clone();
    run.world.spawn(Some(node), async move {
        send_request(&here, node, &limiter, (&keys, user), cost).await;
    });
}

/// Sends a request to a node, and notes the answer.
async fn send_request(
    run: &ScenarioRun,
    node: usize,
    limiter: &node::NodeLimiter,
    (keys, user): (&[(usize, usize)], Option<usize>),
    cost: u32,
) -> NodeAnswer {
    let task = run.world.current().expect("every request is a task");
    let charges: Vec<(usize, u32)> =
        keys.iter().map(|&(limit, key)| (run.scenario.bucket(limit, key), cost)).collect();
    let from = run.world.now();
    let tried = keys.iter().filter_map(|&(limit, key)| run.scenario.candidate_bucket(limit, key));
    run.record.begin(task, from, charges.iter().map(|&(bucket, _)| bucket).chain(tried));
    if let Some(user) = user {
        run.network.bursts().begin(task, node, user, from);
    }
    let answer = node::check(limiter, keys, user, cost).await;
    let until = run.world.now();
    run.world.note(Some(node), format_args!("decides {keys:?} cost {cost}: {answer:?}"));
    if answer.allowed && !answer.without_store {
        run.record.admitted(node, task, until, &charges);
    } else if answer.is_blocked {
        run.record.refused_after_all(node, task);
    } else {
        run.record.refused(task);
    }
    let mut notes = lock(&run.notes);
    // A cost above the capacity is refused without a call.
    let can_be = keys.iter().all(|&(limit, _)| {
        let capacity = run.scenario.limits[limit].limit.capacity();
        // An override may have lowered the capacity; then the refusal says that no wait helps.
        let lowest = u64::from(capacity) * u64::from(run.scenario.lowest_override()) / 100;
        cost <= capacity && (answer.retry_after.is_some() || u64::from(cost) <= lowest)
    });
    if can_be && !answer.allowed && !answer.without_store && !answer.is_blocked {
        notes.refusals.push((node, until, charges.iter().map(|&(bucket, _)| bucket).collect()));
    }
    if answer.allowed && answer.without_store {
        for (&(limit, _), &(bucket, cost)) in keys.iter().zip(&charges) {
            if run.scenario.limits[limit].on_store_error == ScenarioFallback::Local {
                // The engine reads the clock once, before it calls the store.
                let spent = SoloEvent::Spent(from, cost, answer.nodes);
                notes.alone.entry((node, bucket)).or_default().push(spent);
            }
        }
    }
    notes.requests.push(SimRequest { task, node, from, until, cost, limits: keys.len(), user, answer });
    answer
}

/// Denials with a longer wait are not tested.
const WAIT_MAX: Nanos = Nanos::from_secs(2);

/// At the first node, one client uses keys that no other client uses. When it is denied, it waits exactly as long as
/// the denial says, and must be admitted then, unless a fault happened meanwhile.
pub(crate) fn probe_retry_promises(run: &ScenarioRun) {
    let here = run.clone();
    // Not a task of the node: it must survive the node's crash.
    run.world.spawn(None, async move {
        loop {
            for limit in 0..here.scenario.limits.len() {
                let pause = Nanos::from_millis(here.world.random(|random| random.between(1, 150)));
                here.world.until(here.world.now().saturating_add(pause)).await;
                probe_retry_promise(&here, limit).await;
            }
        }
    });
}

async fn probe_retry_promise(run: &ScenarioRun, limit: usize) {
    let Some(limiter) = run.limiter(0) else { return };
    let spec = &run.scenario.limits[limit];
    let keys = [(limit, spec.keys)];
    let capacity = u64::from(spec.limit.capacity());
    let from = run.world.now();
    for _ in 0..4 {
        let cost = run.world.random(|random| random.between(capacity.div_ceil(3), capacity)) as u32;
        let answer = send_request(run, 0, &limiter, (&keys, None), cost).await;
        if answer.without_store || answer.allowed {
            continue;
        }
        let Some(wait) = answer.retry_after.filter(|&wait| wait <= WAIT_MAX) else { return };
        wait_both(run, wait).await;
        let again = send_request(run, 0, &limiter, (&keys, None), cost).await;
        if again.without_store || !no_fault_since(run, from) {
            return;
        }
        let mut notes = lock(&run.notes);
        notes.promises += 1;
        if !again.allowed {
            let message = format!(
                "{}: a denied cost of {cost} was told to wait {wait}, and then {:?}",
                spec.name, again.retry_after
            );
            notes.broken.push(format!("{message}, at {}", run.world.now().saturating_sub(START)));
        }
        return;
    }
}

/// Waits by the true time, which is the server's, and by the node's clock: the node's clock may drift.
async fn wait_both(run: &ScenarioRun, wait: Nanos) {
    let clock = NodeClock::new(run.world.clone(), 0);
    let due = clock.now().saturating_add(wait);
    run.world.until(run.world.now().saturating_add(Nanos::new(wait.get().next_multiple_of(1_000)))).await;
    clock.sleep(due.saturating_sub(clock.now())).await;
}

/// Was there no fault from one second before `from` until now?
fn no_fault_since(run: &ScenarioRun, from: Nanos) -> bool {
    let (from, now) = (from.saturating_sub(Nanos::SECOND), run.world.now());
    run.scenario.faults.iter().all(|fault| fault.until < from || now < fault.from)
}
