//! A scenario being played: its nodes, what happens to them, and what is written down about it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::Nanos;
use tidegate_redis::StoreMode;

use crate::faults::{Fault, FaultKind};
use crate::ledger::Ledger;
use crate::node::{self, NodeAnswer, NodeLimiter};
use crate::oracles::Allowance;
use crate::scenario::Scenario;
use crate::world::lock;
use crate::{ClockDriver, Model, Network, START, World, clients};

/// The longest pause between two attempts to connect, in milliseconds.
const ATTEMPT_PAUSE: u64 = 500;

/// How often to look at the published bounds.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);

/// A scenario being played. Clones are the same play.
#[derive(Clone, Debug)]
pub struct ScenarioRun {
    /// Where it is played.
    pub world: World,
    /// The server and the lines to it.
    pub network: Network,
    /// The books.
    pub ledger: Ledger,
    /// What is played.
    pub scenario: Arc<Scenario>,
    /// What was written down.
    pub notes: Arc<Mutex<RunNotes>>,
    nodes: Arc<Mutex<Vec<Option<Arc<NodeLimiter>>>>>,
}

/// What is written down while a scenario is played.
#[derive(Debug, Default)]
pub struct RunNotes {
    /// Every request.
    pub requests: Vec<SimRequest>,
    /// What the store refused: at which node, when, and about which buckets.
    pub refusals: Vec<(usize, Nanos, Vec<usize>)>,
    /// What was admitted without the store: by node and bucket.
    pub alone: BTreeMap<(usize, usize), Vec<SoloEvent>>,
    /// Faults after which more may be spent, by bucket or of all buckets.
    pub reliefs: Vec<(Nanos, Option<usize>, Allowance)>,
    /// The largest bound that was published, by limit.
    pub bounds: BTreeMap<String, u64>,
    /// How much longer than its life a lease may have lived by the true time, at each node.
    pub stretched: BTreeMap<usize, Nanos>,
    /// Promises that were tested, and those that were broken.
    pub promises: u64,
    /// In words.
    pub broken: Vec<String>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct SimRequest {
    /// At which node.
    pub node: usize,
    /// When.
    pub from: Nanos,
    /// When it was decided.
    pub until: Nanos,
    /// Its cost.
    pub cost: u32,
    /// How many limits it named.
    pub limits: usize,
    /// How it was decided.
    pub said: NodeAnswer,
}

/// Something about a node that is by itself.
#[derive(Clone, Copy, Debug)]
pub enum SoloEvent {
    /// So many tokens were spent while it held so many nodes to be alive.
    Spent(Nanos, u32, u32),
    /// It may spend more now.
    Allowance(Nanos, Allowance),
}

impl SoloEvent {
    /// When that was.
    pub fn at(&self) -> Nanos {
        match *self {
            SoloEvent::Spent(at, ..) | SoloEvent::Allowance(at, _) => at,
        }
    }
}

impl ScenarioRun {
    /// Sets the stage.
    pub fn set(scenario: Scenario, traced: bool) -> ScenarioRun {
        let world = World::new(scenario.seed, traced);
        world.note(None, format_args!("{scenario:?}"));
        let limits = scenario.buckets().into_iter().map(|limit| scenario.limits[limit].limit).collect();
        let ledger = Ledger::new(limits);
        let network = Network::new(world.clone(), scenario.nodes, scenario.weather, ledger.clone());
        for &drift in &scenario.drifts {
            // Nodes do not agree on the time of day.
            let off = Nanos::from_millis(world.by_chance(|random| random.between(0, 7_200_000)));
            world.add_node(ClockDriver::new(START.saturating_add(off).saturating_sub(Nanos::HOUR), drift));
        }
        let nodes = Arc::new(Mutex::new(vec![None; scenario.nodes]));
        let scenario = Arc::new(scenario);
        ScenarioRun { world, network, ledger, scenario, notes: Arc::default(), nodes }
    }

    /// Plays it to its end.
    pub fn play(&self) {
        for node in 0..self.scenario.nodes {
            self.start(node);
        }
        clients::test_promises(self);
        for fault in &self.scenario.faults {
            self.plan(*fault);
        }
        self.look_at_bounds();
        self.world.run_until(self.scenario.end);
    }

    /// The engine of a node, if it is alive.
    pub fn limiter(&self, node: usize) -> Option<Arc<NodeLimiter>> {
        lock(&self.nodes)[node].clone()
    }

    fn start(&self, node: usize) {
        let limiter = node::start(&self.world, &self.network, &self.scenario, node);
        lock(&self.nodes)[node] = Some(limiter);
        clients::come(self, node);
    }

    fn end(&self, node: usize) -> Option<Arc<NodeLimiter>> {
        self.world.kill(node);
        lock(&self.nodes)[node].take()
    }

    fn look_at_bounds(&self) {
        let stage = self.clone();
        self.world.after(LOOK_EVERY, move || {
            for node in 0..stage.scenario.nodes {
                let Some(limiter) = stage.limiter(node) else { continue };
                for (limit, bound) in limiter.store().overshoot_bounds() {
                    // A store knows a limit by its name and the descriptors of its key.
                    let name = limit.split('\u{1f}').next().unwrap_or_default().to_owned();
                    let mut notes = lock(&stage.notes);
                    let largest = notes.bounds.entry(name).or_default();
                    *largest = bound.max(*largest);
                }
            }
            stage.look_at_bounds();
        });
    }

