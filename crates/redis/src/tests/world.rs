//! Nodes that share a model of a server, with delays and a manual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tidegate::testing::block_on_ready;
use tidegate::{
    Carry, Charge, Clock, Cost, Intent, Limit, LimitDecision, LimitRef, ManualClock, Nanos, Quota, Sleep,
    Store, Verdict,
};

use crate::calls::{
    BucketEntry, BurstAnswer, BurstCall, CallAnswer, CallOutcome, CallVerb, FoundState, Heartbeat, Link,
    LinkError, PenaltyListAnswer, PenaltyListCall, ScriptCall, State,
};
use crate::{BucketKey, RedisStore, StoreMode, StoreOptions};

pub(super) type Node = RedisStore<ModelLink, ManualClock>;

pub(super) const LIFE: Nanos = Nanos::from_millis(100);
pub(super) const START: Nanos = Nanos::from_secs(1_800_000_000);

/// `millis` after the start.
pub(super) fn at(millis: u64) -> Nanos {
    START.saturating_add(Nanos::from_millis(millis))
}

pub(super) fn bucket(rate: u64, capacity: u32) -> Limit {
    Quota::new(rate, Nanos::SECOND, capacity).unwrap().into()
}

/// A model of a server that stores words, with core's arithmetic.
#[derive(Debug, Default)]
struct Model {
    words: Mutex<BTreeMap<BucketKey, u64>>,
    nodes: Mutex<BTreeSet<u128>>,
    /// How many nanoseconds its clock is behind that of the nodes.
    behind: AtomicU64,
}

/// The calls of a node.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) calls: AtomicU64,
    /// When a call wanted a lease.
    pub(super) leases: Mutex<Vec<Nanos>>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelLink {
    model: Arc<Model>,
    pub(super) clock: ManualClock,
    pub(super) asked: Arc<Asked>,
    /// The delays of calls and of answers, in nanoseconds.
    pub(super) there: Arc<AtomicU64>,
    pub(super) back: Arc<AtomicU64>,
    pub(super) is_down: Arc<AtomicBool>,
}

impl Link for ModelLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        self.asked.calls.fetch_add(1, Ordering::SeqCst);
        if call.entries.iter().any(|entry| entry.want > 0) {
            self.asked.leases.lock().unwrap().push(self.clock.now());
        }
        let back = Nanos::new(self.back.load(Ordering::SeqCst));
        self.clock.sleep(Nanos::new(self.there.load(Ordering::SeqCst))).await;
        if self.is_down.load(Ordering::SeqCst) {
            return Err(LinkError::Down("by request".into()));
        }
        let behind = Nanos::new(self.model.behind.load(Ordering::SeqCst));
        let now = self.clock.now().saturating_sub(behind);
        let answer = self.model.answer(call, call.at.unwrap_or(now));
        self.clock.sleep(back).await;
        Ok(answer)
    }

    async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        Err(LinkError::Down("this model counts no bursts".into()))
    }

    async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        Err(LinkError::Down("this model counts no bursts".into()))
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        let mut nodes = self.model.nodes.lock().unwrap();
        if heartbeat.alive {
            nodes.insert(heartbeat.node)
        } else {
            nodes.remove(&heartbeat.node)
        };
        Ok(nodes.len() as u32)
    }
}

impl Model {
    fn answer(&self, call: &ScriptCall, now: Nanos) -> CallAnswer {
        let mut words = self.words.lock().unwrap();
        let before = |entry: &BucketEntry| words.get(&entry.key).copied().unwrap_or(0);
        let found = call.entries.iter().map(|entry| FoundState::Here(State::Word(before(entry)))).collect();
        let mut after = words.clone();
        let mut leased = vec![0; call.entries.len()];
        let mut outcome = CallOutcome::Done;
        for binding in [true, false] {
            for entry in call.entries.iter().filter(|entry| entry.binding == binding) {
                if !charge(entry, call.verb, after.entry(entry.key.clone()).or_default(), now) && binding {
                    outcome = CallOutcome::Refused;
                }
            }
        }
        if outcome == CallOutcome::Done && call.verb == CallVerb::Take {
            for (entry, leased) in call.entries.iter().zip(&mut leased).filter(|(entry, _)| entry.want > 0) {
                let meter = entry.limit.meter().expect("logs are not leased");
                let word = after.get_mut(&entry.key).expect("it was charged");
                let left = meter.peek(*word, Cost::ZERO, now).remaining;
                *leased = entry.want.min(left / 2);
                *word = meter.charge(*word, Cost::new(*leased), now).expect("half of what is left");
            }
        }
        if outcome == CallOutcome::Done && call.verb != CallVerb::Peek {
            *words = after;
        }
        CallAnswer { at: now, outcome, found, leased: leased.into(), poisoned: 0 }
    }
}

