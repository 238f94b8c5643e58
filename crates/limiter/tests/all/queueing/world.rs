//! A limiter with waiting requests, on a clock that advances from one timer to the next. Only woken requests
//! are polled, so a lost wake-up leaves a request waiting for ever.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::engine::{Decision, Limiter, Policy, Priority, Request};
use tidegate::{Clock, Cost, Memory, MemoryOptions, Nanos};

use super::kept::{Kept, Timers};
use super::turns::Turns;

type Node = Limiter<Kept, Timers>;

/// The result of a future that is ready.
fn ready<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A limit of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) name: &'static str,
    pub(crate) by_user: bool,
    pub(crate) rate: u64,
    pub(crate) window_secs: u64,
    pub(crate) capacity: u64,
    pub(crate) cost: u64,
    /// How many may wait, and for how many milliseconds; without it, the limit rejects.
    pub(crate) queue: Option<(usize, u64)>,
}

impl Terms {
    fn text(&self) -> String {
        let Terms { name, rate, window_secs, capacity, cost, .. } = self;
        let key = if self.by_user { "user" } else { "" };
        let queue = self.queue.map_or(String::new(), |(depth, wait)| {
            format!(", strategy: queue, queue: {{ max_depth: {depth}, max_wait: {wait}ms }}")
        });
        format!(
            "  - {{ name: {name}, key: [{key}], sustained: {{ rate: {rate}, window: {window_secs}s }}, \
             burst: {{ capacity: {capacity} }}, cost: {cost}{queue} }}\n"
        )
    }
}

/// The key, tenant and priority of a request, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) tenant: &'static str,
    pub(crate) user: &'static str,
    pub(crate) priority: u8,
    pub(crate) cost: u32,
}

impl Asker {
    fn request(self) -> Request<'static> {
        let priority = Priority::new(self.priority).expect("it is at most 100");
        let request = Request::new().user(self.user).cost(Cost::new(self.cost)).priority(priority);
        if self.tenant.is_empty() { request } else { request.tenant(self.tenant) }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Admit(Asker),
    Check(Asker),
    /// A place with a fixed instant, used exactly then.
    TakePlace(Asker),
    /// A waiting request is dropped.
    Leave(usize),
    /// A waiting request is not polled from now on, or is again.
    Doze(usize),
    /// Milliseconds pass, timer by timer.
    Wait(u64),
    /// They pass at once: every timer is late.
    Jump(u64),
    /// The same policy again.
    Swap,
    /// All rates are halved, or restored.
    Edit,
}

type Waiting = Pin<Box<dyn Future<Output = Decision>>>;

struct Task {
    future: Waiting,
    woken: Arc<Flag>,
    asker: Asker,
    arrived: Nanos,
    /// The wait that a check returned on its arrival.
    told: Nanos,
    dozes: bool,
}

pub(crate) struct World {
    nodes: Vec<Arc<Node>>,
    clock: Timers,
    terms: Vec<Terms>,
    is_edited: bool,
    is_halved: bool,
    tasks: BTreeMap<u64, Task>,
    numbers: u64,
    /// By limit and key: what was admitted, and when.
    gone: HashMap<(usize, &'static str), Vec<(Nanos, u64)>>,
    held: Vec<(Nanos, Asker)>,
    turns: Turns,
    /// Is every request polled in time?
    is_prompt: bool,
    is_as_told: bool,
}

impl World {
    pub(crate) fn new(terms: &[Terms]) -> World {
        World::of_nodes(1, terms)
    }

    /// The nodes; if there are several, they share a store.
    pub(crate) fn of_nodes(nodes: usize, terms: &[Terms]) -> World {
        let clock = Timers::new();
        let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
        let memory = Arc::new(Memory::with_clock(options, clock.clone()).unwrap());
        let node = |_| {
            let store = Kept { memory: Arc::clone(&memory), is_shared: nodes > 1 };
            Arc::new(Limiter::with_store(policy(terms, false), store, clock.clone()).unwrap())
        };
        World {
            nodes: (0..nodes).map(node).collect(),
            clock,
            terms: terms.to_vec(),
            is_edited: false,
            is_halved: false,
            tasks: BTreeMap::new(),
            numbers: 0,
            gone: HashMap::new(),
            held: Vec::new(),
            turns: Turns::default(),
            is_prompt: true,
            is_as_told: true,
        }
    }