    fn plan(&self, fault: Fault) {
        if let FaultKind::Failover { lag } | FaultKind::TwoMasters { lag, .. } = fault.what {
            let (stage, kept) = (self.clone(), Arc::new(Mutex::new(Model::default())));
            let replica = Arc::clone(&kept);
            self.world.at(fault.from.saturating_sub(lag), move || {
                *lock(&replica) = stage.network.with_model(|model| model.clone());
            });
            let stage = self.clone();
            match fault.what {
                FaultKind::TwoMasters { stay, .. } => {
                    self.world.at(fault.from, move || stage.split(&lock(&kept), stay, &fault));
                }
                _ => self.world.at(fault.until, move || stage.fail_over(&lock(&kept))),
            }
        }
        let stage = self.clone();
        self.world.at(fault.from, move || stage.begin(&fault));
        let stage = self.clone();
        self.world.at(fault.until, move || stage.mend(&fault));
    }

    fn begin(&self, fault: &Fault) {
        self.world.note(None, format_args!("begins: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(weather) => self.network.set_weather(weather),
            FaultKind::Partition(nodes) => self.cut(nodes, true),
            FaultKind::Restart { .. } | FaultKind::Failover { .. } => self.network.go_down(),
            FaultKind::TwoMasters { .. } => {}
            FaultKind::ScriptFlush => self.network.forget_scripts(),
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = true),
            FaultKind::ServerStep(by) => {
                self.network.step_clock(by);
                if let Ok(by) = u64::try_from(by) {
                    self.relieve(None, Allowance::Jump(Nanos::new(by)));
                }
            }
            FaultKind::NodeStep(node, by) => {
                self.world.turn_clock(node, |hands, now| hands.step(now, by));
                if by < 0 {
                    self.stretch(node, Nanos::new(by.unsigned_abs()));
                } else {
                    self.relieve_alone(node, Allowance::Jump(Nanos::new(by.unsigned_abs())));
                }
            }
            FaultKind::Suspend { node, clock_stands } => {
                self.world.stop(node);
                if clock_stands {
                    self.world.turn_clock(node, |hands, now| hands.stand_still(now, true));
                    self.stretch(node, fault.until.saturating_sub(fault.from));
                }
            }
            FaultKind::Crash(node) => drop(self.end(node)),
            FaultKind::Leave(node) => self.leave(node),
            FaultKind::Poison => {
                for key in self.network.with_model(|model| model.poison(|_| true)) {
                    let bucket = self.ledger.bucket_of(&key);
                    self.relieve(bucket, Allowance::Capacity);
                }
            }
        }
    }

    fn mend(&self, fault: &Fault) {
        self.world.note(None, format_args!("ends: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(_) => self.network.set_weather(self.scenario.weather),
            FaultKind::Partition(nodes) => self.cut(nodes, false),
            FaultKind::Restart { empty: false } => self.network.come_up(|_| {}, ATTEMPT_PAUSE),
            FaultKind::Restart { empty: true } => {
                self.network.come_up(Model::wipe, ATTEMPT_PAUSE);
                self.relieve(None, Allowance::Capacity);
            }
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = false),
            FaultKind::Suspend { node, clock_stands } => {
                if clock_stands {
                    self.world.turn_clock(node, |hands, now| hands.stand_still(now, false));
                }
                self.world.go_on(node);
            }
            FaultKind::Crash(node) | FaultKind::Leave(node) => {
                drop(self.end(node));
                self.relieve_alone(node, Allowance::Capacity);
                self.start(node);
            }
            FaultKind::TwoMasters { .. } => self.network.leave_the_old_master(),
            FaultKind::Failover { .. }
            | FaultKind::ScriptFlush
            | FaultKind::ServerStep(_)
            | FaultKind::NodeStep(..)
            | FaultKind::Poison => {}
        }
    }

    fn fail_over(&self, replica: &Model) {
        // What the other lacked in memory, the replica has.
        let mut replica = replica.clone();
        replica.out_of_memory = false;
        self.network.come_up(|model| *model = replica, ATTEMPT_PAUSE);
        self.relieve(None, Allowance::Capacity);
    }

    /// Both masters give for as long as somebody stays with the old one, and leases of both are out then.
    fn split(&self, replica: &Model, stay: u64, fault: &Fault) {
        self.network.split(replica.clone(), |node| stay >> node & 1 == 1);
        let life = match self.scenario.mode {
            StoreMode::Strict => Nanos::ZERO,
            // By a clock that is as slow as any.
            StoreMode::Hybrid { life } => Nanos::new(life.get() + life.get() / 1_000 + 1_000),
        };
        let both = fault.until.saturating_sub(fault.from);
        self.relieve(None, Allowance::TwoMasters(both.saturating_add(life)));
    }

    /// A node that is told to go: no more clients, then what it has not used is given back.
    fn leave(&self, node: usize) {
        if let Some(limiter) = self.end(node) {
            self.world.spawn(Some(node), async move { limiter.store().leave().await });
        }
    }

    fn cut(&self, nodes: u64, is_cut: bool) {
        for node in (0..self.scenario.nodes).filter(|node| nodes >> node & 1 == 1) {
            self.network.cut(node, is_cut);
        }
    }

    fn relieve(&self, bucket: Option<usize>, relief: Allowance) {
        lock(&self.notes).reliefs.push((self.world.now(), bucket, relief));
    }

    fn relieve_alone(&self, node: usize, relief: Allowance) {
        let now = self.world.now();
        let mut notes = lock(&self.notes);
        for bucket in 0..self.scenario.buckets().len() {
            notes.alone.entry((node, bucket)).or_default().push(SoloEvent::Allowance(now, relief));
        }
    }

    fn stretch(&self, node: usize, by: Nanos) {
        let mut notes = lock(&self.notes);
        let stretched = notes.stretched.entry(node).or_default();
        *stretched = stretched.saturating_add(by);
    }
}
