//! A run of a scenario: its nodes, the faults that happen to them, and the notes for the invariants.

mod acting;
mod clients;
pub(crate) mod node;
mod seed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate::engine::Policy;
use tidegate_core::Nanos;
use tidegate_redis::StoreMode;

use crate::invariants::Allowance;
use crate::invariants::token_record::TokenRecord;
use crate::scenario::Scenario;
use crate::scenario::bursts::{EDIT_STAGGER, PolicyEdit};
use crate::scenario::faults::{Fault, FaultKind};
use crate::scenario::overrides::OverrideChange;
use crate::world::lock;
use crate::{ClockDriver, Model, Network, START, World};
use node::{NodeAnswer, NodeLimiter, NodeTrial};

pub use seed::{SeedOutcome, run_scenario, run_seed};

/// The longest pause between two attempts to connect, in milliseconds.
const ATTEMPT_PAUSE: u64 = 500;

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
    /// How many retry promises were tested.
    pub promises: u64,
    /// The retry promises that were broken, as messages.
    pub broken: Vec<String>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct SimRequest {
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
        let limits = scenario.buckets().into_iter().map(|limit| scenario.limits[limit].limit).collect();
        let record = TokenRecord::new(limits).ignoring(scenario.candidate.iter().map(|spec| spec.limit));
        let network = Network::new(world.clone(), scenario.nodes, scenario.conditions, record.clone())
            .with_sabotage(scenario.sabotage);
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
        for action in &self.scenario.actions {
            acting::schedule(self, *action);
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
        self.apply_overrides(&limiter);
        if !self.scenario.candidate.is_empty() {
            let trial = node::try_out(&self.world, &self.scenario, &limiter, node);
            let mut notes = lock(&self.notes);
            let before = notes.requests.iter().filter(|request| request.node == node).count();
            notes.trials.insert(node, (trial, before));
        }
        lock(&self.nodes)[node] = Some(limiter);
        clients::start_clients(self, node);
    }

    /// Every node that lives then reads an edit, one after the other.
    fn schedule_edit(&self, edit: PolicyEdit) {
        for node in 0..self.scenario.nodes {
            let run = self.clone();
            let at = edit.at.saturating_add(Nanos::new(EDIT_STAGGER.get() * node as u64));
            self.world.at(at, move || {
                if let Some(limiter) = run.limiter(node) {
                    run.world.note(Some(node), format_args!("reads {edit:?}"));
                    run.apply(&limiter, &edit);
                }
            });
        }
    }

    /// A node that starts reads the newest policy.
    fn apply_edits(&self, limiter: &NodeLimiter) {
        let now = self.world.now();
        if let Some(edit) = self.scenario.edits.iter().rfind(|edit| edit.at <= now) {
            self.apply(limiter, edit);
        }
    }

    fn apply(&self, limiter: &NodeLimiter, edit: &PolicyEdit) {
        let policy = Policy::parse(&self.scenario.edited_policy(edit)).expect("an edited policy is valid");
        limiter.swap(policy).expect("a store holds a few limits");
    }

    /// Every node that lives then learns of a change of the overrides, one after the other.
    fn schedule_override(&self, change: &OverrideChange) {
        for node in 0..self.scenario.nodes {
            let (run, change) = (self.clone(), change.clone());
            let at = change.at.saturating_add(Nanos::new(EDIT_STAGGER.get() * node as u64));
            self.world.at(at, move || {
                if let Some(limiter) = run.limiter(node) {
                    run.world.note(Some(node), format_args!("learns of {change:?}"));
                    node::set_overrides(&limiter, &change);
                }
            });
        }
    }

    /// A node that starts reads the newest overrides.
    fn apply_overrides(&self, limiter: &NodeLimiter) {
        let now = self.world.now();
        if let Some(change) = self.scenario.overrides.iter().rfind(|change| change.at <= now) {
            node::set_overrides(limiter, change);
        }
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

    fn schedule_fault(&self, fault: Fault) {
        if let FaultKind::Failover { lag } | FaultKind::TwoMasters { lag, .. } = fault.what {
            let (run, kept) = (self.clone(), Arc::new(Mutex::new(Model::default())));
            let replica = Arc::clone(&kept);
            self.world.at(fault.from.saturating_sub(lag), move || {
                *lock(&replica) = run.network.with_model(|model| model.clone());
            });
            let run = self.clone();
            match fault.what {
                FaultKind::TwoMasters { stay, .. } => {
                    self.world.at(fault.from, move || run.split(&lock(&kept), stay, &fault));
                }
                _ => self.world.at(fault.until, move || run.fail_over(&lock(&kept))),
            }
        }
        let run = self.clone();
        self.world.at(fault.from, move || run.begin_fault(&fault));
        let run = self.clone();
        self.world.at(fault.until, move || run.end_fault(&fault));
    }

    fn begin_fault(&self, fault: &Fault) {
        self.world.note(None, format_args!("begins: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(conditions) => self.network.set_conditions(conditions),
            FaultKind::Partition(nodes) => self.cut(nodes, true),
            FaultKind::Restart { .. } | FaultKind::Failover { .. } => self.network.crash(),
            FaultKind::TwoMasters { .. } => {}
            FaultKind::ScriptFlush => self.network.forget_scripts(),
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = true),
            FaultKind::ServerStep(by) => {
                self.network.step_clock(by);
                if let Ok(by) = u64::try_from(by) {
                    self.allow(None, Allowance::Jump(Nanos::new(by)));
                }
            }
            FaultKind::NodeStep(node, by) => {
                self.world.with_clock(node, |clock, now| clock.step(now, by));
                if by < 0 {
                    self.stretch(node, Nanos::new(by.unsigned_abs()));
                } else {
                    self.allow_alone(node, Allowance::Jump(Nanos::new(by.unsigned_abs())));
                }
            }
            FaultKind::Suspend { node, clock_stands } => {
                self.world.suspend(node);
                if clock_stands {
                    self.world.with_clock(node, |clock, now| clock.stand_still(now, true));
                    self.stretch(node, fault.until.saturating_sub(fault.from));
                }
            }
            FaultKind::Crash(node) => drop(self.end_node(node)),
            FaultKind::Leave(node) => self.leave(node),
            FaultKind::Poison => {
                for key in self.network.with_model(|model| model.poison(|_| true)) {
                    let bucket = self.record.bucket_of(&key);
                    self.allow(bucket, Allowance::Capacity);
                }
            }
        }
    }

    fn end_fault(&self, fault: &Fault) {
        self.world.note(None, format_args!("ends: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(_) => self.network.set_conditions(self.scenario.conditions),
            FaultKind::Partition(nodes) => self.cut(nodes, false),
            FaultKind::Restart { empty: false } => self.network.restart(|_| {}, ATTEMPT_PAUSE),
            FaultKind::Restart { empty: true } => {
                self.network.restart(Model::wipe, ATTEMPT_PAUSE);
                self.network.bursts().lost_writes(self.world.now());
                self.allow(None, Allowance::Capacity);
            }
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = false),
            FaultKind::Suspend { node, clock_stands } => {
                if clock_stands {
                    self.world.with_clock(node, |clock, now| clock.stand_still(now, false));
                }
                self.world.resume(node);
            }
            FaultKind::Crash(node) | FaultKind::Leave(node) => {
                drop(self.end_node(node));
                self.allow_alone(node, Allowance::Capacity);
                self.start_node(node);
            }
            FaultKind::TwoMasters { .. } => self.network.retire_old_master(),
            FaultKind::Failover { .. }
            | FaultKind::ScriptFlush
            | FaultKind::ServerStep(_)
            | FaultKind::NodeStep(..)
            | FaultKind::Poison => {}
        }
    }

    fn fail_over(&self, replica: &Model) {
        // The replica is not out of memory, even if the master was.
        let mut replica = replica.clone();
        replica.out_of_memory = false;
        self.network.restart(|model| *model = replica, ATTEMPT_PAUSE);
        self.network.bursts().lost_writes(self.world.now());
        self.allow(None, Allowance::Capacity);
    }

    /// Both masters give tokens for as long as some node stays with the old one, and their leases live on after that.
    fn split(&self, replica: &Model, stay: u64, fault: &Fault) {
        self.network.split(replica.clone(), |node| stay >> node & 1 == 1);
        let life = match self.scenario.mode {
            StoreMode::Strict => Nanos::ZERO,
            // Measured by the slowest clock.
            StoreMode::Hybrid { life } => {
                let life = Nanos::from(life).get();
                Nanos::new(life + life / 1_000 + 1_000)
            }
        };
        let both = fault.until.saturating_sub(fault.from);
        self.allow(None, Allowance::TwoMasters(both.saturating_add(life)));
    }

    /// A node leaves cleanly: its clients stop, then it hands its unused leases back.
    fn leave(&self, node: usize) {
        if let Some(limiter) = self.end_node(node) {
            self.world.spawn(Some(node), async move { limiter.store().leave().await });
        }
    }

    fn cut(&self, nodes: u64, is_cut: bool) {
        for node in (0..self.scenario.nodes).filter(|node| nodes >> node & 1 == 1) {
            self.network.cut(node, is_cut);
        }
    }

    fn allow(&self, bucket: Option<usize>, allowance: Allowance) {
        lock(&self.notes).allowances.push((self.world.now(), bucket, allowance));
    }

    fn allow_alone(&self, node: usize, allowance: Allowance) {
        let now = self.world.now();
        let mut notes = lock(&self.notes);
        for bucket in 0..self.scenario.buckets().len() {
            notes.alone.entry((node, bucket)).or_default().push(SoloEvent::Allowance(now, allowance));
        }
    }

    fn stretch(&self, node: usize, by: Nanos) {
        let mut notes = lock(&self.notes);
        let stretched = notes.stretched.entry(node).or_default();
        *stretched = stretched.saturating_add(by);
    }
}
