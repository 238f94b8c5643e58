//! Those who ask: crowds at every node, and one who takes a denial at its word.

use std::sync::Arc;

use tidegate::{Clock, Sleep};
use tidegate_core::Nanos;

use crate::node::{self, NodeAnswer};
use crate::scenario::{ArrivalShape, ScenarioFallback};
use crate::stage::{ScenarioRun, SimRequest, SoloEvent};
use crate::world::lock;
use crate::{NodeClock, Random, START};

/// Clients come to a node, for as long as it lives.
pub(crate) fn come(stage: &ScenarioRun, node: usize) {
    let here = stage.clone();
    stage.world.spawn(Some(node), async move {
        let load = here.scenario.load;
        loop {
            let since = here.world.now().saturating_sub(START);
            let (wait, at_once) = here.world.by_chance(|random| next(load.shape, load.gap, since, random));
            here.world.until(here.world.now().saturating_add(wait)).await;
            for _ in 0..at_once {
                request(&here, node);
            }
        }
    });
}

/// How long until the next requests, and how many they are. Waves are in step at all nodes.
fn next(shape: ArrivalShape, gap: u64, since: Nanos, random: &mut Random) -> (Nanos, u64) {
    let wait = Nanos::new(random.wait_about(gap));
    let (on, off, at_once) = match shape {
        ArrivalShape::Steady => return (wait, 1),
        ArrivalShape::Waves { on, off } => (on, off, 1),
        ArrivalShape::Ambush { on, off, at_once } => (on, off, at_once),
    };
    let (on, period) = (Nanos::from_millis(on), Nanos::from_millis(on + off));
    let into = Nanos::new(since.saturating_add(wait).get() % period.get());
    if into < on { (wait, 1) } else { (wait.saturating_add(period.saturating_sub(into)), at_once) }
}

/// One request, as a task of its own.
fn request(stage: &ScenarioRun, node: usize) {
    let Some(limiter) = stage.limiter(node) else { return };
    let scenario = Arc::clone(&stage.scenario);
    let (keys, cost) = stage.world.by_chance(|random| {
        let limits = if random.chance(scenario.load.all_limits) { scenario.limits.len() } else { 1 };
        // The first key of a limit is the busy one.
        let key =
            |random: &mut Random, keys: u64| if random.chance(600) { 0 } else { random.between(0, keys - 1) };
        let keys: Vec<(usize, usize)> = (0..limits)
            .map(|limit| (limit, key(random, scenario.limits[limit].keys as u64) as usize))
            .collect();
        (keys, random.between(1, u64::from(scenario.load.cost_max)) as u32)
    });
    let here = stage.clone();
    stage.world.spawn(Some(node), async move {
        ask(&here, node, &limiter, &keys, cost).await;
    });
}

/// Asks, and writes down what comes of it.
async fn ask(
    stage: &ScenarioRun,
    node: usize,
    limiter: &node::NodeLimiter,
    keys: &[(usize, usize)],
    cost: u32,
) -> NodeAnswer {
    let task = stage.world.current().expect("requests are tasks");
    let charges: Vec<(usize, u32)> =
        keys.iter().map(|&(limit, key)| (stage.scenario.bucket(limit, key), cost)).collect();
    stage.ledger.begin(task, charges.iter().map(|&(bucket, _)| bucket));
    let from = stage.world.now();
    let said = node::ask(limiter, keys, cost).await;
    let until = stage.world.now();
    stage.world.note(Some(node), format_args!("decides {keys:?} cost {cost}: {said:?}"));
    if said.allowed && !said.without_store {
        stage.ledger.admitted(node, task, until, &charges);
    } else {
        stage.ledger.refused(task);
    }
    let mut notes = lock(&stage.notes);
    // More than a limit can ever hold is refused without asking anybody.
    let can_be = keys.iter().all(|&(limit, _)| cost <= stage.scenario.limits[limit].limit.capacity());
    if can_be && !said.allowed && !said.without_store {
        notes.refusals.push((node, until, charges.iter().map(|&(bucket, _)| bucket).collect()));
    }
    if said.allowed && said.without_store {
        for (&(limit, _), &(bucket, cost)) in keys.iter().zip(&charges) {
            if stage.scenario.limits[limit].on_store_error == ScenarioFallback::Local {
                // The engine reads the clock once, before it asks the store.
                let spent = SoloEvent::Spent(from, cost, said.nodes);
                notes.alone.entry((node, bucket)).or_default().push(spent);
            }
        }
    }
    notes.requests.push(SimRequest { node, from, until, cost, limits: keys.len(), said });
    said
}

/// How long a denial may tell to wait and still be waited for.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// At the first node somebody uses keys that nobody else does: when denied, it waits exactly as long as it is told,
/// and must be admitted then, unless something went wrong meanwhile.
pub(crate) fn test_promises(stage: &ScenarioRun) {
    let here = stage.clone();
    // Of no node: it looks on when the node dies.
    stage.world.spawn(None, async move {
        loop {
            for limit in 0..here.scenario.limits.len() {
                let pause = Nanos::from_millis(here.world.by_chance(|random| random.between(1, 150)));
                here.world.until(here.world.now().saturating_add(pause)).await;
                test_promise(&here, limit).await;
            }
        }
    });
}

async fn test_promise(stage: &ScenarioRun, limit: usize) {
    let Some(limiter) = stage.limiter(0) else { return };
    let spec = &stage.scenario.limits[limit];
    let keys = [(limit, spec.keys)];
    let capacity = u64::from(spec.limit.capacity());
    let from = stage.world.now();
    for _ in 0..4 {
        let cost = stage.world.by_chance(|random| random.between(capacity.div_ceil(3), capacity)) as u32;
        let said = ask(stage, 0, &limiter, &keys, cost).await;
        if said.without_store || said.allowed {
            continue;
        }
        let Some(wait) = said.retry_after.filter(|&wait| wait <= PATIENCE) else { return };
        wait_both(stage, wait).await;
        let again = ask(stage, 0, &limiter, &keys, cost).await;
        if again.without_store || !is_undisturbed(stage, from) {
            return;
        }
        let mut notes = lock(&stage.notes);
        notes.promises += 1;
        if !again.allowed {
            let told = format!("{} told {cost} to wait {wait}, and then {:?}", spec.name, again.retry_after);
            notes.broken.push(format!("{told}, at {}", stage.world.now().saturating_sub(START)));
        }
        return;
    }
}

/// Waits by the true time, which is the server's, and by the node's: one that drifts must not be the judge.
async fn wait_both(stage: &ScenarioRun, wait: Nanos) {
    let clock = NodeClock::new(stage.world.clone(), 0);
    let due = clock.now().saturating_add(wait);
    stage.world.until(stage.world.now().saturating_add(Nanos::new(wait.get().next_multiple_of(1_000)))).await;
    clock.sleep(due.saturating_sub(clock.now())).await;
}

/// Did nothing go wrong from a little before `from` until now?
fn is_undisturbed(stage: &ScenarioRun, from: Nanos) -> bool {
    let (from, now) = (from.saturating_sub(Nanos::SECOND), stage.world.now());
    stage.scenario.faults.iter().all(|fault| fault.until < from || now < fault.from)
}