fn charge(entry: &BucketEntry, verb: CallVerb, word: &mut u64, now: Nanos) -> bool {
    let meter = entry.limit.meter().expect("the model has no logs");
    let after = match verb {
        CallVerb::Take | CallVerb::Peek => meter.charge_ahead(*word, entry.cost, now, entry.delay),
        CallVerb::Refund => Some(meter.refund(*word, entry.cost, now)),
        CallVerb::HandBack => {
            Some(meter.hand_back(*word, entry.cost, meter.as_of(entry.charged_at, entry.delay), now))
        }
    };
    *word = after.unwrap_or(*word);
    after.is_some()
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Nodes on one server.
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) clock: ManualClock,
}

impl World {
    pub(super) fn new(nodes: usize, mode: StoreMode) -> World {
        World::knowing(nodes, mode, 1_000_000)
    }

    /// Nodes that remember about `max_remembered` keys.
    pub(super) fn knowing(nodes: usize, mode: StoreMode, max_remembered: usize) -> World {
        let clock = ManualClock::new(START);
        let model = Arc::new(Model::default());
        let node = |number: usize| {
            let link = ModelLink {
                model: model.clone(),
                clock: clock.clone(),
                asked: Arc::default(),
                there: Arc::default(),
                back: Arc::default(),
                is_down: Arc::default(),
            };
            let options = StoreOptions { node: number as u128, max_remembered, ..StoreOptions::new(mode) };
            RedisStore::new(link, clock.clone(), options)
        };
        let world = World { nodes: (0..nodes).map(node).collect(), clock };
        for _ in 0..2 {
            world.nodes.iter().for_each(|node| block_on_ready(node.first_attempt()).unwrap());
        }
        world
    }

    pub(super) fn strict() -> World {
        World::new(1, StoreMode::Strict)
    }

    pub(super) fn hybrid(nodes: usize) -> World {
        World::new(nodes, StoreMode::Hybrid { life: LIFE.into() })
    }

    /// The same limit on every node.
    pub(super) fn limit(&self, name: &str, limit: Limit) -> LimitRef {
        let limit_on = |node: &Node| node.limit(name, limit, Carry::AsIs, START).unwrap();
        let mut named: Vec<LimitRef> = self.nodes.iter().map(limit_on).collect();
        named.pop().expect("there is a node")
    }

    pub(super) fn set(&self, now: Nanos) {
        self.clock.set(now);
    }

    pub(super) fn take(&self, node: usize, limit: &LimitRef, cost: u32) -> LimitDecision {
        let verdict = self.charge(node, Intent::Take, &[Charge::new(limit, b"key", Cost::new(cost))]);
        assert_eq!(verdict.allowed, verdict.decisions[0].is_allowed());
        verdict.decisions[0]
    }

    /// A charge whose calls take no time.
    pub(super) fn charge(&self, node: usize, intent: Intent, charges: &[Charge<'_>]) -> Verdict {
        let now = self.clock.now();
        block_on_ready(self.nodes[node].charge(intent, charges, now)).unwrap()
    }

    pub(super) fn calls(&self) -> u64 {
        let calls = self.nodes.iter().map(|node| node.link().asked.calls.load(Ordering::SeqCst));
        calls.sum()
    }

    /// The server loses its state, as after a flush or a failover to an empty replica.
    pub(super) fn forget_everything(&self) {
        self.nodes[0].link().model.words.lock().unwrap().clear();
    }

    /// Sets the server's clock behind the nodes' clocks, as after a failover.
    pub(super) fn fall_behind(&self, by: Nanos) {
        self.nodes[0].link().model.behind.store(by.get(), Ordering::SeqCst);
    }

    /// Makes a key hot on a node, and sets the clock to `begin`.
    pub(super) fn warm_up(&self, node: usize, limit: &LimitRef, begin: u64) {
        self.set(at(begin - 50));
        (0..3).for_each(|_| assert!(self.take(node, limit, 1).is_allowed()));
        self.set(at(begin));
    }

    /// Runs the maintenance of every node.
    pub(super) fn run_maintenance<'w>(&'w self, tasks: &mut Tasks<'w>) {
        self.nodes.iter().for_each(|node| tasks.add(node.run_maintenance()));
    }
}

/// Concurrent tasks.
#[derive(Default)]
pub(super) struct Tasks<'a>(Vec<Task<'a>>);

impl<'a> Tasks<'a> {
    pub(super) fn add(&mut self, task: impl Future<Output = ()> + Send + 'a) {
        self.0.push(Box::pin(task));
        self.poll();
    }

    /// Polls all tasks.
    pub(super) fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // Twice, since one task may wake another.
        for _ in 0..2 {
            self.0.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
        }
    }
}