    /// Did all admitted requests wait as long as a check said on their arrival?
    pub(crate) fn is_as_told(&self) -> bool {
        self.is_as_told
    }

    /// Do all requests wait for the same bucket, and nothing else?
    fn is_one_line(&self) -> bool {
        let is_one_bucket = self.terms.len() == 1 && !self.terms[0].by_user;
        self.nodes.len() == 1 && is_one_bucket && !self.is_edited
    }

    /// The node to which a request goes.
    fn node(&self, asker: Asker) -> Arc<Node> {
        let place = usize::from(asker.user == "2") % self.nodes.len();
        Arc::clone(&self.nodes[place])
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match *step {
            Step::Admit(asker) => self.admit(asker),
            Step::Check(asker) => {
                if ready(self.node(asker).check_async(&asker.request())).is_allowed() {
                    self.let_go(asker, self.clock.now());
                }
            }
            Step::TakePlace(asker) => self.take_place(asker),
            Step::Leave(who) => {
                if let Some(number) = self.pick(who) {
                    self.tasks.remove(&number);
                    self.turns.leave(number);
                }
            }
            Step::Doze(who) => {
                self.is_prompt = false;
                if let Some(task) = self.pick(who).and_then(|number| self.tasks.get_mut(&number)) {
                    task.dozes = !task.dozes;
                }
            }
            Step::Wait(millis) => self.pass(self.clock.now().saturating_add(Nanos::from_millis(millis))),
            Step::Jump(millis) => {
                self.is_prompt = false;
                self.set(self.clock.now().saturating_add(Nanos::from_millis(millis)));
            }
            Step::Swap => self.swap(),
            Step::Edit => {
                self.is_edited = true;
                self.is_halved = !self.is_halved;
                self.swap();
            }
        }
        self.poll_woken();
    }

    fn swap(&self) {
        for node in &self.nodes {
            node.swap(policy(&self.terms, self.is_halved)).unwrap();
        }
    }

    fn pick(&self, who: usize) -> Option<u64> {
        let among = self.tasks.len().max(1);
        self.tasks.keys().nth(who % among).copied()
    }

    fn admit(&mut self, asker: Asker) {
        let node = self.node(asker);
        let told = ready(node.peek_async(&asker.request())).wait().unwrap_or_default();
        let future: Waiting = Box::pin(async move { node.admit(&asker.request()).await });
        self.numbers += 1;
        let number = self.numbers;
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        let task = Task { future, woken, asker, arrived: self.clock.now(), told, dozes: false };
        self.tasks.insert(number, task);
        self.turns.join(asker, number);
        self.poll(number);
        if self.is_one_line() {
            let (max_depth, _) = self.terms[0].queue.unwrap();
            let held = self.held.iter().filter(|(due, _)| *due > self.clock.now()).count();
            assert!(self.tasks.len() + held <= max_depth, "more wait than may");
        }
    }

    fn take_place(&mut self, asker: Asker) {
        let now = self.clock.now();
        let node = self.node(asker);
        let (decision, place) = ready(node.take_place_async(&asker.request()));
        // It keeps its place until its instant, as if it were served then.
        std::mem::forget(place);
        if decision.is_allowed() {
            let due = now.saturating_add(decision.queued().unwrap_or_default().into());
            self.held.push((due, asker));
            self.let_go(asker, due);
        }
    }

    /// Records what a request takes from each limit, counted at `at`.
    fn let_go(&mut self, asker: Asker, at: Nanos) {
        for (place, terms) in self.terms.iter().enumerate() {
            let key = if terms.by_user { asker.user } else { "" };
            let cost = u64::from(asker.cost) * terms.cost;
            self.gone.entry((place, key)).or_default().push((at, cost));
        }
    }

