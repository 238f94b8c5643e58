//! A run of a scenario: its nodes, the faults that happen to them, and the notes for the invariants.

mod acting;
mod changes;
mod clients;
mod faults;
pub(crate) mod node;
mod seed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::Nanos;

use crate::invariants::Allowance;
use crate::invariants::token_record::TokenRecord;
use crate::scenario::Scenario;
use crate::scenario::overrides::OverrideChange;
use crate::world::{TaskId, lock};
use crate::{ClockDriver, Network, START, World};
use node::{NodeAnswer, NodeLimiter, NodeTrial};

pub use seed::{SeedOutcome, run_scenario, run_seed};

/// How often the published bounds are read.
const SAMPLE_EVERY: Nanos = Nanos::from_millis(50);

/// A run of a scenario. Clones are the same run.
#[derive(Clone, Debug)]
pub struct ScenarioRun {
    /// Its time and tasks.
    pub world: World,
    /// The server, and the nodes' connections to it.
    pub network: Network,
    /// Which tokens were given and spent.
    pub record: TokenRecord,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// Notes for the invariants.
    pub notes: Arc<Mutex<RunNotes>>,
    nodes: Arc<Mutex<Vec<Option<Arc<NodeLimiter>>>>>,
}

/// The notes of a run for the invariants.
#[derive(Debug, Default)]
pub struct RunNotes {
    /// Every request.
    pub requests: Vec<SimRequest>,
    /// Refusals by the store: the node, when, and the buckets.
    pub refusals: Vec<(usize, Nanos, Vec<usize>)>,
    /// What was admitted without the store, by node and bucket.
    pub alone: BTreeMap<(usize, usize), Vec<SoloEvent>>,
    /// Faults after which more may be spent: when, of one bucket or of all, and how much.
    pub allowances: Vec<(Nanos, Option<usize>, Allowance)>,
    /// The largest published bound, by limit.
    pub bounds: BTreeMap<String, u64>,
    /// By node: how much longer than its life a lease may have been used, in true time, because the clock was set back.
    pub stretched: BTreeMap<usize, Nanos>,
    /// By node: how many warnings and blocks of burst detectors it has counted since its start.
    pub burst_actions: BTreeMap<usize, u64>,
    /// By node: what it tries out, and how many requests it had decided before.
    pub trials: BTreeMap<usize, (NodeTrial, usize)>,
    /// Which node was told of which change of the overrides, and when; in the order of time.
    pub overrides: Vec<(Nanos, usize, OverrideChange)>,
    /// How many retry promises were tested.
    pub promises: u64,
    /// The retry promises that were broken, as messages.
    pub broken: Vec<String>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct SimRequest {
    /// Its task.
    pub task: TaskId,
    /// The node.
    pub node: usize,
    /// When it began.
    pub from: Nanos,
    /// When it was decided.
    pub until: Nanos,
    /// Its cost.
    pub cost: u32,
    /// How many limits it charged.
    pub limits: usize,
    /// Whose request it was, if the policy has a burst detector.
    pub user: Option<usize>,
    /// The node's answer.
    pub answer: NodeAnswer,
}

/// An event at a node that decides without the store.
#[derive(Clone, Copy, Debug)]
pub enum SoloEvent {
    /// When, how many tokens were spent, and how many nodes it counted as alive.
    Spent(Nanos, u32, u32),
    /// From when it may spend more, and how much.
    Allowance(Nanos, Allowance),
}

impl SoloEvent {
    /// When it happened.
    pub fn at(&self) -> Nanos {
        match *self {
            SoloEvent::Spent(at, ..) | SoloEvent::Allowance(at, _) => at,
        }
    }
}

impl ScenarioRun {
    /// Prepares a run. Keeps the event log if `logged`.
    pub fn new(scenario: Scenario, logged: bool) -> ScenarioRun {
        let world = World::new(scenario.seed, logged);
        world.note(None, format_args!("{scenario:?}"));
        let record = TokenRecord::new(scenario.all_buckets().map(|spec| spec.limit).collect());
        let network = Network::new(world.clone(), scenario.nodes, scenario.conditions, record.clone())
            .with_sabotage(scenario.sabotage)
            .refusing_candidate(scenario.refuses_candidate);
        for &drift in &scenario.drifts {
            // Each node's clock shows another time of day.
            let off = Nanos::from_millis(world.random(|random| random.between(0, 7_200_000)));
            world.add_node(ClockDriver::new(START.saturating_add(off).saturating_sub(Nanos::HOUR), drift));
        }
        let nodes = Arc::new(Mutex::new(vec![None; scenario.nodes]));
        let scenario = Arc::new(scenario);
        ScenarioRun { world, network, record, scenario, notes: Arc::default(), nodes }
    }

    /// Runs the scenario to its end.
    pub fn run_to_end(&self) {
        for node in 0..self.scenario.nodes {
            self.start_node(node);
        }
        // A user that is blocked, and a limit whose numbers change, break promises that were true when they were given.
        if self.scenario.bursts.is_none() && self.scenario.overrides.is_empty() {
            clients::probe_retry_promises(self);
        }
        for edit in &self.scenario.edits {
            self.schedule_edit(*edit);
        }
        for (number, action) in self.scenario.actions.iter().enumerate() {
            acting::schedule(self, number, *action);
        }
        for change in &self.scenario.overrides {
            self.schedule_override(change);
        }
        for fault in &self.scenario.faults {
            self.schedule_fault(*fault);
        }
        self.sample_bounds();
        self.world.run_until(self.scenario.end);
        for node in 0..self.scenario.nodes {
            let Some(limiter) = self.limiter(node) else { continue };
            limiter.report_late_bursts();
            let (warned, blocked) = limiter.burst_actions();
            lock(&self.notes).burst_actions.insert(node, warned + blocked);
        }
    }

    /// The engine of a node, if it is alive.
    pub fn limiter(&self, node: usize) -> Option<Arc<NodeLimiter>> {
        lock(&self.nodes)[node].clone()
    }

    fn start_node(&self, node: usize) {
        let limiter = node::start(&self.world, &self.network, &self.scenario, node);
        self.network.bursts().started(node, self.world.now());
        self.apply_edits(&limiter);
        self.apply_overrides(node, &limiter);
        if !self.scenario.candidate.is_empty() {
            let trial = node::try_out(self, &limiter, node);
            let mut notes = lock(&self.notes);
            let before = notes.requests.iter().filter(|request| request.node == node).count();
            notes.trials.insert(node, (trial, before));
        }
        lock(&self.nodes)[node] = Some(limiter);
        clients::start_clients(self, node);
    }

    fn end_node(&self, node: usize) -> Option<Arc<NodeLimiter>> {
        self.world.kill(node);
        lock(&self.nodes)[node].take()
    }

    fn sample_bounds(&self) {
        let run = self.clone();
        self.world.after(SAMPLE_EVERY, move || {
            for node in 0..run.scenario.nodes {
                let Some(limiter) = run.limiter(node) else { continue };
                for (limit, bound) in limiter.store().overshoot_bounds() {
                    // In the store, a limit's name is followed by the descriptors of its key.
                    let name = limit.split('\u{1f}').next().unwrap_or_default().to_owned();
                    let mut notes = lock(&run.notes);
                    let largest = notes.bounds.entry(name).or_default();
                    *largest = bound.max(*largest);
                }
            }
            run.sample_bounds();
        });
    }
}
