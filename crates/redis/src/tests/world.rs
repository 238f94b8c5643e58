//! Nodes that share a server: all in memory, with delays, and a clock that is moved by hand.

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

use crate::link::{
    BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Link, LinkError, ScriptCall, State,
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

/// A server that keeps words. It answers exactly what core says.
#[derive(Debug, Default)]
struct Model {
    words: Mutex<BTreeMap<BucketKey, u64>>,
    nodes: Mutex<BTreeSet<u128>>,
    /// How many nanoseconds its clock is behind that of the nodes.
    behind: AtomicU64,
}

/// What a node has asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) calls: AtomicU64,
    /// When something was to be leased.
    pub(super) leases: Mutex<Vec<Nanos>>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelLink {
    model: Arc<Model>,
    pub(super) clock: ManualClock,
    pub(super) asked: Arc<Asked>,
    /// How long calls and answers travel, in nanoseconds.
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

    async fn beat(&self, node: u128, alive: bool, _within: Nanos) -> Result<u32, LinkError> {
        let mut nodes = self.model.nodes.lock().unwrap();
        if alive {
            nodes.insert(node)
        } else {
            nodes.remove(&node)
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
        let mut said = CallOutcome::Done;
        for binding in [true, false] {
            for entry in call.entries.iter().filter(|entry| entry.binding == binding) {
                if !charge(entry, call.verb, after.entry(entry.key.clone()).or_default(), now) && binding {
                    said = CallOutcome::Refused;
                }
            }
        }
        if said == CallOutcome::Done && call.verb == CallVerb::Take {
            for (entry, leased) in call.entries.iter().zip(&mut leased).filter(|(entry, _)| entry.want > 0) {
                let meter = entry.limit.meter().expect("logs are not leased");
                let word = after.get_mut(&entry.key).expect("it was charged");
                let left = meter.peek(*word, Cost::ZERO, now).remaining;
                *leased = entry.want.min(left / 2);
                *word = meter.charge(*word, Cost::new(*leased), now).expect("half of what is left");
            }
        }
        if said == CallOutcome::Done && call.verb != CallVerb::Peek {
            *words = after;
        }
        CallAnswer { at: now, said, found, leased: leased.into(), poisoned: 0 }
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

    /// Nodes that remember about so many keys.
    pub(super) fn knowing(nodes: usize, mode: StoreMode, max_known: usize) -> World {
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
            let options = StoreOptions { node: number as u128, max_known, ..StoreOptions::new(mode) };
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
        World::new(nodes, StoreMode::Hybrid { life: LIFE })
    }

    /// The same limit on every node.
    pub(super) fn limit(&self, name: &str, limit: Limit) -> LimitRef {
        let named = self.nodes.iter().map(|node| node.limit(name, limit, Carry::AsIs, START).unwrap());
        named.last().expect("there is a node")
    }

    pub(super) fn set(&self, now: Nanos) {
        self.clock.set(now);
    }

    pub(super) fn take(&self, node: usize, limit: &LimitRef, cost: u32) -> LimitDecision {
        let verdict = self.charge(node, Intent::Take, &[Charge::new(limit, b"key", Cost::new(cost))]);
        assert_eq!(verdict.allowed, verdict.decisions[0].is_allowed());
        verdict.decisions[0]
    }

    /// Where calls take no time.
    pub(super) fn charge(&self, node: usize, intent: Intent, charges: &[Charge<'_>]) -> Verdict {
        let now = self.clock.now();
        block_on_ready(self.nodes[node].charge(intent, charges, now)).unwrap()
    }

    pub(super) fn calls(&self) -> u64 {
        let calls = self.nodes.iter().map(|node| node.link().asked.calls.load(Ordering::SeqCst));
        calls.sum()
    }

    /// The server loses all it knew, as one does that was flushed, or is followed by an empty one.
    pub(super) fn forget_everything(&self) {
        self.nodes[0].link().model.words.lock().unwrap().clear();
    }

    /// The server's clock is behind that of the nodes, as that of the one which follows may be.
    pub(super) fn fall_behind(&self, by: Nanos) {
        self.nodes[0].link().model.behind.store(by.get(), Ordering::SeqCst);
    }

    /// Makes a key hot on a node, and comes to `begin` with it.
    pub(super) fn warm_up(&self, node: usize, limit: &LimitRef, begin: u64) {
        self.set(at(begin - 50));
        (0..3).for_each(|_| assert!(self.take(node, limit, 1).is_allowed()));
        self.set(at(begin));
    }

    /// Lets every node do what it has to do.
    pub(super) fn tend<'w>(&'w self, tasks: &mut Tasks<'w>) {
        self.nodes.iter().for_each(|node| tasks.add(node.tend()));
    }
}

/// Things that go on at the same time.
#[derive(Default)]
pub(super) struct Tasks<'a>(Vec<Task<'a>>);

impl<'a> Tasks<'a> {
    pub(super) fn add(&mut self, task: impl Future<Output = ()> + Send + 'a) {
        self.0.push(Box::pin(task));
        self.poll();
    }

    /// Lets each go on as far as it can.
    pub(super) fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // Twice, for what one does for another.
        for _ in 0..2 {
            self.0.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
        }
    }
}