    /// Is the request finished?
    fn poll(&mut self, number: u64) -> bool {
        let Some(task) = self.tasks.get_mut(&number) else { return true };
        task.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&task.woken));
        let Poll::Ready(decision) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return false;
        };
        let task = self.tasks.remove(&number).expect("it has just been polled");
        self.finish(number, &task, &decision);
        true
    }

    fn finish(&mut self, number: u64, task: &Task, decision: &Decision) {
        let (asker, now) = (task.asker, self.clock.now());
        let waited = now.saturating_sub(task.arrived);
        // A charge of a bucket's whole capacity moves those before it by less than a nanosecond.
        let rounded = task.told.saturating_add(Nanos::new(self.numbers));
        self.is_as_told &= (task.told..=rounded).contains(&waited) || !decision.is_allowed();
        if self.is_prompt {
            let bearable = self.terms.iter().filter_map(|terms| terms.queue).map(|(_, wait)| wait).max();
            assert!(waited <= Nanos::from_millis(bearable.unwrap_or(0)), "{asker:?} has waited {waited}");
        }
        if !decision.is_allowed() {
            return self.turns.leave(number);
        }
        self.let_go(asker, now);
        match decision.queued() {
            None => self.turns.leave(number),
            Some(told) => {
                assert_eq!(Nanos::from(told), waited);
                let turn = self.turns.next();
                if self.is_prompt && self.is_one_line() {
                    assert_eq!(turn, Some(number), "out of turn");
                } else if turn != Some(number) {
                    self.turns.leave(number);
                }
            }
        }
    }

    fn poll_woken(&mut self) {
        loop {
            let is_woken = |task: &Task| !task.dozes && task.woken.0.load(Ordering::SeqCst);
            let woken: Vec<u64> =
                self.tasks.iter().filter(|(_, task)| is_woken(task)).map(|(number, _)| *number).collect();
            if woken.is_empty() {
                return;
            }
            for number in woken {
                self.poll(number);
            }
        }
    }

    fn set(&mut self, now: Nanos) {
        self.clock.set(now);
        self.poll_woken();
    }

    /// Time passes, from timer to timer.
    pub(crate) fn pass(&mut self, until: Nanos) {
        while let Some(next) = self.clock.next().filter(|next| *next <= until) {
            self.set(next.max(self.clock.now()));
        }
        self.set(until);
    }

    /// Every waiting request is answered within its `max_wait`, and what was admitted is within the limits.
    pub(crate) fn close(&mut self) {
        self.tasks.values_mut().for_each(|task| task.dozes = false);
        self.poll_woken();
        let patience = self.terms.iter().filter_map(|terms| terms.queue).map(|(_, wait)| wait).max();
        self.pass(self.clock.now().saturating_add(Nanos::from_millis(patience.unwrap_or(0))));
        assert!(self.tasks.is_empty(), "{} wait for ever", self.tasks.len());
        for ((place, key), gone) in &mut self.gone {
            gone.sort_unstable();
            // Requests that wait while a limit is edited are admitted by the old numbers, in addition to those
            // that come later.
            if !self.is_edited {
                keeps_to(&self.terms[*place], key, gone);
            }
        }
    }
}

fn policy(terms: &[Terms], is_halved: bool) -> Policy {
    let slower =
        |terms: &Terms| Terms { window_secs: terms.window_secs << u32::from(is_halved), ..terms.clone() };
    let limits: String = terms.iter().map(|terms| slower(terms).text()).collect();
    let text = format!("version: 1\nlimits:\n{limits}");
    Policy::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// *B + R·t* over every pair of instants, exactly.
fn keeps_to(terms: &Terms, key: &str, gone: &[(Nanos, u64)]) {
    let window = u128::from(terms.window_secs) * 1_000_000_000;
    for (first, (from, _)) in gone.iter().enumerate() {
        let mut sum = 0;
        for (until, cost) in &gone[first..] {
            sum += u128::from(*cost);
            let span = u128::from(until.get() - from.get());
            let bound = u128::from(terms.capacity) * window + u128::from(terms.rate) * span;
            assert!(
                sum * window <= bound,
                "{} of {key:?}: {sum} within {} of {terms:?}\n{gone:?}",
                terms.name,
                Nanos::new(until.get() - from.get()),
            );
        }
    }
}
